//! Files whose subfiles come into being or must go.

use pario_proto::{Failure, FileId, FileRecord, KnownFile, SubfileIndex};

use super::change::Change;
use super::handle::Namespace;
use super::key;
use super::many::each;
use super::recovery::Paths;
use super::tree::{Node, Stop, decode, node};

/// Subfiles of a file that have been synced.
pub struct SyncMark {
    /// The file.
    pub file: FileId,
    /// The subfiles.
    pub subfiles: Vec<SubfileIndex>,
    /// Whether the descriptions on the disks have yet to be told.
    pub is_owed: bool,
}

impl SyncMark {
    fn write(&self, change: &mut Change<'_>) -> Result<(), Stop> {
        let Some(mut node) = node(change.state(), self.file)? else { return Ok(()) };
        if settle(&mut node, &self.subfiles)? {
            change.put_node(&node);
            if self.is_owed {
                change.owe(self.file);
            }
        }
        Ok(())
    }
}

impl Namespace {
    /// A file as it is once some subfiles are noted as synced; nothing if that is known, or if the
    /// file is doomed or gone.
    pub fn if_settled(
        &self,
        file: FileId,
        subfiles: &[SubfileIndex],
    ) -> Result<Option<KnownFile>, Failure> {
        self.look(|state| {
            let Some(mut node) = node(state, file)? else { return Ok(None) };
            let is_new = settle(&mut node, subfiles)?;
            is_new.then(|| Paths::new(state).known(node)).transpose()
        })
    }

    /// Notes which subfiles of a file have been synced, and whether the descriptions on the disks
    /// have yet to be told. Nothing is written if that is known; a file that is doomed or gone is
    /// left alone.
    pub fn settle(
        &self,
        file: FileId,
        subfiles: Vec<SubfileIndex>,
        is_owed: bool,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        // Every sync comes here, but only the first one of a subfile says something new.
        match self.if_settled(file, &subfiles) {
            Ok(Some(_)) => {}
            Ok(None) => return done(Ok(())),
            Err(failure) => return done(Err(failure)),
        }
        let mark = SyncMark { file, subfiles, is_owed };
        self.change(move |change| mark.write(change), done);
    }

    /// The same for several files, in one transaction.
    pub fn mark_synced(
        &self,
        marks: Vec<SyncMark>,
        done: impl FnOnce(Result<Vec<Result<(), Failure>>, Failure>) + Send + 'static,
    ) {
        let body = move |change: &mut Change<'_>| each(&marks, |mark| mark.write(change));
        self.change(body, done);
    }

    /// Files whose subfiles must go, in the order of their ids.
    pub fn doomed(&self) -> Result<Vec<FileRecord>, Failure> {
        self.look(|state| {
            let pairs = state.range(b"x", b"y", usize::MAX)?;
            let records = pairs.iter().map(|(_, value)| decode(value, || "a doomed file".into()));
            records.collect()
        })
    }

    /// A file that was deleted and whose subfiles are not gone yet; it has no path any more.
    pub fn doomed_file(&self, id: FileId) -> Result<Option<KnownFile>, Failure> {
        self.look(|state| match state.get(&key::doomed(id))? {
            Some(value) => {
                let record = decode(&value, || "a doomed file".into())?;
                Ok(Some(KnownFile { path: None, path_version: 0, record }))
            }
            None => Ok(None),
        })
    }

    /// The subfiles of these files are gone.
    pub fn forget_doomed(
        &self,
        ids: Vec<FileId>,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        let body = move |change: &mut Change<'_>| {
            for &id in &ids {
                let key = key::doomed(id);
                if change.state().get(&key)?.is_some() {
                    change.delete(&key);
                }
            }
            Ok(())
        };
        self.change(body, done);
    }
}

/// Notes subfiles in a record; whether any is new.
fn settle(node: &mut Node, subfiles: &[SubfileIndex]) -> Result<bool, Stop> {
    let mut is_new = false;
    for &subfile in subfiles {
        let layout = node.record.layout.as_ref();
        if !layout.is_some_and(|layout| layout.disks().has_subfile(subfile)) {
            return Err(Failure::Invalid(format!("file {} has no {subfile}", node.id())).into());
        }
        is_new |= node.record.mark_synced(subfile.0);
    }
    Ok(is_new)
}
