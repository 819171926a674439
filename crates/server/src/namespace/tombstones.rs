//! Tombstones: removed files whose subfiles are still on the disks.

use pario_proto::{Failure, FileId, FileRecord, KnownFile};

use super::handle::Namespace;
use super::key;
use super::transaction::TreeTransaction;
use super::tree::decode;

impl Namespace {
    /// Returns the records of all removed files whose subfiles may still exist, in the order of
    /// their ids.
    pub fn tombstones(&self) -> Result<Vec<FileRecord>, Failure> {
        self.read(|snapshot| {
            let pairs = snapshot.range(b"x", b"y", usize::MAX)?;
            pairs.iter().map(|(_, value)| decode(value, || "a tombstone".into())).collect()
        })
    }

    /// Returns the tombstone of a file. A removed file has no path.
    pub fn tombstone(&self, id: FileId) -> Result<Option<KnownFile>, Failure> {
        self.read(|snapshot| match snapshot.get(&key::tombstone(id))? {
            Some(value) => {
                let record = decode(&value, || "a tombstone".into())?;
                Ok(Some(KnownFile { path: None, path_version: 0, record }))
            }
            None => Ok(None),
        })
    }

    /// Removes tombstones: the subfiles of these files are gone.
    pub fn remove_tombstones(
        &self,
        ids: Vec<FileId>,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        let body = move |transaction: &mut TreeTransaction<'_>| {
            ids.iter().try_for_each(|&id| transaction.delete_present(&key::tombstone(id)))
        };
        self.transact(body, done);
    }
}
