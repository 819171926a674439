//! What a disk is made of: a directory of named files.
//!
//! Every byte that the store reads or writes passes one of the two traits here, so that the same
//! store runs on a [`Directory`] of the machine and on a [`Memory`] that can lose, tear and
//! reorder what was not synced, fill up, or fail on demand. [`Slow`] makes either behave like a
//! slower disk.
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

pub use directory::Directory;
pub use memory::{Fault, Memory};
#[cfg(test)]
pub(crate) use slow::Clock;
pub use slow::{Pace, Slow};

/// How [`Medium::open`] opens a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHow {
    /// Make the file; it must not exist.
    pub create: bool,
    /// Allow writing.
    pub write: bool,
    /// Bypass the page cache, with this alignment of positions, lengths and memory. A medium that
    /// cannot opens the file as usual: [`MediumFile::is_direct`] tells.
    pub direct_alignment: Option<u32>,
}

/// One name in a directory of a medium.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The last part of the path.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// Space of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes the medium can hold.
    pub total_bytes: u64,
    /// Bytes that can still be written.
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
    fn open(&self, path: &str, how: OpenHow) -> io::Result<Arc<dyn MediumFile>>;
    /// Makes a directory.
    fn create_dir(&self, path: &str) -> io::Result<()>;
    /// Moves a file or a directory; an existing target is an error for directories.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &str) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &str) -> io::Result<()>;
    /// The names in a directory, sorted.
    fn list(&self, path: &str) -> io::Result<Vec<Name>>;
    /// Makes changes of names in this directory durable.
    fn sync_dir(&self, path: &str) -> io::Result<()>;
    /// Makes all of the medium durable at once: contents, lengths and names. It fails if anything
    /// that was written since the last failure it reported could not be made durable, and then does
    /// not tell what. [`io::ErrorKind::Unsupported`] means that the medium cannot do this, or would
    /// not notice a failure: files and directories must be synced one by one.
    fn sync_all(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Locks the medium by a file of it, until the answer is dropped: for one holder
    /// (`exclusive`) or for many. A lock held by another gives [`io::ErrorKind::WouldBlock`].
    fn lock(&self, path: &str, exclusive: bool) -> io::Result<Box<dyn Any + Send + Sync>>;
    /// Total and free space.
    fn space(&self) -> io::Result<Space>;
    /// What the medium is called in messages.
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
    /// Reserves space for a range and extends the file to its end: a later write into the range
    /// does not run out of space.
    fn allocate(&self, position: u64, len: u64) -> io::Result<()>;
    /// Reads as much of `buffer` as there is before the end of the file.
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
    /// Begins to make the content durable and waits for nothing, so that a sync of another file
    /// can carry it along.
    fn begin_sync(&self) {}
    /// Waits until what [`begin_sync`](MediumFile::begin_sync) has begun is with the device, though
    /// not yet durable. The kernel reports a failed write once: who gets an error here must take it
    /// as that of the sync.
    fn wait_begun(&self) -> io::Result<()> {
        Ok(())
    }
    /// Bytes the file occupies on the medium.
    fn allocated_bytes(&self) -> io::Result<u64>;
    /// When content or length last changed, in nanoseconds since 1970; zero where nobody knows.
    fn modified_ns(&self) -> io::Result<u64> {
        Ok(0)
    }
    /// Sets when content or length last changed, in nanoseconds since 1970; a later change sets it
    /// anew. A medium that keeps no times ignores it.
    fn set_modified_ns(&self, _time: u64) -> io::Result<()> {
        Ok(())
    }
    /// Tells the medium that a range will be read soon, so that it can begin; waits for nothing.
    fn will_need(&self, _position: u64, _len: u64) {}
    /// Lets the medium forget bytes that it keeps in memory and that are durable, so that the next
    /// read of them comes from the disk.
    fn forget_cached(&self) {}
    /// The first position from a given one on where bytes are stored: what lies before reads as
    /// zeros. `None` behind the last one.
    fn next_data(&self, position: u64) -> io::Result<Option<u64>> {
        Ok((position < self.len()?).then_some(position))
    }
    /// Whether the page cache is bypassed.
    fn is_direct(&self) -> bool {
        false
    }
    /// Whether a range can be read from the page cache, as far as is known.
    fn is_cached(&self, _position: u64, _len: u64) -> bool {
        false
    }
    /// Whether reading and writing take long without the kernel knowing: a queue then has threads
    /// wait for them.
    fn is_slow(&self) -> bool {
        false
    }
    /// The descriptor, where there is one, for asynchronous I/O.
    fn descriptor(&self) -> Option<RawFd> {
        None
    }
}
