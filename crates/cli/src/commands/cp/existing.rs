//! Looks up the existing targets of a copy, with one listing per directory.

use std::collections::HashMap;
use std::fs;

use pario::{Cluster, FileKind, FilePath};

use super::direction::Location;
use super::plan::{CopyItem, nanoseconds};

/// An existing file at a target.
#[derive(Clone, Copy, Debug)]
pub struct ExistingFile {
    len: u64,
    modified_ns: u64,
    is_extents: bool,
}

impl ExistingFile {
    /// Returns whether the file looks like a current copy: same kind, same size, not older.
    pub fn is_current(self, item: &CopyItem) -> bool {
        // Archives are longer than the extents in them, so sizes of different kinds do not compare.
        let is_same_kind = self.is_extents == item.is_extents;
        let is_same_size = !is_same_kind || Some(self.len) == item.len;
        is_same_size && item.modified_ns.is_some_and(|time| self.modified_ns >= time)
    }
}

/// A cache of target directories.
pub struct ExistingFiles<'c> {
    cluster: &'c Cluster,
    directories: HashMap<FilePath, HashMap<String, ExistingFile>>,
}

impl<'c> ExistingFiles<'c> {
    /// Creates an empty cache.
    pub fn new(cluster: &'c Cluster) -> Self {
        Self { cluster, directories: HashMap::new() }
    }

    /// Returns the file at a location, if there is one.
    pub fn find(&mut self, place: &Location) -> anyhow::Result<Option<ExistingFile>> {
        match place {
            Location::Stream => Ok(None),
            Location::Local(path) => Ok(fs::metadata(path).ok().map(|known| ExistingFile {
                len: known.len(),
                modified_ns: nanoseconds(&known),
                is_extents: false,
            })),
            Location::Cluster(path) => {
                let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
                    return Ok(None);
                };
                if !self.directories.contains_key(&parent) {
                    let listed = self.list(&parent)?;
                    self.directories.insert(parent.clone(), listed);
                }
                Ok(self.directories.get(&parent).and_then(|files| files.get(name)).copied())
            }
        }
    }

    fn list(&self, directory: &FilePath) -> anyhow::Result<HashMap<String, ExistingFile>> {
        let listing = match self.cluster.list(directory.as_str()) {
            Ok(listing) => listing,
            Err(error) if error.kind() == pario::ErrorKind::NotFound => return Ok(HashMap::new()),
            Err(error) => return Err(error.into()),
        };
        let mut files = HashMap::new();
        for listed in listing {
            let listed = listed?;
            if listed.record.kind != FileKind::Directory {
                // A file that cannot be measured counts as older than any other.
                let (len, modified_ns) = listed
                    .measured
                    .as_ref()
                    .map_or((0, 0), |measured| (measured.len, measured.modified_ns));
                let is_extents = listed.record.kind == FileKind::Extents;
                files.insert(listed.name, ExistingFile { len, modified_ns, is_extents });
            }
        }
        Ok(files)
    }
}
