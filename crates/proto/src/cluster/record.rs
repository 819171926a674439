//! The record that a cluster keeps of a file.

use serde::{Deserialize, Serialize};

use crate::ids::FileId;
use crate::layout::encoding::Layout;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A parallel file of bytes.
    Flat,
    /// A parallel file of extents.
    Extents,
}

/// The record of a file or directory. It does not contain the size: the subfiles have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// The id of the file.
    pub id: FileId,
    /// The kind.
    pub kind: FileKind,
    /// The layout; directories have none.
    pub layout: Option<Layout>,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Permissions: the lowest nine bits, as in POSIX.
    pub mode: u32,
    /// When it was created, in nanoseconds since 1970.
    pub created_ns: u64,
    /// When the record, or the entries of the directory, last changed, in nanoseconds since 1970.
    pub changed_ns: u64,
    /// Counts changes of owner, group and mode: a change makes earlier grants invalid.
    pub rights_version: u32,
    /// The first-synced subfiles: bit `i % 64` of word `i / 64`. If one of these is missing on its
    /// disk, it is lost; any other subfile has not come into being, or has never been promised.
    pub first_synced: Vec<u64>,
}

impl FileRecord {
    /// Whether a subfile was synced at least once.
    pub fn is_first_synced(&self, subfile: u32) -> bool {
        let word = self.first_synced.get(subfile as usize / 64).copied().unwrap_or(0);
        word >> (subfile % 64) & 1 == 1
    }

    /// The number of subfiles that were synced at least once.
    pub fn first_synced_count(&self) -> u32 {
        self.first_synced.iter().map(|word| word.count_ones()).sum()
    }

    /// Records that a subfile was synced. Returns whether that is new.
    pub fn mark_synced(&mut self, subfile: u32) -> bool {
        let word = subfile as usize / 64;
        if self.first_synced.len() <= word {
            self.first_synced.resize(word + 1, 0);
        }
        let bit = 1 << (subfile % 64);
        let is_new = self.first_synced[word] & bit == 0;
        self.first_synced[word] |= bit;
        is_new
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// The name.
    pub name: String,
    /// The record.
    pub record: FileRecord,
}

/// The identity of a client: identified by the kernel, or claimed by a holder of the cluster's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The user.
    pub uid: u32,
    /// All groups.
    pub gids: Vec<u32>,
}

impl Identity {
    /// Whether it may do everything.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subfiles_are_marked_one_by_one() {
        let mut record = FileRecord {
            id: FileId(7),
            kind: FileKind::Flat,
            layout: None,
            uid: 0,
            gid: 0,
            mode: 0o640,
            created_ns: 0,
            changed_ns: 0,
            rights_version: 0,
            first_synced: Vec::new(),
        };
        assert!(!record.is_first_synced(0) && !record.is_first_synced(200));
        assert!(record.mark_synced(200) && !record.mark_synced(200));
        assert!(
            record.is_first_synced(200)
                && !record.is_first_synced(199)
                && !record.is_first_synced(136)
        );
    }
}
