//! Renaming files and directories.

use pario_proto::{Failure, FileId, FilePath, FileRecord, Identity};

use super::entries::require_empty;
use super::handle::Namespace;
use super::key;
use super::permission::{require_change_of_entries, require_removal_of_entry};
use super::transaction::TreeTransaction;
use super::tree::{NamespaceError, TreeNode, path_version, resolve};

/// The outcome of a rename.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenameOutcome {
    /// The file that was renamed, whose descriptions have yet to get the path; `None` for a
    /// directory, or if both paths are the same.
    pub file: Option<FileId>,
    /// The file that was at the new path before, and has a tombstone now.
    pub replaced: Option<FileRecord>,
}

impl Namespace {
    /// Renames a file or directory. A file may replace a file, a directory an empty directory. If
    /// both paths are the same, nothing changes. The descriptions of a file are pending then; the
    /// descriptions of files inside a renamed directory keep their path.
    pub fn rename(
        &self,
        who: Identity,
        from: FilePath,
        to: FilePath,
        done: impl FnOnce(Result<RenameOutcome, Failure>) + Send + 'static,
    ) {
        self.transact(move |transaction| rename(transaction, &who, &from, &to), done);
    }
}

fn rename(
    transaction: &mut TreeTransaction<'_>,
    who: &Identity,
    from: &FilePath,
    to: &FilePath,
) -> Result<RenameOutcome, NamespaceError> {
    let source = resolve(transaction.snapshot(), who, from)?;
    let target = resolve(transaction.snapshot(), who, to)?;
    let moved = source.child.ok_or_else(|| Failure::NotFound { path: from.clone() })?;
    if from == to {
        return Ok(RenameOutcome { file: None, replaced: None });
    }
    // There are no links: a directory is inside another if and only if its path is.
    if moved.is_directory() && to.is_within(from) {
        return Err(Failure::IntoItself { from: from.clone(), to: to.clone() }.into());
    }
    let (source_record, target_record) = (&source.directory.record, &target.directory.record);
    require_removal_of_entry(who, source_record, &source.directory_path, &moved.record)?;
    require_change_of_entries(who, target_record, &target.directory_path)?;
    if let Some(replaced) = &target.child {
        require_removal_of_entry(who, target_record, &target.directory_path, &replaced.record)?;
        match (moved.is_directory(), replaced.is_directory()) {
            (true, true) => require_empty(replaced, to)?,
            (true, false) => return Err(Failure::NotADirectory { path: to.clone() }.into()),
            (false, true) => return Err(Failure::IsADirectory { path: to.clone() }.into()),
            (false, false) => {}
        }
        transaction.remove_node(replaced)?;
    }
    let file = moved.record.layout.is_some().then_some(moved.id());
    if let Some(file) = file {
        let version = path_version(transaction.snapshot(), file)?.saturating_add(1);
        transaction.put_counter(&key::path_version(file), version.into());
        transaction.add_pending_description(file);
    }
    transaction.unlink(&moved)?;
    transaction.link(&TreeNode { parent: target.directory.id(), name: target.name, ..moved })?;
    let replaced = target.child.filter(|node| !node.is_directory());
    Ok(RenameOutcome { file, replaced: replaced.map(|node| node.record) })
}
