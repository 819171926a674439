//! What a check of the cluster examines and reports.

use serde::{Deserialize, Serialize};

use super::path::FilePath;
use crate::ids::{DiskId, FileId, SubfileIndex};
use crate::layout::encoding::Layout;

/// How thorough a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckDepth {
    /// Lists the subfiles, and reads their descriptions.
    Names,
    /// Also reads everything that has a checksum.
    Everything,
}

/// A subfile that a node has found on a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundSubfile {
    /// The disk.
    pub disk: DiskId,
    /// The file.
    pub file: FileId,
    /// Which subfile of the file.
    pub subfile: SubfileIndex,
    /// Whether it holds extents.
    pub is_extents: bool,
    /// Its description, or why it cannot be read.
    pub description: Result<FoundDescription, String>,
    /// The damage that a thorough check has found.
    pub damage: Vec<String>,
    /// Whether a sync of it has failed, so that it refuses changes.
    pub is_poisoned: bool,
    /// Bytes that a thorough check has compared with their checksums.
    pub verified_bytes: u64,
    /// Bytes without a checksum, counted by a thorough check.
    pub unverified_bytes: u64,
}

/// Owner and mode of a file, from the description of a subfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundRights {
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Permissions.
    pub mode: u32,
    /// Counts changes of owner, group and mode.
    pub rights_version: u32,
}

/// The description that a subfile carries.
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
    /// The first-synced subfiles of its file, if they are known, as in
    /// [`FileRecord::first_synced`](super::record::FileRecord::first_synced).
    pub synced: Option<Vec<u64>>,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Files and directories checked.
    pub files: u64,
    /// Subfiles checked.
    pub subfiles: u64,
    /// Nodes that did not answer: the content of their disks is unknown.
    pub silent_nodes: Vec<String>,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Bytes that were compared with their checksums.
    pub verified_bytes: u64,
    /// Bytes without a checksum, counted by a thorough check.
    pub unverified_bytes: u64,
}

/// A defect that a check has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The path of the file, if it is known.
    pub path: Option<FilePath>,
    /// The id of the file.
    pub file: FileId,
    /// The disk, by its display name.
    pub disk: Option<String>,
    /// A sentence for users.
    pub text: String,
    /// Whether the check has repaired it.
    pub is_repaired: bool,
}

/// Kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FindingKind {
    /// A first-synced subfile is missing.
    Missing,
    /// A subfile that belongs to no file.
    Extra,
    /// The description of a subfile contradicts the namespace.
    Mismatch,
    /// Content does not match its checksum.
    Damage,
    /// A deletion that is not finished.
    UnfinishedDeletion,
    /// A file was rebuilt from the descriptions on the disks.
    Rebuilt,
    /// A rebuilt file needs something that the disks do not tell.
    Guessed,
    /// A subfile refuses changes, because a sync of it has failed.
    Poisoned,
}
