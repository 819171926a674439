//! What lies where copies go, asked for one directory at a time.

use std::collections::HashMap;
use std::fs;
use std::io;

use pario::{Cluster, FileKind, FilePath};

use super::direction::Place;
use super::plan::{Item, nanoseconds};

/// A file that is there.
#[derive(Clone, Copy, Debug)]
pub struct ExistingFile {
    len: u64,
    modified_ns: u64,
    is_extents: bool,
}

impl ExistingFile {
    /// Whether it looks like a copy of a file as that is now: of the same size, and not older.
    pub fn is_current(self, item: &Item) -> bool {
        // An archive is longer than the extents in it.
        let is_same_kind = self.is_extents == item.is_extents;
        let is_same_size = !is_same_kind || Some(self.len) == item.len;
        is_same_size && item.modified_ns.is_some_and(|time| self.modified_ns >= time)
    }
}

/// Knows the targets of a copy.
pub struct ExistingFiles<'c> {
    cluster: &'c Cluster,
    directories: HashMap<FilePath, HashMap<String, ExistingFile>>,
}

impl<'c> ExistingFiles<'c> {
    /// Knows nothing yet.
    pub fn new(cluster: &'c Cluster) -> Self {
        Self { cluster, directories: HashMap::new() }
    }

    /// The file at a place, if there is one.
    pub fn find(&mut self, place: &Place) -> anyhow::Result<Option<ExistingFile>> {
        match place {
            Place::Stream => Ok(None),
            Place::Local(path) => Ok(fs::metadata(path).ok().map(|known| ExistingFile {
                len: known.len(),
                modified_ns: nanoseconds(&known),
                is_extents: false,
            })),
            Place::Cluster(path) => {
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
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
            Err(error) => return Err(error.into()),
        };
        let mut files = HashMap::new();
        for listed in listing {
            let listed = listed?;
            if listed.record.kind != FileKind::Directory {
                // What cannot be measured counts as older than everything.
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
