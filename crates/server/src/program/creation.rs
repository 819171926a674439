//! What travels through the node while files are created and removed.

use std::ops::Range;

use pario_net::SpaceId;
use pario_proto::{
    Access, Failure, FileId, FilePath, FileRecord, Identity, LayoutWish, Opened, SubfileIndex,
};
use serde::{Deserialize, Serialize};

/// A file that is being created.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Creation {
    /// The client's address space.
    pub space: SpaceId,
    /// As whom it is known.
    pub who: Identity,
    /// The path.
    pub path: FilePath,
    /// What it is opened for.
    pub access: Access,
    /// An existing file is an error.
    pub is_new: bool,
    /// Permissions.
    pub mode: u32,
    /// The layout wished for.
    pub layout: LayoutWish,
    /// What is being made; none if there is nothing to be made.
    pub record: Option<FileRecord>,
    /// Nodes that have disks of it.
    pub targets: Vec<usize>,
    /// What went wrong.
    pub failure: Option<Failure>,
    /// What came of it.
    pub opened: Option<Opened>,
}

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
    /// Creates the subfiles of a file: all or none.
    Create {
        /// The file.
        record: FileRecord,
        /// Its path.
        path: FilePath,
    },
    /// Creates the subfiles of a file that are missing.
    CreateMissing {
        /// The file.
        record: FileRecord,
        /// Its path.
        path: FilePath,
    },
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
        /// For each file: which subfiles, on which disks of the node.
        files: Vec<(FileId, Vec<(usize, SubfileIndex)>)>,
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

impl Creation {
    /// Whether there is something to be made.
    pub fn is_planned(&self) -> bool {
        self.record.is_some() && self.failure.is_none()
    }

    /// One piece of work for each node concerned.
    pub fn nodes(&self) -> Range<u64> {
        0..self.targets.len() as u64
    }

    /// The piece of work for one of them.
    pub fn part(&self, number: u64) -> Option<SubfilesWork> {
        let node = *self.targets.get(usize::try_from(number).ok()?)?;
        let work = Work::Create { record: self.record.clone()?, path: self.path.clone() };
        Some(SubfilesWork { node, work })
    }

    /// A node is ready.
    pub fn note(&mut self, done: SubfilesDone) {
        if let Err(failure) = done.result {
            self.failure.get_or_insert(failure);
        }
    }

    /// Whether all nodes have made their part.
    pub fn is_made(&self) -> bool {
        self.failure.is_none()
    }
}
