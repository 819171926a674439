//! Picture and volume files of other programs, read and written row by row.
//!
//! A picture may be far larger than memory: a reader keeps a few rows, or the decoder state of each
//! tile of a row of tiles. It checks the sizes in the file against [`FormatOptions::memory_bytes`]
//! before it allocates memory for them.
//!
//! | format | read | written |
//! | --- | --- | --- |
//! | PNG | all kinds; interlaced ones if they fit into memory | u8 and u16, 1 to 4 channels |
//! | JPEG | baseline and progressive, grey and colour, if the picture fits into memory | |
//! | TIFF, BigTIFF | strips and tiles, plain, PackBits, LZW and Deflate; pages as a volume | all pixels, plain strips |
//! | PNM | P1 to P6, PAM (P7), PFM | P5, P6, PAM, PFM |
//! | NRRD | raw and gzip, attached and detached, pictures and volumes | raw, attached |
//! | NIfTI-1 | one file, plain and gzip; slope and intercept are applied | volumes, one plain file |
//! | DICOM | slices of one series without compression; slope and intercept are applied | |
//! | npy | arrays in C order | volumes |
//! | raw | pixels that the caller describes, of exactly this length | little-endian |
//! | stack | pictures of the same size and pixel, as a volume | |
//!
//! The bytes of a row are as in [`Pixel`]: little-endian, channels interleaved, x fastest. Numbers
//! that no [`Sample`](crate::Sample) can hold become f32; [`Rows::notes`] says so.
//!
//! ```
//! use pario_image::formats::{create_picture, open_picture, FormatOptions};
//! use pario_image::Pixel;
//!
//! let dir = tempfile::tempdir()?;
//! let path = dir.path().join("ramp.png");
//! let mut sink = create_picture(&path, 4, 2, Pixel::GREY)?;
//! sink.put_row(&[0, 1, 2, 3])?;
//! sink.put_row(&[4, 5, 6, 7])?;
//! sink.finish()?;
//!
//! let mut rows = open_picture(&path, &FormatOptions::default())?;
//! assert_eq!((rows.size(), rows.pixel()), ((4, 2), Pixel::GREY));
//! let mut row = [0; 4];
//! rows.next_row(&mut row)?;
//! assert_eq!(row, [0, 1, 2, 3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod byte_io;
mod dicom;
mod error;
mod jpeg;
mod nifti;
mod nifti_writer;
mod npy;
mod npy_writer;
mod nrrd;
mod numbers;
mod open;
mod png;
mod pnm;
mod raster;
mod raw;
mod samples;
mod stack;
mod tiff;
mod volume;

pub use byte_io::{ByteSink, ByteSource};
pub use error::{FilePosition, FormatError};
pub use jpeg::JpegRows;
pub use nifti_writer::nifti_sink;
pub use npy_writer::npy_sink;
pub use nrrd::nrrd_sink;
pub use numbers::{FileNumber, FilePixel};
pub use open::{create_picture, create_volume, create_volume_as, open_picture, read_picture};
pub use png::{PngRows, PngSink};
pub use pnm::{PnmKind, PnmRows, PnmSink};
pub use raw::{RawLayout, RawRows, RawSink};
pub use samples::ByteOrder;
pub use stack::{PictureStack, natural_order};
pub use tiff::{TiffPages, TiffRows, tiff_sink};
pub use volume::{VolumeSource, open_volume, read_volume};

use crate::Pixel;

/// A picture that is read row by row, from the top.
pub trait Rows: Send {
    /// Returns width and height.
    fn size(&self) -> (u64, u64);

    /// Returns the pixel.
    fn pixel(&self) -> Pixel;

    /// Reads the next row into `row`, which must have the length of a row.
    fn next_row(&mut self, row: &mut [u8]) -> Result<(), FormatError>;

    /// Returns notes for the user on how the file was interpreted, such as samples that are stored
    /// as another type: one sentence each, without the name of the file.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A picture that is written row by row, from the top. Without [`RowSink::finish`] it is
/// incomplete.
pub trait RowSink: Send {
    /// Writes the next row.
    fn put_row(&mut self, row: &[u8]) -> Result<(), FormatError>;

    /// Ends the picture. Fails unless all rows were written.
    fn finish(self: Box<Self>) -> Result<(), FormatError>;
}

/// Options for reading files of other programs.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Limit for the memory that is allocated at a time: for a row, for a row of tiles, for the
    /// list of strips or tiles, for an interlaced picture.
    pub memory_bytes: usize,
    /// Whether the header of a volume may name a data file outside its own directory.
    pub data_anywhere: bool,
    /// The UID of the DICOM series to read, where there are several.
    pub series: Option<String>,
}

impl Default for FormatOptions {
    /// Returns the defaults: 256 MiB, and data files only in the directory of their header.
    fn default() -> FormatOptions {
        FormatOptions { memory_bytes: 256 << 20, data_anywhere: false, series: None }
    }
}
