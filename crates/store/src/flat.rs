//! Flat subfiles: bytes at offsets, read and written in place.
//!
//! The bytes start at [`DATA_START`] of the file; what lies before means nothing, so that it does not
//! matter what the holder of a descriptor writes there. There is no index and nothing is cached
//! here: a read sees what the last write left, through the kernel.

use std::any::Any;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};

use crate::descriptions::Descriptions;
use crate::error::{Place, StoreError};
use crate::medium::MediumFile;
use crate::poison::Poison;
use crate::subfile::SubfileId;

/// Where the bytes start in the file of a flat subfile.
pub(crate) const DATA_START: u64 = 64 << 10;

/// Bytes that a verification reads at a time.
const VERIFY_BYTES: usize = 1 << 20;

/// What to do about a flat subfile whose sync has failed.
const CHECK_IT: &str = "`pario fsck --repair` reads it and lets it take changes again";

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
/// flat.write_at(1 << 40, b"far out")?; // what lies before reads as zeros and takes no space
/// let mut bytes = [0; 4];
/// assert_eq!(flat.read_at((1 << 40) + 3, &mut bytes)?, 4);
/// assert_eq!(&bytes, b" out");
/// assert_eq!(flat.len()?, (1 << 40) + 7);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FlatFile {
    pub(crate) shared: Arc<FlatShared>,
}

pub(crate) struct FlatShared {
    pub(crate) place: Place,
    pub(crate) file: Arc<dyn MediumFile>,
    pub(crate) read_only: bool,
    pub(crate) poison: Poison,
    /// One sync at a time. Whether name and description of the subfile are durable.
    pub(crate) syncing: Mutex<bool>,
    descriptions: Arc<Descriptions>,
    /// Keeps other processes away as long as anything of the disk is open.
    _lock: Arc<dyn Any + Send + Sync>,
}

impl FlatFile {
    pub(crate) fn new(shared: FlatShared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// Whose subfile it is.
    pub fn id(&self) -> SubfileId {
        self.shared.place.subfile
    }

    /// Length in bytes: one past the last byte ever written, or what [`FlatFile::set_len`] set.
    pub fn len(&self) -> Result<u64, StoreError> {
        let len = self.shared.file.len().map_err(|e| self.shared.place.io(e, "measuring"))?;
        Ok(len.saturating_sub(DATA_START))
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.len()? == 0)
    }

    /// Reads into `buffer`; fewer bytes than asked for only at the end.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let position = self.shared.position(offset, buffer.len() as u64)?;
        let read = self.shared.file.read_at(buffer, position);
        read.map_err(|error| self.shared.place.io(error, "reading"))
    }

    /// Reads consecutive bytes into several buffers.
    pub fn read_vectored_at(
        &self,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<usize, StoreError> {
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let position = self.shared.position(offset, len)?;
        let read = self.shared.file.read_vectored_at(buffers, position);
        read.map_err(|error| self.shared.place.io(error, "reading"))
    }

    /// Writes all of `buffer`; the subfile grows as needed.
    pub fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        self.shared.check_writable("write to")?;
        let position = self.shared.position(offset, buffer.len() as u64)?;
        let written = self.shared.file.write_all_at(buffer, position);
        written.map_err(|error| self.shared.place.io(error, "writing"))
    }

    /// Writes several buffers to consecutive bytes. The slices are used up.
    pub fn write_vectored_at(
        &self,
        offset: u64,
        buffers: &mut [IoSlice<'_>],
    ) -> Result<(), StoreError> {
        self.shared.check_writable("write to")?;
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let position = self.shared.position(offset, len)?;
        let written = self.shared.file.write_all_vectored_at(buffers, position);
        written.map_err(|error| self.shared.place.io(error, "writing"))
    }

    /// Cuts the subfile, or extends it with zeros.
    pub fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.shared.check_writable("resize")?;
        let position = self.shared.position(len, 0)?;
        let set = self.shared.file.set_len(position);
        set.map_err(|error| self.shared.place.io(error, "resizing"))
    }

    /// Makes the subfile at least so long. Whoever writes beyond at the same time is not cut off, and
    /// no byte changes.
    pub fn grow(&self, len: u64) -> Result<(), StoreError> {
        self.shared.check_writable("resize")?;
        let position = self.shared.position(len, 0)?;
        let grown = match self.shared.file.len() {
            // The system extends a file to the byte that is allocated, and never cuts it.
            Ok(now) if now < position => self.shared.file.allocate(position - 1, 1),
            other => other.map(|_| ()),
        };
        grown.map_err(|error| self.shared.place.io(error, "resizing"))
    }

    /// Makes everything durable that was acknowledged before the call. If it fails, the subfile
    /// takes no more changes, also after a restart, until [`crate::Disk::repair_flat`] has read it.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.shared.sync()
    }

    /// When its bytes last changed, in nanoseconds since 1970.
    pub fn modified_ns(&self) -> Result<u64, StoreError> {
        let time = self.shared.file.modified_ns();
        time.map_err(|error| self.shared.place.io(error, "measuring"))
    }

    /// Sets when its bytes last changed, in nanoseconds since 1970. A power loss may undo it.
    pub fn set_modified_ns(&self, time: u64) -> Result<(), StoreError> {
        self.shared.check_writable("set the time of")?;
        let set = self.shared.file.set_modified_ns(time);
        set.map_err(|error| self.shared.place.io(error, "setting the time"))
    }

    /// A descriptor of the file for another process on the same machine, if there is a file. Byte
    /// `n` of the subfile is byte `n +` [`FlatFile::DATA_START_BYTES`] of the file. It can
    /// be read from and written to as wished.
    pub fn share(&self, read: bool, write: bool) -> Result<Option<OwnedFd>, StoreError> {
        if write {
            self.shared.check_writable("write to")?;
        }
        let Some(descriptor) = self.shared.file.descriptor() else { return Ok(None) };
        let access = match (read, write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        let path = format!("/proc/self/fd/{descriptor}");
        let opened = rustix::fs::open(path, access | OFlags::CLOEXEC, Mode::empty());
        opened.map(Some).map_err(|error| self.shared.place.io(error.into(), "sharing"))
    }

    /// The bytes of a range, up to the end of the subfile, if they can be read from the page cache
    /// of the system, as far as is known.
    pub fn cached(&self, offset: u64, len: u64) -> Option<CachedPart> {
        let position = self.shared.position(offset, len).ok()?;
        let end = self.shared.file.len().ok()?;
        let len = len.min(end.saturating_sub(position));
        self.shared.file.descriptor()?;
        let is_cached = self.shared.file.is_cached(position, len);
        is_cached.then(|| CachedPart { file: self.shared.clone(), position, len })
    }

    /// Where the bytes start in the file of a flat subfile.
    pub const DATA_START_BYTES: u64 = DATA_START;

    /// Bytes that the subfile occupies on the disk.
    pub fn disk_bytes(&self) -> Result<u64, StoreError> {
        let bytes = self.shared.file.allocated_bytes();
        bytes.map_err(|error| self.shared.place.io(error, "measuring"))
    }
}

