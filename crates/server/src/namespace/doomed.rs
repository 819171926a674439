//! Files whose subfiles come into being or must go.

use pario_proto::{Failure, FileId, FileRecord, SubfileIndex};

use super::change::Change;
use super::handle::Namespace;
use super::key;
use super::tree::{Node, Stop, decode, node};

impl Namespace {
    /// Notes which subfiles of a file have been synced. Nothing is written if that is known; a
    /// file that is doomed or gone is left alone.
    pub fn settle(
        &self,
        file: FileId,
        subfiles: Vec<SubfileIndex>,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        // Every sync comes here, but only the first one of a subfile says something new.
        let is_new = self.look(|state| match node(state, file)? {
            Some(mut node) => settle(&mut node, &subfiles),
            None => Ok(false),
        });
        match is_new {
            Ok(true) => {}
            Ok(false) => return done(Ok(())),
            Err(failure) => return done(Err(failure)),
        }
        let body = move |change: &mut Change<'_>| {
            let Some(mut node) = node(change.state(), file)? else { return Ok(()) };
            if settle(&mut node, &subfiles)? {
                change.put_node(&node);
            }
            Ok(())
        };
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
        is_new |= node.record.settle(subfile.0);
    }
    Ok(is_new)
}
