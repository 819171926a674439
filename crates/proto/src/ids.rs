//! Identifiers, one type each, so that none can be mistaken for another.
//!
//! Invariants: an id is a plain number without further meaning; a [`SubfileIndex`] counts the
//! subfiles of one file from 0 in the order of the layout's disks, and does not identify a disk.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A parallel file or a directory; an id is never used again, not even for a file of the same name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId(pub u128);

/// A disk of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DiskId(pub u32);

/// A subfile of one file: 0 lies on the first disk of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SubfileIndex(pub u32);

/// An extent of one subfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExtentIndex(pub u64);

impl ExtentIndex {
    /// Every extent index that a layout gives out is below this limit, 2^48.
    pub const LIMIT: u64 = 1 << 48;
}

impl FileId {
    /// The directory that every path begins with.
    pub const ROOT: FileId = FileId(1);
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileId({self})")
    }
}

impl fmt::Display for DiskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk {}", self.0)
    }
}

impl fmt::Display for SubfileIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "subfile {}", self.0)
    }
}

impl fmt::Display for ExtentIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "extent {}", self.0)
    }
}
