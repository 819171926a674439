//! Subfiles come into being with their first byte. One that is not there has not been made yet, or
//! is lost; the deed that a grant carries tells which.

use std::collections::{HashSet, VecDeque};

use pario_proto::{Deed, Failure, FileId, Grant, Part};
use pario_store::{ExtentFile, FlatFile, StoreError};

use crate::disks::NodeDisk;
use crate::shared::Shared;

/// So many files are remembered after their subfiles were removed.
const REMEMBERED: usize = 1 << 16;

/// A subfile, as a request finds it.
pub enum Found<T> {
    /// It is there.
    Made(T),
    /// Nobody has written to it, or a power loss has taken it before it was synced.
    Unmade(Box<Deed>),
}

/// Files whose subfiles were removed lately: what clients that are gone had sent before comes too
/// late to make them anew.
#[derive(Debug, Default)]
pub struct Removed {
    files: HashSet<FileId>,
    oldest_first: VecDeque<FileId>,
}

impl Removed {
    /// A file is removed.
    pub fn note(&mut self, file: FileId) {
        if !self.files.insert(file) {
            return;
        }
        self.oldest_first.push_back(file);
        if self.oldest_first.len() > REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.files.remove(&oldest);
        }
    }

    /// Whether a file was removed lately.
    pub fn has(&self, file: FileId) -> bool {
        self.files.contains(&file)
    }
}

impl<T> Found<T> {
    /// What is there.
    pub fn made(self) -> Option<T> {
        match self {
            Found::Made(subfile) => Some(subfile),
            Found::Unmade(_) => None,
        }
    }
}

impl Shared {
    /// A flat subfile.
    pub fn flat(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: Part,
    ) -> Result<Found<FlatFile>, Failure> {
        self.found(disk, grant, part, disk.flat(grant.file, part.subfile.0))
    }

    /// A subfile of extents.
    pub fn extents(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: Part,
    ) -> Result<Found<ExtentFile>, Failure> {
        self.found(disk, grant, part, disk.extents(grant.file, part.subfile.0))
    }

    /// A flat subfile; it is made if it is not there.
    pub fn flat_made(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: Part,
    ) -> Result<FlatFile, Failure> {
        match self.flat(disk, grant, part)? {
            Found::Made(flat) => Ok(flat),
            Found::Unmade(deed) => {
                disk.make(&deed, part.subfile.0)?;
                self.certain(disk, grant, part, disk.flat(grant.file, part.subfile.0))
            }
        }
    }

    /// A subfile of extents; it is made if it is not there.
    pub fn extents_made(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: Part,
    ) -> Result<ExtentFile, Failure> {
        match self.extents(disk, grant, part)? {
            Found::Made(extents) => Ok(extents),
            Found::Unmade(deed) => {
                disk.make(&deed, part.subfile.0)?;
                self.certain(disk, grant, part, disk.extents(grant.file, part.subfile.0))
            }
        }
    }

    /// What opening a subfile means.
    pub fn found<T>(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: Part,
        opened: Result<T, StoreError>,
    ) -> Result<Found<T>, Failure> {
        if let Err(StoreError::NotFound { .. } | StoreError::NotASubfile { .. }) = &opened
            && let Some(sealed) = &grant.deed
            && let Some(deed) = self.grants.open_deed(sealed)
            && deed.record.id == grant.file
            && deed.covers(part)
        {
            return Ok(Found::Unmade(Box::new(deed)));
        }
        self.certain(disk, grant, part, opened).map(Found::Made)
    }

    fn certain<T>(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: Part,
        opened: Result<T, StoreError>,
    ) -> Result<T, Failure> {
        let id = NodeDisk::subfile_id(grant.file, part);
        opened.map_err(|error| disk.failure(error, id, "open it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_removed_files_are_remembered_as_there_is_room_for() {
        let mut removed = Removed::default();
        for file in 0..REMEMBERED as u128 + 10 {
            removed.note(FileId(file));
            removed.note(FileId(file));
        }
        assert!(!removed.has(FileId(9)) && removed.has(FileId(10)));
        assert_eq!(removed.files.len(), REMEMBERED);
        assert_eq!(removed.oldest_first.len(), REMEMBERED);
    }
}
