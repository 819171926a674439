//! A new file of extents that is removed unless it becomes whole.

use std::cell::Cell;
use std::io;

use pario::{Cluster, FilePath};

use crate::commands::cp::partial;

/// A file that is being made. One that replaces another has a hidden name until it is whole. What was
/// made is removed when this value goes before that.
pub struct UnfinishedFile<'c> {
    cluster: &'c Cluster,
    path: FilePath,
    to: FilePath,
    /// Whether there is something to remove.
    is_created: Cell<bool>,
}

impl<'c> UnfinishedFile<'c> {
    /// For a file that may replace what is there; an error if that cannot be written to.
    pub fn replacing(cluster: &'c Cluster, to: &FilePath) -> Result<Self, pario::Error> {
        let path = match cluster.options().write(true).open(to.as_str()) {
            Ok(_) => {
                let name = partial::unique(to.name().unwrap_or_default().as_ref());
                to.parent().unwrap_or_else(FilePath::root).join(&name)?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => to.clone(),
            Err(error) => return Err(error),
        };
        Ok(Self { cluster, path, to: to.clone(), is_created: Cell::new(false) })
    }

    /// For a file that must be new.
    pub fn new(cluster: &'c Cluster, to: &FilePath) -> Result<Self, pario::Error> {
        match cluster.metadata(to.as_str()) {
            Ok(_) => Err(pario::Failure::Exists { path: to.clone() }.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::replacing(cluster, to),
            Err(error) => Err(error),
        }
    }

    /// The name to write to.
    pub fn path(&self) -> &FilePath {
        &self.path
    }

    /// The file is there; it is not another's.
    pub fn note_created(&self) {
        self.is_created.set(true);
    }

    /// The file is whole and gets its name.
    pub fn finish(self) -> Result<(), pario::Error> {
        if self.path != self.to {
            self.cluster.rename(self.path.as_str(), self.to.as_str())?;
        }
        self.is_created.set(false);
        Ok(())
    }
}

impl Drop for UnfinishedFile<'_> {
    fn drop(&mut self) {
        if self.is_created.get() {
            // The failure that leads here is the one to report.
            let _ = self.cluster.remove(self.path.as_str());
        }
    }
}
