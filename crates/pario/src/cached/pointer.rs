//! A cached file as the standard library sees files: with a pointer, which is this rank's own.

use std::io::{self, Read, Seek, SeekFrom, Write};

use super::{CachedFile, OFFSET_LIMIT};
use crate::error::Error;

impl CachedFile {
    /// Where the pointer is.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Reads exactly as many bytes as the buffer has, where the pointer is, and moves it behind them.
    /// If there are fewer before the end, it is an error and the pointer stays.
    pub fn read_all(&mut self, buffer: &mut [u8]) -> Result<(), Error> {
        self.read_exact_at(buffer, self.position)?;
        self.position += buffer.len() as u64;
        Ok(())
    }

    /// Writes all of a buffer where the pointer is, or to the end of a file that is appended to, and
    /// moves it behind. If that fails, the pointer stays.
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

    /// Moves the pointer, and says where it is then. It may be beyond the end.
    pub fn move_to(&mut self, to: SeekFrom) -> Result<u64, Error> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
            SeekFrom::End(distance) => self.len()?.checked_add_signed(distance),
        };
        match place.filter(|place| *place <= OFFSET_LIMIT) {
            Some(place) => {
                self.position = place;
                Ok(place)
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
        // What was written is in memory; what makes it durable is called by all together.
        Ok(())
    }
}

impl Seek for CachedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        Ok(self.move_to(to)?)
    }
}
