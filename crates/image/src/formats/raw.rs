//! Pixels without a header: the caller says what they are.

use std::io::{BufRead, Read, SeekFrom, Write};

use super::frame::Frame;
use super::numbers::Conversion;
use super::source::{self, Source};
use super::{ByteOrder, FilePixel, FormatError, OpenOptions, Place, RowSink, Rows};
use crate::Pixel;

/// What a file without a header holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RawLayout {
    /// Width, height and depth; a picture has depth 1.
    pub size: [u64; 3],
    /// What the pixels are.
    pub pixel: FilePixel,
    /// The order of the bytes of a sample.
    pub order: ByteOrder,
    /// How many bytes come before the first pixel.
    pub skip_bytes: u64,
}

impl RawLayout {
    /// The bytes of all pixels in the file; no file has as many if they cannot be counted.
    pub(super) fn data_bytes(&self) -> u64 {
        let each = self.pixel.bytes() as u64;
        self.size.iter().fold(each, |all, side| all.saturating_mul(*side))
    }

    /// An error if a file is shorter than its pixels after other bytes.
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

    /// An error unless a file has the bytes that the layout says, no fewer and no more.
    fn check_exact(&self, name: &str, has_bytes: u64) -> Result<(), FormatError> {
        self.check_enough(name, self.skip_bytes, has_bytes)?;
        let needed_bytes = self.skip_bytes.saturating_add(self.data_bytes());
        if has_bytes == needed_bytes {
            return Ok(());
        }
        let name = name.to_owned();
        Err(FormatError::Long { name, has_bytes, needed_bytes, what: self.what() })
    }

    /// Size and pixel in words.
    fn what(&self) -> String {
        let [width, height, depth] = self.size;
        let depth = if depth == 1 { String::new() } else { format!(" x {depth}") };
        let (channels, number) = (self.pixel.stored().channels(), self.pixel.number());
        format!("{width} x {height}{depth} pixels of {channels} x {number}")
    }

    /// All planes as one picture: one below the other.
    pub(super) fn frame(&self, name: &str, memory_bytes: usize) -> Result<Frame, FormatError> {
        let [width, height, depth] = self.size;
        let Some(rows) = height.checked_mul(depth) else {
            let what = format!("the size is {width} x {height} x {depth}, no file is so large");
            return Err(FormatError::damaged(name, Place::Header, what));
        };
        Frame::new(name, (width, rows), self.pixel.stored(), memory_bytes)
    }
}

/// Rows of pixels that follow each other in a stream. Planes of a volume are one below the other.
#[derive(Debug)]
pub struct RawRows<R> {
    frame: Frame,
    conversion: Conversion,
    stream: R,
    /// A row as it is in the file, and as samples.
    numbers: Vec<u8>,
    samples: Vec<u8>,
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
        layout.check_exact(name, source::length(&mut source).map_err(failed)?)?;
        source.seek(SeekFrom::Start(layout.skip_bytes)).map_err(failed)?;
        Ok(RawRows::over(frame, source, Conversion::plain(layout.pixel.number(), layout.order)))
    }
}

impl<R: Read + Send> RawRows<R> {
    /// Rows of a stream that is at its first pixel. The frame has the pixels that come out.
    pub(super) fn over(frame: Frame, stream: R, conversion: Conversion) -> RawRows<R> {
        RawRows { frame, conversion, stream, numbers: Vec::new(), samples: Vec::new() }
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
        let failed = |error| FormatError::reading(&self.frame.name, Place::Row(number), error);
        let conversion = self.conversion;
        if conversion.keeps_bytes() {
            self.stream.read_exact(row).map_err(failed)?;
            conversion.order.convert(row, conversion.to);
            return Ok(());
        }
        self.numbers.resize(row.len() / conversion.to.bytes() * conversion.from.bytes(), 0);
        self.stream.read_exact(&mut self.numbers).map_err(failed)?;
        conversion.convert(&mut self.numbers, &mut self.samples);
        row.copy_from_slice(&self.samples);
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        self.conversion.note().into_iter().collect()
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
