//! Flat subfiles: bytes at offsets, read and written in place.
//!
//! The bytes start at [`DATA_START`] of the file. The bytes before it have no meaning, so that a
//! client with a descriptor may write there without effect. A flat subfile has no index, and the
//! store caches nothing of it: the kernel's page cache does.

use std::any::Any;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};

use crate::description_store::DescriptionStore;
use crate::error::{StoreError, SubfileContext};
use crate::medium::MediumFile;
use crate::poison::Poison;
use crate::subfile::SubfileId;

/// The position of the first byte in the file of a flat subfile.
pub(crate) const DATA_START: u64 = 64 << 10;

/// The bytes that a verification reads with one call.
const VERIFY_BYTES: usize = 1 << 20;

/// The remedy for a flat subfile whose sync has failed.
const REPAIR: &str =
    "run `pario fsck --repair`, which verifies it and lets it accept changes again";

/// The largest end of a flat subfile.
pub const MAX_FLAT_LEN: u64 = i64::MAX as u64 - DATA_START;

/// An open flat subfile. Clones are the same subfile; any number of threads may use them.
///
/// ```
/// # fn main() -> Result<(), pario_store::StoreError> {
/// # let dir = tempfile::tempdir().unwrap();
/// use pario_store::{Disk, DiskOptions, NewSubfile, SubfileId};
///
/// let disk = Disk::create(dir.path(), DiskOptions::default())?;
/// let flat = disk.create_flat(NewSubfile::new(SubfileId::data(2, 0)))?;
/// flat.write_at(b"far out", 1 << 40)?; // the bytes before read as zeros and take no space
/// let mut bytes = [0; 4];
/// assert_eq!(flat.read_at(&mut bytes, (1 << 40) + 3)?, 4);
/// assert_eq!(&bytes, b" out");
/// assert_eq!(flat.len()?, (1 << 40) + 7);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FlatFile {
    pub(crate) inner: Arc<OpenFlatFile>,
}

/// An open flat subfile. All its handles share one.
pub(crate) struct OpenFlatFile {
    pub(crate) context: SubfileContext,
    pub(crate) file: Arc<dyn MediumFile>,
    pub(crate) read_only: bool,
    pub(crate) poison: Poison,
    /// Held during a sync. Its value says whether name and description of the subfile are durable.
    pub(crate) syncing: Mutex<bool>,
    descriptions: Arc<DescriptionStore>,
    /// The lock of the disk: held as long as a subfile of it is open.
    _lock: Arc<dyn Any + Send + Sync>,
}

impl FlatFile {
    pub(crate) fn new(file: OpenFlatFile) -> Self {
        Self { inner: Arc::new(file) }
    }

    /// The identity of the subfile.
    pub fn id(&self) -> SubfileId {
        self.inner.context.subfile
    }

