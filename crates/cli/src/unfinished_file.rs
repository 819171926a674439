//! A new extent file that is removed unless it is completed.

use std::cell::Cell;

use pario::{Cluster, FilePath};

use crate::commands::cp::partial;

/// An incomplete file. If it replaces another file, it has a hidden name until it is complete.
/// Dropping it before [`Self::finish`] removes it.
pub struct UnfinishedFile<'c> {
    cluster: &'c Cluster,
    path: FilePath,
    to: FilePath,
    /// Whether the file was created, and must be removed.
    is_created: Cell<bool>,
}

impl<'c> UnfinishedFile<'c> {
    /// Prepares a file that may replace another; fails if that one is not writable.
    pub fn replacing(cluster: &'c Cluster, to: &FilePath) -> Result<Self, pario::Error> {
        let path = match cluster.options().write(true).open(to.as_str()) {
            Ok(_) => {
                let name = partial::unique(to.name().unwrap_or_default().as_ref());
                to.parent().unwrap_or_else(FilePath::root).join(&name)?
            }
            Err(error) if error.kind() == pario::ErrorKind::NotFound => to.clone(),
            Err(error) => return Err(error),
        };
        Ok(Self { cluster, path, to: to.clone(), is_created: Cell::new(false) })
    }

    /// Prepares a file that must not exist yet.
    pub fn new(cluster: &'c Cluster, to: &FilePath) -> Result<Self, pario::Error> {
        match cluster.metadata(to.as_str()) {
            Ok(_) => Err(pario::Failure::Exists { path: to.clone() }.into()),
            Err(error) if error.kind() == pario::ErrorKind::NotFound => {
                Self::replacing(cluster, to)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the path to write to.
    pub fn path(&self) -> &FilePath {
        &self.path
    }

    /// Notes that this process has created the file.
    pub fn note_created(&self) {
        self.is_created.set(true);
    }

    /// Gives the complete file its final name.
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
            // The caller reports the original failure.
            let _ = self.cluster.remove(self.path.as_str());
        }
    }
}
