//! What a check of the cluster looks at and finds.

use serde::{Deserialize, Serialize};

use super::path::FilePath;
use crate::ids::{DiskId, FileId, SubfileIndex};
use crate::layout::encoding::Layout;

/// How closely a check looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckDepth {
    /// Which subfiles there are, and what they say of themselves.
    Names,
    /// Everything that has a checksum is read.
    Everything,
}

/// A subfile as a node finds it on a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundSubfile {
    /// On which disk.
    pub disk: DiskId,
    /// Of which file.
    pub file: FileId,
    /// Which one.
    pub subfile: SubfileIndex,
    /// Whether it holds extents.
    pub is_extents: bool,
    /// What it says of itself, or why that cannot be read.
    pub description: Result<FoundDescription, String>,
    /// What a close look has found wrong.
    pub damage: Vec<String>,
    /// Whether a sync of it has failed, so that it takes no changes.
    pub is_poisoned: bool,
    /// Bytes that a close look has compared with their checksums.
    pub verified_bytes: u64,
    /// Bytes that have no checksum, if a close look was asked for.
    pub unverified_bytes: u64,
}

/// Owner and mode of a file, as a description of a subfile has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundRights {
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Permissions.
    pub mode: u32,
    /// Counts changes of the three.
    pub rights_version: u32,
}

/// What a subfile says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundDescription {
    /// The path of its file at creation or after its last rename.
    pub path: String,
    /// How often its file was renamed.
    pub path_version: u32,
    /// The layout of its file.
    pub layout: Layout,
    /// When it was created, in seconds since 1970.
    pub created_s: u64,
    /// Owner and mode of its file, if they are known.
    pub rights: Option<FoundRights>,
    /// Which subfiles of its file have been synced, if that is known, as in
    /// [`FileRecord::settled`](super::record::FileRecord::settled).
    pub synced: Option<Vec<u64>>,
}

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Files and directories looked at.
    pub files: u64,
    /// Subfiles looked at.
    pub subfiles: u64,
    /// Nodes that did not answer: what is on their disks is unknown.
    pub silent_nodes: Vec<String>,
    /// What is not as it should be.
    pub findings: Vec<Finding>,
    /// Bytes that were compared with their checksums.
    pub verified_bytes: u64,
    /// Bytes that have no checksum, if a close look was asked for.
    pub unverified_bytes: u64,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// The file concerned, as far as it is known.
    pub path: Option<FilePath>,
    /// Its id.
    pub file: FileId,
    /// The disk concerned, as people call it.
    pub disk: Option<String>,
    /// A sentence for people.
    pub text: String,
    /// Whether it has been put right.
    pub is_repaired: bool,
}

/// Kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FindingKind {
    /// A subfile that should be there is not.
    Missing,
    /// A subfile that belongs to no file.
    Extra,
    /// A subfile that says something else of itself than the namespace.
    Mismatch,
    /// Content that does not fit its checksum.
    Damage,
    /// A deletion that is not finished.
    Doomed,
    /// A file that was made from what the disks say.
    Rebuilt,
    /// Something that a rebuilt file needs and that the disks do not say.
    Guessed,
    /// A subfile that takes no changes, because a sync of it has failed.
    Poisoned,
}
