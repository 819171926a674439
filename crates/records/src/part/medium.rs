//! The medium that stores a part: a file, or in tests memory that fails at a chosen operation.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};

/// The operations on a part other than reads and writes of records. A power failure may lose writes
/// that no sync has followed, in whole or in part and in any order.
pub trait PartMedium {
    /// Fills the buffer, or fails.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;
    /// Writes the whole buffer, or fails.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Makes everything durable that was written before.
    fn sync(&self) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Extends the medium with zeros that take no space.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Allocates space, so that a later write there does not fail for lack of it.
    fn reserve(&self, at: u64, len: u64) -> io::Result<()>;
    /// Whether the range may hold written bytes.
    fn has_data(&self, at: u64, len: u64) -> bool;
    /// Makes the range zero, and frees its space if possible.
    fn clear(&self, at: u64, len: u64) -> io::Result<()>;
}

/// Zeros per write where the file system cannot punch holes.
const ZEROS: usize = 256 << 10;

impl PartMedium for File {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(bytes, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Self::set_len(self, len)
    }

    fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        match fallocate(self, FallocateFlags::empty(), at, len) {
            // The file system cannot reserve space.
            Err(rustix::io::Errno::OPNOTSUPP) => {
                let end = at.saturating_add(len);
                if PartMedium::len(self)? < end { Self::set_len(self, end) } else { Ok(()) }
            }
            result => Ok(result?),
        }
    }

    fn has_data(&self, at: u64, len: u64) -> bool {
        match seek(self, SeekFrom::Data(at)) {
            Ok(found) => found < at.saturating_add(len),
            // The rest of the file is a hole.
            Err(rustix::io::Errno::NXIO) => false,
            Err(_) => true,
        }
    }

    fn clear(&self, at: u64, len: u64) -> io::Result<()> {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(self, punch, at, len).is_ok() {
            return Ok(());
        }
        let zeros = vec![0; ZEROS];
        let mut done = 0;
        while done < len {
            let now = usize::try_from(len - done).unwrap_or(ZEROS).min(ZEROS);
            self.write_all_at(&zeros[..now], at + done)?;
            done += now as u64;
        }
        Ok(())
    }
}

/// Whether a read failed because the medium ends before it.
pub fn is_end(error: &io::Error) -> bool {
    error.kind() == ErrorKind::UnexpectedEof
}
