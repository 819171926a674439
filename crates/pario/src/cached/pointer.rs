//! A cached file with a pointer of this rank, and the traits of the standard library.

use std::io::{self, Read, Seek, SeekFrom, Write};

use super::{CachedFile, OFFSET_LIMIT};
use crate::error::Error;

impl CachedFile {
    /// The offset of the pointer.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Fills a buffer from the pointer on, and moves the pointer behind the bytes. If the file has
    /// fewer bytes, the call fails and the pointer stays.
    pub fn read_all(&mut self, buffer: &mut [u8]) -> Result<(), Error> {
        self.read_exact_at(buffer, self.position)?;
        self.position += buffer.len() as u64;
        Ok(())
    }

    /// Writes all of a buffer at the pointer, or at the end of a file that is open for appending, and
    /// moves the pointer behind the bytes. If the write fails, the pointer stays.
    pub fn write_whole(&mut self, buffer: &[u8]) -> Result<(), Error> {
        let start = if self.settings.append {
            self.append(buffer)?
        } else {
            self.write_at(buffer, self.position)?;
            self.position
        };
        self.position = start + buffer.len() as u64;
        Ok(())
    }

    /// Moves the pointer, and returns its new offset, which may be beyond the end.
    pub fn move_to(&mut self, to: SeekFrom) -> Result<u64, Error> {
        let offset = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
            SeekFrom::End(distance) => self.len()?.checked_add_signed(distance),
        };
        match offset.filter(|offset| *offset <= OFFSET_LIMIT) {
            Some(offset) => {
                self.position = offset;
                Ok(offset)
            }
            None => Err(Error::invalid(format!(
                "{}: the pointer cannot be before the beginning of a file, nor beyond 2^62 bytes",
                self.path
            ))),
        }
    }
}

impl Read for CachedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Write for CachedFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_whole(buffer)?;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // The bytes are in memory; only the collective flush makes them durable.
        Ok(())
    }
}

impl Seek for CachedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        Ok(self.move_to(to)?)
    }
}
