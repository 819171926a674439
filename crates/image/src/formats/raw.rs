//! Pixels without a header: the caller says what they are.

use std::io::{BufRead, Read, SeekFrom, Write};

use super::frame::Frame;
use super::source::{self, Source};
use super::{ByteOrder, FormatError, OpenOptions, Place, RowSink, Rows};
use crate::Pixel;

/// What a file without a header holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RawLayout {
    /// Width, height and depth; a picture has depth 1.
    pub size: [u64; 3],
    /// What the pixels are.
    pub pixel: Pixel,
    /// The order of the bytes of a sample.
    pub order: ByteOrder,
    /// How many bytes come before the first pixel.
    pub skip_bytes: u64,
}

impl RawLayout {
    /// All planes as one picture: one below the other.
    pub(super) fn frame(&self, name: &str, memory_bytes: usize) -> Result<Frame, FormatError> {
        let [width, height, depth] = self.size;
        let Some(rows) = height.checked_mul(depth) else {
            let what = format!("the size is {width} x {height} x {depth}, no file is so large");
            return Err(FormatError::damaged(name, Place::Header, what));
        };
        Frame::new(name, (width, rows), self.pixel, memory_bytes)
    }
}

/// Rows of pixels that follow each other in a stream. Planes of a volume are one below the other.
#[derive(Debug)]
pub struct RawRows<R> {
    frame: Frame,
    order: ByteOrder,
    stream: R,
}

impl<S: Source> RawRows<S> {
    /// Reads what the layout says from the beginning of a source.
    pub fn open(
        name: &str,
        mut source: S,
        layout: &RawLayout,
        options: &OpenOptions,
    ) -> Result<RawRows<S>, FormatError> {
        if layout.size.contains(&0) {
            let [width, height, depth] = layout.size;
            let what = format!("a size of {width} x {height} x {depth} has no pixels, say another");
            return Err(FormatError::misuse(name, what));
        }
        let frame = layout.frame(name, options.memory_bytes)?;
        let failed = |error| FormatError::reading(name, Place::Byte(layout.skip_bytes), error);
        frame.check_length(layout.skip_bytes, source::length(&mut source).map_err(failed)?)?;
        source.seek(SeekFrom::Start(layout.skip_bytes)).map_err(failed)?;
        Ok(RawRows::over(frame, source, layout.order))
    }
}

impl<R: Read + Send> RawRows<R> {
    pub(super) fn over(frame: Frame, stream: R, order: ByteOrder) -> RawRows<R> {
        RawRows { frame, order, stream }
    }
}

impl<R: BufRead + Send> Rows for RawRows<R> {
    fn size(&self) -> (u64, u64) {
        (self.frame.width, self.frame.height)
    }

    fn pixel(&self) -> Pixel {
        self.frame.pixel
    }

    fn next_row(&mut self, row: &mut [u8]) -> Result<(), FormatError> {
        let number = self.frame.count_row(row.len())?;
        self.stream
            .read_exact(row)
            .map_err(|error| FormatError::reading(&self.frame.name, Place::Row(number), error))?;
        self.order.convert(row, self.frame.pixel.sample());
        Ok(())
    }
}

/// Writes pixels and nothing else, little-endian.
#[derive(Debug)]
pub struct RawSink<W> {
    frame: Frame,
    output: W,
}

impl<W: Write + Send> RawSink<W> {
    /// A picture of this size and pixel.
    pub fn new(
        name: &str,
        output: W,
        size: (u64, u64),
        pixel: Pixel,
    ) -> Result<RawSink<W>, FormatError> {
        Ok(RawSink { frame: Frame::to_write(name, size, pixel)?, output })
    }
}

impl<W: Write + Send> RowSink for RawSink<W> {
    fn put_row(&mut self, row: &[u8]) -> Result<(), FormatError> {
        self.frame.count_row(row.len())?;
        self.output.write_all(row).map_err(|error| FormatError::writing(&self.frame.name, error))
    }

    fn finish(mut self: Box<Self>) -> Result<(), FormatError> {
        self.frame.check_done()?;
        self.output.flush().map_err(|error| FormatError::writing(&self.frame.name, error))
    }
}
