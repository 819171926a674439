//! First-synced subfiles: if one is missing later, it is lost.

use pario_proto::{Failure, FileId, KnownFile, SubfileIndex};

use super::handle::Namespace;
use super::paths::PathCache;
use super::transaction::{TreeTransaction, apply_each};
use super::tree::{NamespaceError, TreeNode, node};

/// Subfiles of a file that have been synced.
pub struct SyncMark {
    /// The file.
    pub file: FileId,
    /// The subfiles.
    pub subfiles: Vec<SubfileIndex>,
    /// Whether some disk has not acknowledged the new description.
    pub is_description_pending: bool,
}

impl SyncMark {
    fn write(&self, transaction: &mut TreeTransaction<'_>) -> Result<(), NamespaceError> {
        let Some(mut node) = node(transaction.snapshot(), self.file)? else { return Ok(()) };
        if mark_node(&mut node, &self.subfiles)? {
            transaction.put_node(&node);
            if self.is_description_pending {
                transaction.add_pending_description(self.file);
            }
        }
        Ok(())
    }
}

impl Namespace {
    /// Returns the file as it becomes when some subfiles are marked as first-synced. Returns `None`
    /// if they are marked already, or if the file was removed.
    pub fn if_newly_synced(
        &self,
        file: FileId,
        subfiles: &[SubfileIndex],
    ) -> Result<Option<KnownFile>, Failure> {
        self.read(|snapshot| {
            let Some(mut node) = node(snapshot, file)? else { return Ok(None) };
            let is_new = mark_node(&mut node, subfiles)?;
            is_new.then(|| PathCache::new(snapshot).known_file(node)).transpose()
        })
    }

    /// Marks subfiles of a file as first-synced. Writes nothing if they are marked already, or if
    /// the file was removed.
    pub fn mark_synced(
        &self,
        mark: SyncMark,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        // Every sync comes here, but only the first one of a subfile changes the record.
        match self.if_newly_synced(mark.file, &mark.subfiles) {
            Ok(Some(_)) => {}
            Ok(None) => return done(Ok(())),
            Err(failure) => return done(Err(failure)),
        }
        self.transact(move |transaction| mark.write(transaction), done);
    }

    /// Marks subfiles of several files as first-synced, in one transaction.
    pub fn mark_synced_many(
        &self,
        marks: Vec<SyncMark>,
        done: impl FnOnce(Result<Vec<Result<(), Failure>>, Failure>) + Send + 'static,
    ) {
        let body = move |transaction: &mut TreeTransaction<'_>| {
            apply_each(&marks, |mark| mark.write(transaction))
        };
        self.transact(body, done);
    }
}

/// Marks subfiles in a record. Returns whether any mark is new.
fn mark_node(node: &mut TreeNode, subfiles: &[SubfileIndex]) -> Result<bool, NamespaceError> {
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
