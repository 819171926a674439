//! Files whose descriptions on the disks do not say yet what the namespace says.
//!
//! Descriptions carry path, owner, mode and synced subfiles, so that the namespace can be made again
//! from the disks. A change that some disk has not acknowledged is *owed* to it: the entry is written
//! in the transaction of the change, and deleted when all disks have it.
//!
//! Order: the namespace changes first. A delivery reads what the namespace says, with the version of
//! the rights and the number of renames, and sends both. A disk takes rights and path only if their
//! version is not older than the one it has, so deliveries may overtake each other. The entry is
//! deleted only if both versions are still those that were delivered. A node that makes a subfile
//! later asks the namespace, or was told by a delivery.

use pario_proto::{Failure, FileId, FileRecord, KnownFile};

use super::change::Change;
use super::handle::Namespace;
use super::key;
use super::recovery::Paths;
use super::tree::{Stop, inconsistent, node, path_version};

impl Namespace {
    /// Files whose descriptions are owed, in the order of their ids, after a given one; at most
    /// `limit`.
    pub fn owed(&self, after: Option<FileId>, limit: usize) -> Result<Vec<KnownFile>, Failure> {
        self.look(|state| {
            let from = after.map_or_else(|| b"o".to_vec(), |id| key::after(key::owed(id)));
            let (mut paths, mut files) = (Paths::new(state), Vec::new());
            for (key, _) in state.range(&from, b"p", limit)? {
                let id =
                    key::id_in(&key).ok_or_else(|| inconsistent("an entry has no id".into()))?;
                // A file that was deleted since is found out when the entry is deleted.
                if let Some(node) = node(state, FileId(id))? {
                    files.push(paths.known(node)?);
                }
            }
            Ok(files)
        })
    }

    /// The descriptions of these files are owed.
    pub fn owe(&self, files: Vec<FileId>, done: impl FnOnce(Result<(), Failure>) + Send + 'static) {
        let body = move |change: &mut Change<'_>| {
            for &file in &files {
                if node(change.state(), file)?.is_some() {
                    change.owe(file);
                }
            }
            Ok(())
        };
        self.change(body, done);
    }

    /// All disks have described these files in this way. An entry stays if its file has changed since.
    pub fn forget_owed(
        &self,
        files: Vec<KnownFile>,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        let is_owed = self.look(|state| {
            for KnownFile { record, .. } in &files {
                if state.get(&key::owed(record.id))?.is_some() {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        match is_owed {
            Ok(true) => {}
            Ok(false) => return done(Ok(())),
            Err(failure) => return done(Err(failure)),
        }
        let body = move |change: &mut Change<'_>| {
            for KnownFile { record, path_version: described, .. } in &files {
                let is_current = match node(change.state(), record.id)? {
                    Some(node) => {
                        is_described_by(&node.record, record)
                            && path_version(change.state(), record.id)? == *described
                    }
                    None => true,
                };
                if is_current && change.state().get(&key::owed(record.id))?.is_some() {
                    change.delete(&key::owed(record.id));
                }
            }
            Ok(())
        };
        self.change(body, done);
    }

    /// In a namespace of an older format: all files after this one have to be described.
    pub fn describe_after(&self) -> Result<Option<FileId>, Failure> {
        self.look(|state| match state.get(key::DESCRIBE_AFTER)? {
            Some(value) => {
                let bytes = <[u8; 16]>::try_from(value);
                let wrong = |_| inconsistent("the file to describe next cannot be read".into());
                Ok(Some(FileId(u128::from_be_bytes(bytes.map_err(wrong)?))))
            }
            None => Ok(None),
        })
    }

    /// All files up to one are described, but those that are owed from now on; all files at all if
    /// none is given.
    pub fn set_describe_after(
        &self,
        file: Option<FileId>,
        owed: Vec<FileId>,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        let body = move |change: &mut Change<'_>| {
            for &file in &owed {
                if node(change.state(), file)?.is_some() {
                    change.owe(file);
                }
            }
            match file {
                Some(file) => change.put(key::DESCRIBE_AFTER, file.0.to_be_bytes().to_vec()),
                None => change.delete(key::DESCRIBE_AFTER),
            }
            Ok::<(), Stop>(())
        };
        self.change(body, done);
    }
}

/// Whether a description by one record says everything that another one does.
fn is_described_by(now: &FileRecord, described: &FileRecord) -> bool {
    let has = |word: usize| described.first_synced.get(word).copied().unwrap_or(0);
    now.rights_version == described.rights_version
        && now.first_synced.iter().enumerate().all(|(word, bits)| bits & !has(word) == 0)
}