/// Bytes of a flat subfile that are in the page cache, to be sent from there: its descriptor is the
/// file's.
pub struct CachedPart {
    file: Arc<FlatShared>,
    position: u64,
    len: u64,
}

impl CachedPart {
    /// Where they begin in the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// How many they are.
    pub fn len_bytes(&self) -> u64 {
        self.len
    }
}

impl AsFd for CachedPart {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let descriptor = self.file.file.descriptor().expect("what is cached has a descriptor");
        // SAFETY: the file, which is borrowed, keeps it open.
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

impl FlatShared {
    pub(crate) fn new(
        place: Place,
        file: Arc<dyn MediumFile>,
        read_only: bool,
        failed: Option<String>,
        is_durable: bool,
        descriptions: Arc<Descriptions>,
        lock: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        let (poison, syncing) = (Poison::new(failed), Mutex::new(is_durable));
        Self { place, file, read_only, poison, syncing, descriptions, _lock: lock }
    }

    /// Where a range starts in the file.
    pub(crate) fn position(&self, offset: u64, len: u64) -> Result<u64, StoreError> {
        match offset.checked_add(len) {
            Some(end) if end <= MAX_FLAT_LEN => Ok(offset + DATA_START),
            _ => Err(StoreError::OffsetOutOfRange { offset, len, max: MAX_FLAT_LEN }),
        }
    }

    pub(crate) fn check_writable(&self, action: &str) -> Result<(), StoreError> {
        if self.read_only {
            return Err(self.place.read_only(action));
        }
        match self.poison.reason() {
            Some(reason) => Err(self.place.poisoned(reason, CHECK_IT)),
            None => Ok(()),
        }
    }

    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        if self.read_only {
            return Ok(());
        }
        // One at a time: the kernel tells a failure to one caller only.
        let mut is_durable = self.syncing.lock();
        self.check_writable("sync")?;
        let synced = match *is_durable {
            true => self.file.sync(),
            false => self.descriptions.sync_first(self.place.subfile, &*self.file),
        };
        synced.map_err(|error| self.fail(error))?;
        *is_durable = true;
        Ok(())
    }

    /// Remembers a failed sync: here, in the disk and in the description.
    pub(crate) fn fail(&self, error: io::Error) -> StoreError {
        let (id, why) = (self.place.subfile, error.to_string());
        self.poison.set(&why);
        self.descriptions.poisoned.note(id, &why);
        match self.descriptions.update(id, |description| description.is_poisoned = true) {
            Ok(_) => self.place.io(error, "the sync"),
            Err(unmarked) => {
                let action = format!("the sync (nor note the failure on the disk: {unmarked})");
                self.place.io(error, &action)
            }
        }
    }

    /// Reads every byte from the disk, after a sync; how many there are.
    pub(crate) fn verify(&self) -> Result<u64, StoreError> {
        let _syncing = self.syncing.lock();
        let failed = |action| move |error| self.place.io(error, action);
        if !self.read_only {
            self.file.sync().map_err(failed("the sync"))?;
        }
        self.file.forget_cached();
        let len = self.file.len().map_err(failed("measuring"))?;
        let mut buffer = vec![0; VERIFY_BYTES];
        let (mut position, mut read) = (DATA_START, 0);
        while let Some(data) = self.file.next_data(position).map_err(failed("reading"))? {
            if data >= len {
                break;
            }
            let count = self.file.read_at(&mut buffer, data).map_err(failed("reading"))?;
            if count == 0 {
                break;
            }
            read += count as u64;
            position = data + count as u64;
        }
        Ok(read)
    }
}
