//! What the interface thread has done by the directory threads of the nodes.

use pario_proto::{Failure, FileId, FileRecord, Grant, Part};
use serde::{Deserialize, Serialize};

/// Something to be done by the directory thread of one node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubfilesWork {
    /// The node.
    pub node: usize,
    /// What.
    pub work: Work,
}

/// What a directory thread does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Removes the subfiles of files.
    Remove {
        /// The files.
        files: Vec<FileRecord>,
    },
    /// Grants of before are not valid any more.
    Revoke {
        /// The file.
        file: FileId,
        /// The first version that is valid.
        rights_version: u32,
    },
    /// Lengths and times.
    Measure {
        /// For each file: the right to, and which subfiles, with the numbers of their disks.
        files: Vec<(Grant, Vec<(usize, Part)>)>,
    },
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubfilesDone {
    /// The node.
    pub node: usize,
    /// Whether it is done.
    pub result: Result<(), Failure>,
}
