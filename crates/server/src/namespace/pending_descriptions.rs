//! Pending descriptions: files whose descriptions on some disk are older than the namespace.
//!
//! Descriptions carry path, owner, mode and first-synced subfiles, so that the namespace can be
//! rebuilt from the disks. A transaction that changes one of these also writes a *pending* entry;
//! the description writer deletes the entry when all disks have acknowledged the change.
//!
//! Order: the namespace changes first. The description writer reads the file, with its rights
//! version and its number of renames, and sends both. A disk accepts rights and path only if their
//! version is not older than its own, so deliveries may overtake each other. The entry is deleted
//! only if both versions are still those that were delivered. A node that creates a subfile later
//! asks the namespace, or has received a delivery.

use pario_proto::{Failure, FileId, FileRecord, KnownFile};

use super::handle::Namespace;
use super::key;
use super::paths::PathCache;
use super::transaction::TreeTransaction;
use super::tree::{NamespaceError, inconsistent, node, path_version};

impl Namespace {
    /// Returns files with pending descriptions, in the order of their ids, after a given one; at
    /// most `limit`.
    pub fn pending_descriptions(
        &self,
        after: Option<FileId>,
        limit: usize,
    ) -> Result<Vec<KnownFile>, Failure> {
        self.read(|snapshot| {
            let from =
                after.map_or_else(|| b"o".to_vec(), |id| key::after(key::pending_description(id)));
            let (mut paths, mut files) = (PathCache::new(snapshot), Vec::new());
            for (key, _) in snapshot.range(&from, b"p", limit)? {
                let id =
                    key::id_in(&key).ok_or_else(|| inconsistent("an entry has no id".into()))?;
                // A file may have been removed since; deleting the entry will notice.
                if let Some(node) = node(snapshot, FileId(id))? {
                    files.push(paths.known_file(node)?);
                }
            }
            Ok(files)
        })
    }

    /// Deletes the pending entries of files whose descriptions all disks have. An entry stays if its
    /// file has changed since.
    pub fn mark_described(
        &self,
        files: Vec<KnownFile>,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        let is_pending = self.read(|snapshot| {
            for KnownFile { record, .. } in &files {
                if snapshot.get(&key::pending_description(record.id))?.is_some() {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        match is_pending {
            Ok(true) => {}
            Ok(false) => return done(Ok(())),
            Err(failure) => return done(Err(failure)),
        }
        let body = move |transaction: &mut TreeTransaction<'_>| {
            for KnownFile { record, path_version: described, .. } in &files {
                let is_current = match node(transaction.snapshot(), record.id)? {
                    Some(node) => {
                        is_described_by(&node.record, record)
                            && path_version(transaction.snapshot(), record.id)? == *described
                    }
                    None => true,
                };
                if is_current {
                    transaction.delete_present(&key::pending_description(record.id))?;
                }
            }
            Ok(())
        };
        self.transact(body, done);
    }

    /// Returns the last file that an upgrade from an older format has described; the files after it
    /// have yet to be described. `None` if no upgrade is under way.
    pub fn description_cursor(&self) -> Result<Option<FileId>, Failure> {
        self.read(|snapshot| match snapshot.get(key::DESCRIPTION_CURSOR)? {
            Some(value) => {
                let bytes = <[u8; 16]>::try_from(value);
                let wrong = |_| inconsistent("the cursor of the upgrade cannot be read".into());
                Ok(Some(FileId(u128::from_be_bytes(bytes.map_err(wrong)?))))
            }
            None => Ok(None),
        })
    }

    /// Records the progress of an upgrade: it has described all files up to `cursor`, except those
    /// in `pending`. `None` ends the upgrade.
    pub fn set_description_cursor(
        &self,
        cursor: Option<FileId>,
        pending: Vec<FileId>,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        let body = move |transaction: &mut TreeTransaction<'_>| {
            for &file in &pending {
                if node(transaction.snapshot(), file)?.is_some() {
                    transaction.add_pending_description(file);
                }
            }
            match cursor {
                Some(file) => {
                    transaction.put(key::DESCRIPTION_CURSOR, file.0.to_be_bytes().to_vec())
                }
                None => transaction.delete(key::DESCRIPTION_CURSOR),
            }
            Ok::<(), NamespaceError>(())
        };
        self.transact(body, done);
    }
}

/// Whether a description by one record says everything that the current record says.
fn is_described_by(current: &FileRecord, described: &FileRecord) -> bool {
    let has = |word: usize| described.first_synced.get(word).copied().unwrap_or(0);
    current.rights_version == described.rights_version
        && current.first_synced.iter().enumerate().all(|(word, bits)| bits & !has(word) == 0)
}
