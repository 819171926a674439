//! Media: the directory of named files that holds a disk.
//!
//! The store does all its disk I/O through the two traits of this module. So it runs on a
//! [`DirectoryMedium`] of the machine, and on a [`MemoryMedium`] that can lose, tear and reorder
//! unsynced writes, fill up, or fail on demand. A [`SlowMedium`] makes either behave like a slower
//! disk.
//!
//! Paths are relative to the medium, with `/` between their parts.

mod cachestat;
mod directory;
mod memory;
mod slow;
mod syncfs;

use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

pub use directory::DirectoryMedium;
pub use memory::{Fault, MemoryMedium};
#[cfg(test)]
pub(crate) use slow::Clock;
pub use slow::{Pace, SlowMedium};

/// How [`Medium::open`] opens a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediumOpenMode {
    /// Create the file; it must not exist.
    pub create: bool,
    /// Allow writing.
    pub write: bool,
    /// Bypass the page cache, with this alignment of positions, lengths and memory. A medium that
    /// cannot do so opens the file with the page cache; see [`MediumFile::is_direct`].
    pub direct_alignment: Option<u32>,
}

/// An entry of a directory of a medium.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// The last part of the path.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// The space of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediumSpace {
    /// The bytes that the medium can hold.
    pub total_bytes: u64,
    /// The bytes that are free.
    pub free_bytes: u64,
    /// The device of the file system. Media of one machine with the same device share its bytes.
    pub device: u64,
}

/// A directory tree that holds one disk of the store.
///
/// A change of names (create, rename, remove) is durable after [`Medium::sync_dir`] of the
/// directory concerned.
pub trait Medium: Send + Sync + Debug {
    /// Opens or creates a file.
    fn open(&self, path: &str, mode: MediumOpenMode) -> io::Result<Arc<dyn MediumFile>>;
    /// Creates a directory.
    fn create_dir(&self, path: &str) -> io::Result<()>;
    /// Renames a file or a directory. A file replaces an existing target; a directory fails.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &str) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &str) -> io::Result<()>;
    /// The names in a directory, sorted.
    fn list(&self, path: &str) -> io::Result<Vec<DirectoryEntry>>;
    /// Makes the changes of names in a directory durable.
    fn sync_dir(&self, path: &str) -> io::Result<()>;
    /// Makes the whole medium durable: contents, lengths and names. It fails if a write since the
    /// last reported failure could not be made durable, and does not tell which one.
    /// [`io::ErrorKind::Unsupported`] means that the medium cannot do this, or would not notice a
    /// failure: the caller must sync each file and directory.
    fn sync_all(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Locks a file of the medium until the caller drops the lock: for one holder (`exclusive`) or
    /// for several. Fails with [`io::ErrorKind::WouldBlock`] if another lock is in the way.
    fn lock(&self, path: &str, exclusive: bool) -> io::Result<Box<dyn Any + Send + Sync>>;
    /// Total and free space.
    fn space(&self) -> io::Result<MediumSpace>;
    /// The name of the medium in messages.
    fn label(&self) -> String;
}

/// An open file of a [`Medium`].
pub trait MediumFile: Send + Sync + Debug {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts or extends (with zeros) the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves space for a range and extends the file to its end, so that a later write into the
    /// range finds space.
    fn allocate(&self, position: u64, len: u64) -> io::Result<()>;
    /// Fills `buffer` up to the end of the file; returns the number of bytes read.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;
    /// Reads several buffers from consecutive positions.
    fn read_vectored_at(
        &self,
        buffers: &mut [io::IoSliceMut<'_>],
        position: u64,
    ) -> io::Result<usize>;
    /// Writes all of `buffer`.
    fn write_all_at(&self, buffer: &[u8], position: u64) -> io::Result<()>;
    /// Writes all of several buffers to consecutive positions.
    fn write_all_vectored_at(
        &self,
        buffers: &mut [io::IoSlice<'_>],
        position: u64,
    ) -> io::Result<()>;
    /// Makes content and length durable.
    fn sync(&self) -> io::Result<()>;
    /// Starts to write the content back without waiting, so that a sync of another file can carry it
    /// along.
    fn begin_sync(&self) {}
    /// Waits until the device has the writes that [`begin_sync`](MediumFile::begin_sync) started; they
    /// are not yet durable. The kernel reports a failed write once: the caller must treat an error
    /// as a failed sync.
    fn wait_begun(&self) -> io::Result<()> {
        Ok(())
    }
    /// The bytes that the file occupies on the medium.
    fn allocated_bytes(&self) -> io::Result<u64>;
    /// When content or length last changed, in nanoseconds since 1970; zero if it is unknown.
    fn modified_ns(&self) -> io::Result<u64> {
        Ok(0)
    }
    /// Sets when content or length last changed, in nanoseconds since 1970; a later change sets it
    /// anew. A medium that keeps no times ignores it.
    fn set_modified_ns(&self, _time: u64) -> io::Result<()> {
        Ok(())
    }
    /// Tells the medium that the caller will read a range soon. It does not wait.
    fn will_need(&self, _position: u64, _len: u64) {}
    /// Drops durable bytes from the page cache, so that the next read comes from the disk.
    fn drop_cached(&self) {}
    /// The first stored byte at or behind a position; the bytes before it read as zeros. `None`
    /// behind the last one.
    fn next_data(&self, position: u64) -> io::Result<Option<u64>> {
        Ok((position < self.len()?).then_some(position))
    }
    /// Whether I/O bypasses the page cache.
    fn is_direct(&self) -> bool {
        false
    }
    /// Whether the page cache holds a whole range; `false` if that is unknown.
    fn is_cached(&self, _position: u64, _len: u64) -> bool {
        false
    }
    /// Reads the first bytes of a range that are in memory, without waiting for the medium; returns
    /// their number. Zero also if the range is empty or the medium cannot tell.
    fn read_in_memory(&self, _buffer: &mut [u8], _position: u64) -> usize {
        0
    }
    /// Whether reads and writes block the calling thread for long: a queue then uses threads for
    /// them.
    fn is_slow(&self) -> bool {
        false
    }
    /// The descriptor for asynchronous I/O, if the file has one.
    fn descriptor(&self) -> Option<RawFd> {
        None
    }
}
