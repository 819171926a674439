//! Restoring files into the tree from their descriptions on the disks.

use pario_proto::{Failure, FileId, FileKind, FilePath, FileRecord};

use super::grant_epochs::{forget_revocations, restored_version};
use super::handle::{Namespace, id_epoch_of};
use super::key;
use super::paths::PathCache;
use super::transaction::TreeTransaction;
use super::tree::{NamespaceError, TreeNode, child, counter, joined, node, path_version};

impl Namespace {
    /// Makes new ids higher than a given one. A rebuild calls this with the highest id on any disk
    /// before it restores files, so that no directory gets the id of a file.
    pub fn reserve_ids_up_to(
        &self,
        id: FileId,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        let (names, this) = (self.clone(), self.clone());
        self.transact(
            move |transaction| reserve_ids_up_to(transaction, &names, id),
            move |outcome| done(outcome.map(|epoch| this.enter_id_epoch(epoch))),
        );
    }

    /// Adds a file that was found on the disks to the tree, and passes its path to `done`.
    ///
    /// This creates missing directories above it, with the owner of the file and mode 0755. If
    /// another file has the path, the file gets a name like `name.recovered-1`. If the file is in
    /// the tree already, it keeps its path and gets the record. `renames` is the number of renames
    /// that the disks know; this call counts as one more, so that all disks accept the path.
    pub fn restore(
        &self,
        path: FilePath,
        renames: u32,
        record: FileRecord,
        done: impl FnOnce(Result<FilePath, Failure>) + Send + 'static,
    ) {
        let (names, this) = (self.clone(), self.clone());
        let body = move |transaction: &mut TreeTransaction<'_>| {
            let mut record = record.clone();
            record.rights_version = restored_version(transaction, &record)?;
            forget_revocations(transaction, record.id)?;
            let renames =
                renames.max(path_version(transaction.snapshot(), record.id)?).saturating_add(1);
            transaction.put_counter(&key::path_version(record.id), renames.into());
            let epoch = reserve_ids_up_to(transaction, &names, record.id)?;
            Ok((restore(transaction, &|| names.new_file_id_of(epoch), &path, &record)?, epoch))
        };
        self.transact(body, move |outcome| {
            done(outcome.map(|(path, epoch)| {
                this.enter_id_epoch(epoch);
                path
            }));
        });
    }
}

/// Returns the epoch of new ids that are higher than an id that was found on a disk.
fn reserve_ids_up_to(
    transaction: &mut TreeTransaction<'_>,
    names: &Namespace,
    id: FileId,
) -> Result<u64, NamespaceError> {
    if names.id_epoch() > id_epoch_of(id) {
        return Ok(names.id_epoch());
    }
    let Some(next) = id_epoch_of(id).checked_add(1) else {
        return Err(Failure::Invalid(format!("no id can be higher than {id}")).into());
    };
    let epoch = next.max(counter(transaction.snapshot(), key::ID_EPOCH)? + 1);
    transaction.put_counter(key::ID_EPOCH, epoch);
    Ok(epoch)
}

fn restore(
    transaction: &mut TreeTransaction<'_>,
    new_id: &dyn Fn() -> FileId,
    path: &FilePath,
    record: &FileRecord,
) -> Result<FilePath, NamespaceError> {
    let (Some(directories), Some(name)) = (path.parent(), path.name()) else {
        return Err(Failure::Exists { path: path.clone() }.into());
    };
    transaction.delete(&key::tombstone(record.id));
    transaction.add_pending_description(record.id);
    if let Some(existing) = node(transaction.snapshot(), record.id)? {
        if existing.is_directory() {
            let why = format!("{path}: its id {} is that of a directory", record.id);
            return Err(Failure::Invalid(why).into());
        }
        let path = PathCache::new(transaction.snapshot()).path_of(&existing)?;
        transaction.put_node(&TreeNode { record: record.clone(), ..existing });
        let too_long = || Failure::Invalid(format!("the path of {} is too long", record.id));
        return Ok(path.ok_or_else(too_long)?);
    }
    let mut reached = FilePath::root();
    let mut directory = FileId::ROOT;
    for step in directories.names() {
        let name = free_name(transaction, directory, step, TreeNode::is_directory)?;
        reached = joined(&reached, &name)?;
        directory = match child(transaction.snapshot(), directory, &name)? {
            Some(existing) => existing.id(),
            None => make_directory(transaction, new_id(), directory, name, record)?,
        };
    }
    let name = free_name(transaction, directory, name, |_| false)?;
    reached = joined(&reached, &name)?;
    transaction.link(&TreeNode { record: record.clone(), parent: directory, name, entries: 0 })?;
    Ok(reached)
}

fn make_directory(
    transaction: &mut TreeTransaction<'_>,
    id: FileId,
    parent: FileId,
    name: String,
    file: &FileRecord,
) -> Result<FileId, NamespaceError> {
    let record = FileRecord {
        id,
        kind: FileKind::Directory,
        layout: None,
        uid: file.uid,
        gid: file.gid,
        mode: 0o755,
        created_ns: transaction.now_ns,
        changed_ns: transaction.now_ns,
        rights_version: 0,
        first_synced: Vec::new(),
    };
    transaction.link(&TreeNode { record, parent, name, entries: 0 })?;
    Ok(id)
}

/// Returns a name like the given one that is free, or taken by an acceptable node.
fn free_name(
    transaction: &TreeTransaction<'_>,
    directory: FileId,
    name: &str,
    is_acceptable: impl Fn(&TreeNode) -> bool,
) -> Result<String, NamespaceError> {
    let mut candidate = name.to_owned();
    for number in 1u64.. {
        match child(transaction.snapshot(), directory, &candidate)? {
            Some(existing) if !is_acceptable(&existing) => {}
            _ => break,
        }
        let suffix = format!(".recovered-{number}");
        let mut len = name.len().min(FilePath::NAME_LIMIT_BYTES - suffix.len());
        while !name.is_char_boundary(len) {
            len -= 1;
        }
        candidate = format!("{}{suffix}", &name[..len]);
    }
    Ok(candidate)
}
