//! Where the bytes of a part are: a file, or in tests a memory that fails when it is told to.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};

/// Everything that is done to a part beyond reading and writing records. A write that was not
/// followed by a sync may be lost in a power failure, in whole or in part, and in any order.
pub trait Medium {
    /// Reads all of it, or fails.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;
    /// Writes all of it.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Everything written before survives a power failure.
    fn sync(&self) -> io::Result<()>;
    /// How long it is.
    fn len(&self) -> io::Result<u64>;
    /// Makes it longer, with zeros that take no space.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Takes space, so that writing there cannot fail for want of it.
    fn reserve(&self, at: u64, len: u64) -> io::Result<()>;
    /// Whether something was ever written there. Whoever does not know says yes.
    fn has_data(&self, at: u64, len: u64) -> bool;
    /// Makes everything there zero, and gives the space back if that is possible.
    fn clear(&self, at: u64, len: u64) -> io::Result<()>;
}

/// Bytes of zeros that are written at once where space cannot be given back.
const ZEROS: usize = 256 << 10;

impl Medium for File {
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
            // Such a file system has nothing to reserve with.
            Err(rustix::io::Errno::OPNOTSUPP) => {
                let end = at.saturating_add(len);
                if Medium::len(self)? < end { Self::set_len(self, end) } else { Ok(()) }
            }
            result => Ok(result?),
        }
    }

    fn has_data(&self, at: u64, len: u64) -> bool {
        match seek(self, SeekFrom::Data(at)) {
            Ok(found) => found < at.saturating_add(len),
            // Nothing from there on.
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

/// Whether an error of reading says that the file ends before.
pub fn is_end(error: &io::Error) -> bool {
    error.kind() == ErrorKind::UnexpectedEof
}
