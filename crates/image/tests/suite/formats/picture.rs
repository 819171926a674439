//! Pictures in memory, with functions to read and write them.

use std::io::Cursor;
use std::path::Path;

use fastrand::Rng;
use pario_image::formats::{
    FormatError, FormatOptions, Rows, create_picture, open_picture, read_picture,
};
use pario_image::{Pixel, Sample};

/// A whole picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    pub size: (u64, u64),
    pub pixel: Pixel,
    pub bytes: Vec<u8>,
}

impl Picture {
    /// A picture of random bytes.
    pub fn random(size: (u64, u64), pixel: Pixel, seed: u64) -> Picture {
        let mut rng = Rng::with_seed(seed);
        let bytes = size.0 * size.1 * pixel.bytes() as u64;
        Picture { size, pixel, bytes: (0..bytes).map(|_| rng.u8(..)).collect() }
    }

    pub fn row_bytes(&self) -> usize {
        usize::try_from(self.size.0).unwrap() * self.pixel.bytes()
    }

    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(self.row_bytes())
    }

    pub fn write(&self, path: &Path) -> Result<(), FormatError> {
        let mut sink = create_picture(path, self.size.0, self.size.1, self.pixel)?;
        for row in self.rows() {
            sink.put_row(row)?;
        }
        sink.finish()
    }

    /// All rows of a reader.
    pub fn of(mut rows: Box<dyn Rows>) -> Result<Picture, FormatError> {
        let (size, pixel) = (rows.size(), rows.pixel());
        let mut picture = Picture { size, pixel, bytes: Vec::new() };
        let mut row = vec![0; picture.row_bytes()];
        for _ in 0..size.1 {
            rows.next_row(&mut row)?;
            picture.bytes.extend_from_slice(&row);
        }
        let error = rows.next_row(&mut row).expect_err("there was a row too many");
        assert!(matches!(error, FormatError::Misuse { .. }), "{error}");
        Ok(picture)
    }

    pub fn read(path: &Path) -> Result<Picture, FormatError> {
        Picture::of(open_picture(path, &FormatOptions::default())?)
    }

    pub fn parse(bytes: &[u8]) -> Result<Picture, FormatError> {
        let source = Cursor::new(bytes.to_vec());
        Picture::of(read_picture("picture", source, &FormatOptions::default())?)
    }
}

pub fn pixel(sample: Sample, channels: u32) -> Pixel {
    Pixel::new(sample, channels).unwrap()
}

/// All pixel types.
pub fn all_pixels() -> impl Iterator<Item = Pixel> {
    Sample::ALL.into_iter().flat_map(|sample| (1..=4).map(move |channels| pixel(sample, channels)))
}
