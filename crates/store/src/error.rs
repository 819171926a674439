//! The errors of the store. Each text says what failed, on which object, why, and what to do.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use crate::subfile::{SubfileId, SubfileKind};

/// Why a call of the store failed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The operating system refused an operation.
    #[error("disk {disk}: cannot {action}: {source}")]
    Io {
        /// The disk's directory.
        disk: Arc<str>,
        /// The action that failed, and its object.
        action: String,
        /// The reason that the operating system gives.
        source: io::Error,
    },
    /// The file system has no space left. The store has changed nothing.
    #[error(
        "disk {disk} is full: cannot {action}; acknowledged data is kept; free space on its file \
         system or delete data"
    )]
    Full {
        /// The disk's directory.
        disk: Arc<str>,
        /// The action that failed, and its object.
        action: String,
    },
    /// The bytes on the disk are not those that the store has written.
    #[error(
        "disk {disk}: {subfile}{}: damaged: {what}; restore the file from a copy",
        extent_part(.extent)
    )]
    Damaged {
        /// The disk's directory.
        disk: Arc<str>,
        /// The subfile concerned.
        subfile: SubfileId,
        /// The extent concerned, if it is known.
        extent: Option<u64>,
        /// The contradiction that the store has found.
        what: String,
    },
    /// An earlier sync or change has failed, so that the bytes on the disk are uncertain.
    #[error(
        "disk {disk}: {subfile} accepts no changes because an earlier sync or change failed \
         ({reason}); {remedy}"
    )]
    Poisoned {
        /// The disk's directory.
        disk: Arc<str>,
        /// The subfile concerned.
        subfile: SubfileId,
        /// The first failure.
        reason: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The caller changes a disk or subfile that is open for reading only.
    #[error("disk {disk} is open for reading only: cannot {action}; open it for writing")]
    ReadOnly {
        /// The disk's directory.
        disk: Arc<str>,
        /// The action that the store refuses.
        action: String,
    },
    /// Another process, or another `Disk` of this process, has the disk open.
    #[error(
        "disk {disk} is in use by another process; stop that process, or open the disk read-only in \
         all processes"
    )]
    InUse {
        /// The disk's directory.
        disk: Arc<str>,
    },
    /// The directory is not a disk of the store.
    #[error("{disk} is not a disk of pario ({why}); create a disk there or name another directory")]
    NotADisk {
        /// The directory.
        disk: Arc<str>,
        /// What is missing or unexpected.
        why: String,
    },
    /// A file has the name of a subfile and other content.
    #[error(
        "disk {disk}: {name} is not a subfile of pario: {why}; if no file of the cluster needs it, \
         move it away"
    )]
    NotASubfile {
        /// The disk's directory.
        disk: Arc<str>,
        /// The name on the disk.
        name: String,
        /// What is unexpected.
        why: String,
    },
    /// A newer version of pario has written the disk or subfile.
    #[error(
        "disk {disk}: {name} has format version {found}, and this program reads up to {known}; use \
         a newer pario"
    )]
    NewerVersion {
        /// The disk's directory.
        disk: Arc<str>,
        /// The name on the disk.
        name: String,
        /// The version found.
        found: u16,
        /// The newest version that this program reads.
        known: u16,
    },
    /// The disk has no such subfile.
    #[error("disk {disk} has no {subfile}")]
    NotFound {
        /// The disk's directory.
        disk: Arc<str>,
        /// The requested subfile.
        subfile: SubfileId,
    },
    /// The subfile exists already.
    #[error("disk {disk} has {subfile} already; open it instead of creating it")]
    Exists {
        /// The disk's directory.
        disk: Arc<str>,
        /// The requested subfile.
        subfile: SubfileId,
    },
    /// The subfile is of the other kind.
    #[error("disk {disk}: {subfile} is of kind {found}, not {asked}; open it as {found}")]
    WrongKind {
        /// The disk's directory.
        disk: Arc<str>,
        /// The requested subfile.
        subfile: SubfileId,
        /// Its kind.
        found: SubfileKind,
        /// The requested kind.
        asked: SubfileKind,
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
    #[error("extent index {index} is out of range: the largest index is {max}")]
    IndexOutOfRange {
        /// The requested index.
        index: u64,
        /// The largest index.
        max: u64,
    },
    /// A range of a flat subfile ends too far out.
    #[error("{len} bytes at offset {offset} end beyond the largest offset of a subfile, {max}")]
    OffsetOutOfRange {
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        len: u64,
        /// The largest end.
        max: u64,
    },
    /// Layout and path do not fit into the description of a subfile.
    #[error(
        "layout and path of {subfile} have {bytes} bytes together; its description holds at most \
         {limit_bytes}; use a shorter path"
    )]
    DescriptionTooLarge {
        /// The subfile concerned.
        subfile: SubfileId,
        /// Their size.
        bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// An option has an invalid value.
    #[error("option {option} cannot be {value}: {why}")]
    BadOption {
        /// The option's name.
        option: &'static str,
        /// The value given.
        value: u64,
        /// The rule that the value breaks.
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

/// The context of a disk in errors: makes the errors that concern it.
#[derive(Clone, Debug)]
pub(crate) struct DiskContext {
    /// The directory of the disk.
    pub(crate) name: Arc<str>,
    /// Distinguishes the disks that a process has open.
    pub(crate) number: u64,
}

static DISKS: AtomicU64 = AtomicU64::new(1);

impl DiskContext {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into(), number: DISKS.fetch_add(1, Ordering::Relaxed) }
    }

    pub(crate) fn io(&self, source: io::Error, action: impl Into<String>) -> StoreError {
        let (disk, action) = (self.name.clone(), action.into());
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StoreError::Full { disk, action }
            }
            _ => StoreError::Io { disk, action, source },
        }
    }

    pub(crate) fn read_only(&self, action: impl Into<String>) -> StoreError {
        StoreError::ReadOnly { disk: self.name.clone(), action: action.into() }
    }
}

/// The context of a subfile in errors: makes the errors that concern it.
#[derive(Clone, Debug)]
pub(crate) struct SubfileContext {
    pub(crate) disk: DiskContext,
    pub(crate) subfile: SubfileId,
}

impl SubfileContext {
    /// The error of an action on the subfile, such as `open` or `read the index of`.
    pub(crate) fn io(&self, source: io::Error, action: &str) -> StoreError {
        self.disk.io(source, format!("{action} {}", self.subfile))
    }

    pub(crate) fn damaged(&self, extent: Option<u64>, what: impl Into<String>) -> StoreError {
        let disk = self.disk.name.clone();
        StoreError::Damaged { disk, subfile: self.subfile, extent, what: what.into() }
    }

    pub(crate) fn poisoned(&self, reason: impl Into<String>, remedy: &'static str) -> StoreError {
        let disk = self.disk.name.clone();
        StoreError::Poisoned { disk, subfile: self.subfile, reason: reason.into(), remedy }
    }

    pub(crate) fn read_only(&self, action: &str) -> StoreError {
        self.disk.read_only(format!("{action} {}", self.subfile))
    }

    pub(crate) fn newer(&self, name: impl Into<String>, found: u16, known: u16) -> StoreError {
        StoreError::NewerVersion { disk: self.disk.name.clone(), name: name.into(), found, known }
    }
}
