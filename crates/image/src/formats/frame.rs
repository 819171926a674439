//! Size and pixel of a picture, and how many of its rows have gone by.

use super::{FormatError, Place};
use crate::Pixel;

/// What a reader or sink knows of its picture. Width and height are at least 1, and the bytes of all
/// rows can be counted.
#[derive(Debug)]
pub(super) struct Frame {
    pub name: String,
    pub width: u64,
    pub height: u64,
    pub pixel: Pixel,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Bytes of all rows.
    pub data_bytes: u64,
    next: u64,
}

impl Frame {
    /// A picture of which a row fits into so much memory.
    pub fn new(
        name: &str,
        (width, height): (u64, u64),
        pixel: Pixel,
        memory_bytes: usize,
    ) -> Result<Frame, FormatError> {
        if width == 0 || height == 0 {
            let what = format!("the size is {width} x {height}, there are no pixels");
            return Err(FormatError::damaged(name, Place::Header, what));
        }
        let row_bytes = width.saturating_mul(pixel.bytes() as u64);
        let Some(data_bytes) = row_bytes.checked_mul(height).filter(|bytes| bytes >> 63 == 0)
        else {
            let what = format!("the size is {width} x {height}, no file is so large");
            return Err(FormatError::damaged(name, Place::Header, what));
        };
        let row_bytes = fitting(name, "a row", row_bytes, memory_bytes)?;
        Ok(Frame { name: name.to_owned(), width, height, pixel, row_bytes, data_bytes, next: 0 })
    }

    /// A picture that is to be written: its size is what the caller asks for.
    pub fn to_write(name: &str, size: (u64, u64), pixel: Pixel) -> Result<Frame, FormatError> {
        Frame::new(name, size, pixel, usize::MAX).map_err(|_| {
            let (width, height) = size;
            let what = format!("a file of {width} x {height} pixels of {pixel} cannot be made");
            FormatError::misuse(name, what)
        })
    }

    /// Counts a row of so many bytes. The result is its number.
    pub fn count_row(&mut self, bytes: usize) -> Result<u64, FormatError> {
        if bytes != self.row_bytes {
            let expected = self.row_bytes;
            let what = format!("a row has {expected} bytes, not {bytes}");
            return Err(FormatError::misuse(&self.name, what));
        }
        if self.next == self.height {
            let what = format!("all {} rows have gone by, there is no further one", self.height);
            return Err(FormatError::misuse(&self.name, what));
        }
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Whether all rows have gone by.
    pub fn is_done(&self) -> bool {
        self.next == self.height
    }

    /// An error unless all rows have gone by.
    pub fn check_done(&self) -> Result<(), FormatError> {
        if self.is_done() {
            return Ok(());
        }
        let (next, height) = (self.next, self.height);
        let what = format!("only {next} of {height} rows were written, the file is not whole");
        Err(FormatError::misuse(&self.name, what))
    }

    /// An error if the file is shorter than its pixels after so many other bytes.
    pub fn check_length(&self, before_bytes: u64, has_bytes: u64) -> Result<(), FormatError> {
        let needed_bytes = before_bytes.saturating_add(self.data_bytes);
        if has_bytes >= needed_bytes {
            return Ok(());
        }
        let what = format!("{} x {} pixels of {}", self.width, self.height, self.pixel);
        Err(FormatError::Short { name: self.name.clone(), has_bytes, needed_bytes, what })
    }
}

/// So many bytes, if so much memory may be taken.
pub(super) fn fitting(
    name: &str,
    what: &'static str,
    needed_bytes: u64,
    limit_bytes: usize,
) -> Result<usize, FormatError> {
    match usize::try_from(needed_bytes) {
        Ok(bytes) if bytes <= limit_bytes => Ok(bytes),
        _ => Err(FormatError::TooLarge {
            name: name.to_owned(),
            what,
            needed_bytes,
            limit_bytes: limit_bytes as u64,
        }),
    }
}
