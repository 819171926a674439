//! What can go wrong, in sentences: what happened, to what, and what to do.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use crate::subfile::{Kind, SubfileId};

/// Why the store could not do what it was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The operating system refused an operation.
    #[error("disk {disk}: cannot {action}: {source}")]
    Io {
        /// The disk's directory.
        disk: Arc<str>,
        /// What was tried, and on what.
        action: String,
        /// The system's reason.
        source: io::Error,
    },
    /// There is no space left; nothing that was stored before has changed.
    #[error(
        "disk {disk} is full: cannot {action}; what was acknowledged is kept; free space or delete \
         data"
    )]
    Full {
        /// The disk's directory.
        disk: Arc<str>,
        /// What was tried, and on what.
        action: String,
    },
    /// The bytes on the disk are not those that were written.
    #[error("disk {disk}: {subfile}{}: damaged: {what}", extent_part(.extent))]
    Damaged {
        /// The disk's directory.
        disk: Arc<str>,
        /// The subfile concerned.
        subfile: SubfileId,
        /// The extent concerned, if it is known.
        extent: Option<u64>,
        /// What does not fit.
        what: String,
    },
    /// An earlier sync or change failed, and what is on the disk is no longer certain.
    #[error(
        "disk {disk}: {subfile} takes no more changes since an earlier sync or change failed \
         ({reason}); {remedy}"
    )]
    Poisoned {
        /// The disk's directory.
        disk: Arc<str>,
        /// The subfile concerned.
        subfile: SubfileId,
        /// The first failure.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A change was asked of a disk or subfile that is open for reading only.
    #[error("disk {disk} is open for reading only: cannot {action}")]
    ReadOnly {
        /// The disk's directory.
        disk: Arc<str>,
        /// What was tried.
        action: String,
    },
    /// Another process, or another handle of this one, has the disk.
    #[error("disk {disk} is in use by another process; stop it, or open the disk read-only in all")]
    InUse {
        /// The disk's directory.
        disk: Arc<str>,
    },
    /// The directory is not a disk of the store.
    #[error("{disk} is not a disk of pario ({why}); create one there, or name another directory")]
    NotADisk {
        /// The directory.
        disk: Arc<str>,
        /// What is missing or strange.
        why: String,
    },
    /// A file with the name of a subfile has other content.
    #[error("disk {disk}: {name} is not a subfile of pario: {why}")]
    NotASubfile {
        /// The disk's directory.
        disk: Arc<str>,
        /// The name on the disk.
        name: String,
        /// What is strange about it.
        why: String,
    },
    /// The disk or subfile was written by a newer version.
    #[error(
        "disk {disk}: {name} has format version {found}, this program knows up to {known}; use a \
         newer pario"
    )]
    NewerVersion {
        /// The disk's directory.
        disk: Arc<str>,
        /// The name on the disk.
        name: String,
        /// The version found.
        found: u16,
        /// The newest version known.
        known: u16,
    },
    /// There is no such subfile.
    #[error("disk {disk} has no {subfile}")]
    NotFound {
        /// The disk's directory.
        disk: Arc<str>,
        /// The subfile asked for.
        subfile: SubfileId,
    },
    /// The subfile exists already.
    #[error("disk {disk} has {subfile} already")]
    Exists {
        /// The disk's directory.
        disk: Arc<str>,
        /// The subfile asked for.
        subfile: SubfileId,
    },
    /// The subfile is of the other kind.
    #[error("disk {disk}: {subfile} is of kind {found}, not {asked}; open it as what it is")]
    WrongKind {
        /// The disk's directory.
        disk: Arc<str>,
        /// The subfile asked for.
        subfile: SubfileId,
        /// What it is.
        found: Kind,
        /// What was asked for.
        asked: Kind,
    },
    /// Header and body are together too large.
    #[error("an extent of {bytes} bytes is over the limit of {limit_bytes}; cut it into several")]
    ExtentTooLarge {
        /// Header and body together.
        bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The extent index is too large.
    #[error("extent index {index} is out of range; the largest is {max}")]
    IndexOutOfRange {
        /// The index asked for.
        index: u64,
        /// The largest there is.
        max: u64,
    },
    /// A position in a flat subfile is too large.
    #[error("{len} bytes at offset {offset} end beyond the largest offset, {max}")]
    OffsetOutOfRange {
        /// The first byte.
        offset: u64,
        /// How many bytes.
        len: u64,
        /// The largest end.
        max: u64,
    },
    /// Layout and path do not fit into the description of a subfile.
    #[error("layout and path of {subfile} have {bytes} bytes together, at most {limit_bytes} fit")]
    DescriptionTooLarge {
        /// The subfile concerned.
        subfile: SubfileId,
        /// Their size.
        bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// An option has a value that cannot be used.
    #[error("option {option} cannot be {value}: {why}")]
    BadOption {
        /// The option's name.
        option: &'static str,
        /// The value given.
        value: u64,
        /// What it must be.
        why: &'static str,
    },
}

impl StoreError {
    /// Whether the cause is a lack of space.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// Whether the cause is damaged data.
    pub fn is_damaged(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

fn extent_part(extent: &Option<u64>) -> String {
    extent.map_or_else(String::new, |index| format!(", extent {index}"))
}

/// A disk by name: makes the errors that concern it.
#[derive(Clone, Debug)]
pub(crate) struct DiskPlace {
    pub(crate) disk: Arc<str>,
    /// Distinguishes the disks that a process has open.
    pub(crate) number: u64,
}

static DISKS: AtomicU64 = AtomicU64::new(1);

impl DiskPlace {
    pub(crate) fn new(disk: &str) -> Self {
        Self { disk: disk.into(), number: DISKS.fetch_add(1, Ordering::Relaxed) }
    }

    pub(crate) fn io(&self, source: io::Error, action: impl Into<String>) -> StoreError {
        let (disk, action) = (self.disk.clone(), action.into());
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StoreError::Full { disk, action }
            }
            _ => StoreError::Io { disk, action, source },
        }
    }

    pub(crate) fn read_only(&self, action: impl Into<String>) -> StoreError {
        StoreError::ReadOnly { disk: self.disk.clone(), action: action.into() }
    }
}

/// A subfile by name: makes the errors that concern it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) disk: DiskPlace,
    pub(crate) subfile: SubfileId,
}

impl Place {
    pub(crate) fn io(&self, source: io::Error, action: &str) -> StoreError {
        self.disk.io(source, format!("{action} of {}", self.subfile))
    }

    pub(crate) fn damaged(&self, extent: Option<u64>, what: impl Into<String>) -> StoreError {
        let disk = self.disk.disk.clone();
        StoreError::Damaged { disk, subfile: self.subfile, extent, what: what.into() }
    }

    pub(crate) fn poisoned(&self, reason: impl Into<String>, remedy: &'static str) -> StoreError {
        let disk = self.disk.disk.clone();
        StoreError::Poisoned { disk, subfile: self.subfile, reason: reason.into(), remedy }
    }

    pub(crate) fn read_only(&self, action: &str) -> StoreError {
        self.disk.read_only(format!("{action} {}", self.subfile))
    }

    pub(crate) fn newer(&self, name: impl Into<String>, found: u16, known: u16) -> StoreError {
        StoreError::NewerVersion { disk: self.disk.disk.clone(), name: name.into(), found, known }
    }
}