    /// Length in bytes: one past the last byte written, or the length that [`FlatFile::set_len`] set.
    pub fn len(&self) -> Result<u64, StoreError> {
        let len = self.inner.file.len().map_err(|e| self.inner.context.io(e, "measure"))?;
        Ok(len.saturating_sub(DATA_START))
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.len()? == 0)
    }

    /// Reads into `buffer`; returns fewer bytes than its length only at the end of the subfile.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, StoreError> {
        let position = self.inner.position(offset, buffer.len() as u64)?;
        let read = self.inner.file.read_at(buffer, position);
        read.map_err(|error| self.inner.context.io(error, "read"))
    }

    /// Reads consecutive bytes into several buffers.
    pub fn read_vectored_at(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        offset: u64,
    ) -> Result<usize, StoreError> {
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let position = self.inner.position(offset, len)?;
        let read = self.inner.file.read_vectored_at(buffers, position);
        read.map_err(|error| self.inner.context.io(error, "read"))
    }

    /// Writes all of `buffer`; the subfile grows as needed.
    pub fn write_at(&self, buffer: &[u8], offset: u64) -> Result<(), StoreError> {
        self.inner.check_writable("write to")?;
        let position = self.inner.position(offset, buffer.len() as u64)?;
        let written = self.inner.file.write_all_at(buffer, position);
        written.map_err(|error| self.inner.context.io(error, "write to"))
    }

    /// Writes several buffers to consecutive bytes. The content of the slices is unspecified after
    /// the call.
    pub fn write_vectored_at(
        &self,
        buffers: &mut [IoSlice<'_>],
        offset: u64,
    ) -> Result<(), StoreError> {
        self.inner.check_writable("write to")?;
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let position = self.inner.position(offset, len)?;
        let written = self.inner.file.write_all_vectored_at(buffers, position);
        written.map_err(|error| self.inner.context.io(error, "write to"))
    }

    /// Cuts the subfile, or extends it with zeros.
    pub fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.inner.check_writable("resize")?;
        let position = self.inner.position(len, 0)?;
        let set = self.inner.file.set_len(position);
        set.map_err(|error| self.inner.context.io(error, "resize"))
    }

    /// Extends the subfile to at least `len` bytes. It changes no byte, and never cuts off a
    /// concurrent write behind `len`.
    pub fn grow(&self, len: u64) -> Result<(), StoreError> {
        self.inner.check_writable("resize")?;
        let position = self.inner.position(len, 0)?;
        let grown = match self.inner.file.len() {
            // `fallocate` extends a file to the end of the range, and never cuts it.
            Ok(now) if now < position => self.inner.file.allocate(position - 1, 1),
            other => other.map(|_| ()),
        };
        grown.map_err(|error| self.inner.context.io(error, "resize"))
    }

    /// Makes all changes durable that were acknowledged before the call. If it fails, the subfile
    /// accepts no changes, also after a restart, until [`crate::Disk::repair_flat`] has read it.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    /// When its bytes last changed, in nanoseconds since 1970.
    pub fn modified_ns(&self) -> Result<u64, StoreError> {
        let time = self.inner.file.modified_ns();
        time.map_err(|error| self.inner.context.io(error, "measure"))
    }

    /// Sets when its bytes last changed, in nanoseconds since 1970. A power loss may undo it.
    pub fn set_modified_ns(&self, time: u64) -> Result<(), StoreError> {
        self.inner.check_writable("set the time of")?;
        let set = self.inner.file.set_modified_ns(time);
        set.map_err(|error| self.inner.context.io(error, "set the time of"))
    }

    /// Opens a descriptor of the file for another process on the same machine, for reading, writing or
    /// both; `None` if the medium has no files. Byte `n` of the subfile is byte `n +`
    /// [`FlatFile::DATA_START_BYTES`] of the file.
    pub fn share(&self, read: bool, write: bool) -> Result<Option<OwnedFd>, StoreError> {
        if write {
            self.inner.check_writable("write to")?;
        }
        let Some(descriptor) = self.inner.file.descriptor() else { return Ok(None) };
        let access = match (read, write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        let path = format!("/proc/self/fd/{descriptor}");
        let opened = rustix::fs::open(path, access | OFlags::CLOEXEC, Mode::empty());
        opened
            .map(Some)
            .map_err(|error| self.inner.context.io(error.into(), "share a descriptor of"))
    }

    /// The bytes of a range, up to the end of the subfile, if the page cache holds them all; `None` if
    /// it does not or the system cannot tell.
    pub fn cached(&self, offset: u64, len: u64) -> Option<CachedPart> {
        let position = self.inner.position(offset, len).ok()?;
        let end = self.inner.file.len().ok()?;
        let len = len.min(end.saturating_sub(position));
        self.inner.file.descriptor()?;
        let is_cached = self.inner.file.is_cached(position, len);
        is_cached.then(|| CachedPart { file: self.inner.clone(), position, len })
    }

    /// The position of the first byte in the file of a flat subfile.
    pub const DATA_START_BYTES: u64 = DATA_START;

    /// The bytes that the subfile occupies on the disk.
    pub fn disk_bytes(&self) -> Result<u64, StoreError> {
        let bytes = self.inner.file.allocated_bytes();
        bytes.map_err(|error| self.inner.context.io(error, "measure"))
    }
}

