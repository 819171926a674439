//! Size and pixel of a picture, and the count of rows that were read or written.

use std::io;

use super::{FilePosition, FormatError, Rows};
use crate::Pixel;

/// Size and pixel of a picture that is read or written row by row. Width and height are at least 1,
/// and the number of bytes of all rows fits into 63 bits.
#[derive(Debug)]
pub(super) struct Raster {
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

/// A reader of one picture. The implementation of [`Rows`] counts and checks its rows.
pub(super) trait RasterReader: Send {
    /// Returns the raster of the picture.
    fn raster(&self) -> &Raster;

    /// Returns the raster for counting a row.
    fn raster_mut(&mut self) -> &mut Raster;

    /// Reads the next row; `number` counts from 0.
    fn read_row(&mut self, number: u64, row: &mut [u8]) -> Result<(), FormatError>;

    /// Returns the notes for [`Rows::notes`].
    fn conversion_notes(&self) -> Vec<String> {
        Vec::new()
    }
}

impl<R: RasterReader> Rows for R {
    fn size(&self) -> (u64, u64) {
        (self.raster().width, self.raster().height)
    }

    fn pixel(&self) -> Pixel {
        self.raster().pixel
    }

    fn next_row(&mut self, row: &mut [u8]) -> Result<(), FormatError> {
        let number = self.raster_mut().count_row(row.len())?;
        self.read_row(number, row)
    }

    fn notes(&self) -> Vec<String> {
        self.conversion_notes()
    }
}

impl Raster {
    /// Creates the raster of a picture whose rows fit into `memory_bytes`.
    pub fn new(
        name: &str,
        (width, height): (u64, u64),
        pixel: Pixel,
        memory_bytes: usize,
    ) -> Result<Raster, FormatError> {
        if width == 0 || height == 0 {
            let what = format!("the size is {width} x {height}, there are no pixels");
            return Err(FormatError::damaged(name, FilePosition::Header, what));
        }
        let row_bytes = width.saturating_mul(pixel.bytes() as u64);
        let Some(data_bytes) = row_bytes.checked_mul(height).filter(|bytes| bytes >> 63 == 0)
        else {
            let what = format!("the size is {width} x {height}, no file is so large");
            return Err(FormatError::damaged(name, FilePosition::Header, what));
        };
        let row_bytes = fitting(name, "a row", row_bytes, memory_bytes)?;
        Ok(Raster { name: name.to_owned(), width, height, pixel, row_bytes, data_bytes, next: 0 })
    }

    /// Creates the raster of a picture to be written, whose size the caller chooses.
    pub fn to_write(name: &str, size: (u64, u64), pixel: Pixel) -> Result<Raster, FormatError> {
        Raster::new(name, size, pixel, usize::MAX).map_err(|_| {
            let (width, height) = size;
            let what = format!("a file of {width} x {height} pixels of {pixel} cannot be made");
            FormatError::misuse(name, what)
        })
    }

    /// Counts a row of `bytes` bytes and returns its number.
    pub fn count_row(&mut self, bytes: usize) -> Result<u64, FormatError> {
        if bytes != self.row_bytes {
            let expected = self.row_bytes;
            let what = format!("a row has {expected} bytes, not {bytes}");
            return Err(FormatError::misuse(&self.name, what));
        }
        if self.next == self.height {
            let what = format!("all {} rows are done, there is no further one", self.height);
            return Err(FormatError::misuse(&self.name, what));
        }
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Returns the error of a row that cannot be read.
    pub fn row_error(&self, number: u64, error: io::Error) -> FormatError {
        FormatError::reading(&self.name, FilePosition::Row(number), error)
    }

    /// Returns whether all rows are counted.
    pub fn is_done(&self) -> bool {
        self.next == self.height
    }

    /// Fails unless all rows are counted.
    pub fn check_done(&self) -> Result<(), FormatError> {
        if self.is_done() {
            return Ok(());
        }
        let (next, height) = (self.next, self.height);
        let what = format!("only {next} of {height} rows were written, the file is incomplete");
        Err(FormatError::misuse(&self.name, what))
    }

    /// Fails if a file is shorter than `before_bytes` and all pixels.
    pub fn check_length(&self, before_bytes: u64, has_bytes: u64) -> Result<(), FormatError> {
        let needed_bytes = before_bytes.saturating_add(self.data_bytes);
        if has_bytes >= needed_bytes {
            return Ok(());
        }
        let what = format!("{} x {} pixels of {}", self.width, self.height, self.pixel);
        Err(FormatError::Short { name: self.name.clone(), has_bytes, needed_bytes, what })
    }
}

/// Returns `needed_bytes`, or fails if they exceed the allowed memory.
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

/// Copies a row out of a picture in memory.
pub(super) fn copy_row(picture: &[u8], number: u64, row: &mut [u8]) {
    // The picture is in memory, so its length fits into usize.
    #[allow(clippy::cast_possible_truncation)]
    let start = number as usize * row.len();
    row.copy_from_slice(&picture[start..start + row.len()]);
}
