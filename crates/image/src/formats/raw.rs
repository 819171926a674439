//! Pixels without a header: the caller describes them.

use std::io::{BufRead, Read, SeekFrom, Write};

use super::byte_io::{self, ByteSource};
use super::numbers::{Conversion, RowConverter};
use super::raster::{Raster, RasterReader};
use super::{ByteOrder, FilePixel, FilePosition, FormatError, FormatOptions, RowSink};
use crate::Pixel;

/// The content of a file without a header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RawLayout {
    /// Width, height and depth; a picture has depth 1.
    pub size: [u64; 3],
    /// The pixels.
    pub pixel: FilePixel,
    /// The byte order of a number.
    pub order: ByteOrder,
    /// Bytes before the first pixel.
    pub skip_bytes: u64,
}

impl RawLayout {
    /// Returns the bytes of all pixels in the file; `u64::MAX` if the number overflows.
    pub(super) fn data_bytes(&self) -> u64 {
        let each = self.pixel.bytes() as u64;
        self.size.iter().fold(each, |all, side| all.saturating_mul(*side))
    }

    /// Fails if a file is shorter than `before_bytes` and all pixels.
    pub(super) fn check_enough(
        &self,
        name: &str,
        before_bytes: u64,
        has_bytes: u64,
    ) -> Result<(), FormatError> {
        let needed_bytes = before_bytes.saturating_add(self.data_bytes());
        if has_bytes >= needed_bytes {
            return Ok(());
        }
        let name = name.to_owned();
        Err(FormatError::Short { name, has_bytes, needed_bytes, what: self.what() })
    }

    /// Fails unless a file has exactly the bytes of the layout.
    fn check_exact(&self, name: &str, has_bytes: u64) -> Result<(), FormatError> {
        self.check_enough(name, self.skip_bytes, has_bytes)?;
        let needed_bytes = self.skip_bytes.saturating_add(self.data_bytes());
        if has_bytes == needed_bytes {
            return Ok(());
        }
        let name = name.to_owned();
        Err(FormatError::Long { name, has_bytes, needed_bytes, what: self.what() })
    }

    /// Describes size and pixel for a message.
    fn what(&self) -> String {
        let [width, height, depth] = self.size;
        let depth = if depth == 1 { String::new() } else { format!(" x {depth}") };
        let (channels, number) = (self.pixel.stored().channels(), self.pixel.number());
        format!("{width} x {height}{depth} pixels of {channels} x {number}")
    }

    /// Returns the raster of all planes, one below the other.
    pub(super) fn raster(&self, name: &str, memory_bytes: usize) -> Result<Raster, FormatError> {
        let [width, height, depth] = self.size;
        let Some(rows) = height.checked_mul(depth) else {
            let what = format!("the size is {width} x {height} x {depth}, no file is so large");
            return Err(FormatError::damaged(name, FilePosition::Header, what));
        };
        Raster::new(name, (width, rows), self.pixel.stored(), memory_bytes)
    }
}

/// Rows of pixels that follow each other in a stream. Planes of a volume are one below the other.
#[derive(Debug)]
pub struct RawRows<R> {
    raster: Raster,
    converter: RowConverter,
    stream: R,
}

impl<S: ByteSource> RawRows<S> {
    /// Opens a source with this layout.
    pub fn open(
        name: &str,
        mut source: S,
        layout: &RawLayout,
        options: &FormatOptions,
    ) -> Result<RawRows<S>, FormatError> {
        if layout.size.contains(&0) {
            let [width, height, depth] = layout.size;
            let what =
                format!("a size of {width} x {height} x {depth} has no pixels, give another one");
            return Err(FormatError::misuse(name, what));
        }
        let raster = layout.raster(name, options.memory_bytes)?;
        let failed =
            |error| FormatError::reading(name, FilePosition::Byte(layout.skip_bytes), error);
        layout.check_exact(name, byte_io::length(&mut source).map_err(failed)?)?;
        source.seek(SeekFrom::Start(layout.skip_bytes)).map_err(failed)?;
        Ok(RawRows::from_stream(
            raster,
            source,
            Conversion::plain(layout.pixel.number(), layout.order),
        ))
    }
}

impl<R: Read + Send> RawRows<R> {
    /// Reads rows from a stream that is at its first pixel. The raster has the converted pixels.
    pub(super) fn from_stream(raster: Raster, stream: R, conversion: Conversion) -> RawRows<R> {
        RawRows { raster, converter: RowConverter::new(conversion), stream }
    }
}

impl<R: BufRead + Send> RasterReader for RawRows<R> {
    fn raster(&self) -> &Raster {
        &self.raster
    }

    fn raster_mut(&mut self) -> &mut Raster {
        &mut self.raster
    }

    fn read_row(&mut self, number: u64, row: &mut [u8]) -> Result<(), FormatError> {
        let RawRows { raster, converter, stream } = self;
        converter
            .read(row, |numbers| stream.read_exact(numbers))
            .map_err(|error| raster.row_error(number, error))
    }

    fn conversion_notes(&self) -> Vec<String> {
        self.converter.notes()
    }
}

/// Writes pixels and nothing else, little-endian. Formats with a plain header write it before.
#[derive(Debug)]
pub struct RawSink<W> {
    raster: Raster,
    output: W,
}

impl<W: Write + Send> RawSink<W> {
    /// Creates a sink for a picture of this size and pixel.
    pub fn new(
        name: &str,
        output: W,
        size: (u64, u64),
        pixel: Pixel,
    ) -> Result<RawSink<W>, FormatError> {
        Ok(RawSink { raster: Raster::to_write(name, size, pixel)?, output })
    }
}

impl<W: Write + Send> RowSink for RawSink<W> {
    fn put_row(&mut self, row: &[u8]) -> Result<(), FormatError> {
        self.raster.count_row(row.len())?;
        self.output.write_all(row).map_err(|error| FormatError::writing(&self.raster.name, error))
    }

    fn finish(mut self: Box<Self>) -> Result<(), FormatError> {
        self.raster.check_done()?;
        self.output.flush().map_err(|error| FormatError::writing(&self.raster.name, error))
    }
}
