//! What is done by the nodes of a cluster for each other.

use pario_proto::{Failure, FileRecord, Grant, Part, Revocation};
use serde::{Deserialize, Serialize};

/// Something to be done by one node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubfilesWork {
    /// The node.
    pub node: usize,
    /// What.
    pub work: Work,
}

/// What a node does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Removes the subfiles of files.
    Remove {
        /// The files.
        files: Vec<FileRecord>,
        /// The grant epoch: grants of the files are of this one or of one before.
        epoch: u64,
    },
    /// Grants of before are not valid any more.
    Revoke(Revocation),
    /// Makes sure that flat subfiles are there and open.
    Make {
        /// The right to.
        grant: Grant,
        /// Which, with the numbers of their disks.
        parts: Vec<(usize, Part)>,
    },
    /// Lengths and times.
    Measure {
        /// For each file: the right to, and which subfiles, with the numbers of their disks.
        files: Vec<(Grant, Vec<(usize, Part)>)>,
    },
}

impl Work {
    /// Whether disks have to be touched, which may take long.
    pub fn is_for_disks(&self) -> bool {
        !matches!(self, Work::Revoke(_))
    }
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubfilesDone {
    /// The node.
    pub node: usize,
    /// Whether it is done.
    pub result: Result<(), Failure>,
}
