//! Reads and writes at the file's own pointer.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::atomic::Ordering;

use super::File;
use crate::error::Error;

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

/// Threads that share the file share the pointer; each call moves it as a whole.
impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut pointer = self.state.pointer.lock();
        let count = self.read_at(buffer, *pointer)?;
        *pointer += count as u64;
        Ok(count)
    }
}

impl Write for &File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut pointer = self.state.pointer.lock();
        if self.state.is_append.load(Ordering::Relaxed) {
            *pointer = self.append(buffer)?;
        } else {
            self.write_at(buffer, *pointer)?;
        }
        *pointer += buffer.len() as u64;
        Ok(buffer.len())
    }

    /// Does nothing: no bytes are held back. [`sync`](File::sync) makes them durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut pointer = self.state.pointer.lock();
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => pointer.checked_add_signed(by),
            SeekFrom::End(by) => self.len()?.checked_add_signed(by),
        };
        match target.filter(|target| *target <= super::OFFSET_LIMIT) {
            Some(target) => {
                *pointer = target;
                Ok(target)
            }
            None => Err(Error::invalid(format!(
                "{}: the pointer cannot be moved before the beginning or beyond 2^62 bytes",
                self.state.path
            ))
            .into()),
        }
    }
}