/// A range of a flat subfile that is in the page cache, to be sent from there through the
/// descriptor of the file.
pub struct CachedPart {
    file: Arc<OpenFlatFile>,
    position: u64,
    len: u64,
}

impl CachedPart {
    /// The position of the first byte in the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The number of bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len
    }
}

impl AsFd for CachedPart {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let descriptor = self
            .file
            .file
            .descriptor()
            .expect("FlatFile::cached checks that there is a descriptor");
        // SAFETY: `self.file`, which is borrowed, keeps the descriptor open.
        unsafe { BorrowedFd::borrow_raw(descriptor) }
    }
}

impl fmt::Debug for CachedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CachedPart({} bytes at {})", self.len, self.position)
    }
}

impl fmt::Debug for FlatFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FlatFile({})", self.id())
    }
}

impl OpenFlatFile {
    pub(crate) fn new(
        context: SubfileContext,
        file: Arc<dyn MediumFile>,
        read_only: bool,
        failed: Option<String>,
        is_durable: bool,
        descriptions: Arc<DescriptionStore>,
        lock: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        let (poison, syncing) = (Poison::new(failed), Mutex::new(is_durable));
        Self { context, file, read_only, poison, syncing, descriptions, _lock: lock }
    }

    /// The position of a range in the file; fails if it ends beyond [`MAX_FLAT_LEN`].
    pub(crate) fn position(&self, offset: u64, len: u64) -> Result<u64, StoreError> {
        match offset.checked_add(len) {
            Some(end) if end <= MAX_FLAT_LEN => Ok(offset + DATA_START),
            _ => Err(StoreError::OffsetOutOfRange { offset, len, max: MAX_FLAT_LEN }),
        }
    }

    pub(crate) fn check_writable(&self, action: &str) -> Result<(), StoreError> {
        if self.read_only {
            return Err(self.context.read_only(action));
        }
        match self.poison.reason() {
            Some(reason) => Err(self.context.poisoned(reason, REPAIR)),
            None => Ok(()),
        }
    }

    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        if self.read_only {
            return Ok(());
        }
        // The kernel reports a failure to one caller only: let no other sync pass at the same time.
        let mut is_durable = self.syncing.lock();
        self.check_writable("sync")?;
        let synced = match *is_durable {
            true => self.file.sync(),
            false => self.descriptions.sync_first(self.context.subfile, &*self.file),
        };
        synced.map_err(|error| self.fail(error))?;
        *is_durable = true;
        Ok(())
    }

    /// Records a failed sync in the open subfile, in the disk and in the description.
    pub(crate) fn fail(&self, error: io::Error) -> StoreError {
        let (id, why) = (self.context.subfile, error.to_string());
        self.poison.set(&why);
        self.descriptions.poisoned.add(id, &why);
        match self.descriptions.update(id, |description| description.is_poisoned = true) {
            Ok(_) => self.context.io(error, "sync"),
            Err(unmarked) => {
                let action =
                    format!("sync {id} (nor note the failure in its description: {unmarked})");
                self.context.disk.io(error, action)
            }
        }
    }

    /// Syncs the subfile and reads every byte from the disk; returns their number.
    pub(crate) fn verify(&self) -> Result<u64, StoreError> {
        let _syncing = self.syncing.lock();
        let failed = |action| move |error| self.context.io(error, action);
        if !self.read_only {
            self.file.sync().map_err(failed("sync"))?;
        }
        self.file.drop_cached();
        let len = self.file.len().map_err(failed("measure"))?;
        let mut buffer = vec![0; VERIFY_BYTES];
        let (mut position, mut read) = (DATA_START, 0);
        while let Some(data) = self.file.next_data(position).map_err(failed("read"))? {
            if data >= len {
                break;
            }
            let count = self.file.read_at(&mut buffer, data).map_err(failed("read"))?;
            if count == 0 {
                break;
            }
            read += count as u64;
            position = data + count as u64;
        }
        Ok(read)
    }
}
