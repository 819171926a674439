//! Creating and removing files and directories.

use pario_proto::{Failure, FileId, FileKind, FilePath, FileRecord, Identity, Removal};

use super::handle::Namespace;
use super::permission::{require_change_of_entries, require_removal_of_entry};
use super::transaction::{TreeTransaction, apply_each};
use super::tree::{NamespaceError, ResolvedPath, TreeNode, existing_node, node, resolve};

/// The outcome of a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    /// The file was created.
    New(FileRecord),
    /// The path was taken, by this file or directory.
    Existed(FileRecord),
}

impl Namespace {
    /// Checks that a file can be created: its directory must exist and be writable. Returns the record
    /// at the path if the path is taken.
    pub fn check_create(
        &self,
        who: &Identity,
        path: &FilePath,
    ) -> Result<Option<FileRecord>, Failure> {
        self.read(|snapshot| {
            if path.is_root() {
                return Ok(Some(existing_node(snapshot, FileId::ROOT)?.record));
            }
            let resolved = resolve(snapshot, who, path)?;
            if let Some(child) = resolved.child {
                return Ok(Some(child.record));
            }
            require_change_of_entries(who, &resolved.directory.record, &resolved.directory_path)?;
            Ok(None)
        })
    }

    /// Adds a file to the tree.
    pub fn create(
        &self,
        who: Identity,
        path: FilePath,
        record: FileRecord,
        done: impl FnOnce(Result<CreateOutcome, Failure>) + Send + 'static,
    ) {
        self.transact(move |transaction| add(transaction, &who, &path, &record), done);
    }

    /// Adds files to the tree, all in one transaction.
    pub fn create_many(
        &self,
        who: Identity,
        files: Vec<(FilePath, FileRecord)>,
        done: impl FnOnce(Result<Vec<Result<CreateOutcome, Failure>>, Failure>) + Send + 'static,
    ) {
        let body = move |transaction: &mut TreeTransaction<'_>| {
            apply_each(&files, |(path, record)| add(transaction, &who, path, record))
        };
        self.transact(body, done);
    }

    /// Creates a directory that belongs to the user and its first group.
    pub fn make_directory(
        &self,
        who: Identity,
        path: FilePath,
        mode: u32,
        done: impl FnOnce(Result<FileRecord, Failure>) + Send + 'static,
    ) {
        let id = self.new_file_id();
        let body = move |transaction: &mut TreeTransaction<'_>| {
            let record = FileRecord {
                id,
                kind: FileKind::Directory,
                layout: None,
                uid: who.uid,
                gid: who.gids.first().copied().unwrap_or(who.uid),
                mode: mode & 0o777,
                created_ns: transaction.now_ns,
                changed_ns: transaction.now_ns,
                rights_version: 0,
                first_synced: Vec::new(),
            };
            match add(transaction, &who, &path, &record)? {
                CreateOutcome::New(record) => Ok(record),
                CreateOutcome::Existed(_) => Err(Failure::Exists { path: path.clone() }.into()),
            }
        };
        self.transact(body, done);
    }

    /// Removes an empty directory.
    pub fn remove_directory(
        &self,
        who: Identity,
        path: FilePath,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        self.transact(move |transaction| remove_empty_directory(transaction, &who, &path), done);
    }

    /// Removes a file, and leaves its tombstone.
    pub fn remove(
        &self,
        who: Identity,
        path: FilePath,
        done: impl FnOnce(Result<FileRecord, Failure>) + Send + 'static,
    ) {
        self.transact(move |transaction| remove_file(transaction, &who, &path), done);
    }

    /// Replaces a file by a new one, which takes its name, owner, group and mode. The old file
    /// leaves its tombstone. Returns its record.
    pub fn replace_file(
        &self,
        old: FileId,
        record: FileRecord,
        done: impl FnOnce(Result<FileRecord, Failure>) + Send + 'static,
    ) {
        let body = move |transaction: &mut TreeTransaction<'_>| {
            let Some(node) = node(transaction.snapshot(), old)? else {
                return Err(Failure::Deleted { file: old }.into());
            };
            transaction.remove_node(&node)?;
            let FileRecord { uid, gid, mode, .. } = node.record;
            let record = FileRecord { uid, gid, mode, ..record.clone() };
            let (parent, name) = (node.parent, node.name.clone());
            transaction.link(&TreeNode { record, parent, name, entries: 0 })?;
            Ok(node.record)
        };
        self.transact(body, done);
    }

    /// Removes files and empty directories in the given order, all in one transaction. Files leave
    /// their tombstones.
    pub fn remove_many(
        &self,
        who: Identity,
        entries: Vec<Removal>,
        done: impl FnOnce(Result<Vec<Result<Option<FileRecord>, Failure>>, Failure>) + Send + 'static,
    ) {
        let body = move |transaction: &mut TreeTransaction<'_>| {
            apply_each(&entries, |Removal { path, is_directory }| match is_directory {
                true => remove_empty_directory(transaction, &who, path).map(|()| None),
                false => remove_file(transaction, &who, path).map(Some),
            })
        };
        self.transact(body, done);
    }
}

fn remove_empty_directory(
    transaction: &mut TreeTransaction<'_>,
    who: &Identity,
    path: &FilePath,
) -> Result<(), NamespaceError> {
    let node = removable(transaction, who, path)?;
    if !node.is_directory() {
        return Err(Failure::NotADirectory { path: path.clone() }.into());
    }
    require_empty(&node, path)?;
    transaction.remove_node(&node)
}

fn remove_file(
    transaction: &mut TreeTransaction<'_>,
    who: &Identity,
    path: &FilePath,
) -> Result<FileRecord, NamespaceError> {
    let node = removable(transaction, who, path)?;
    if node.is_directory() {
        return Err(Failure::IsADirectory { path: path.clone() }.into());
    }
    transaction.remove_node(&node)?;
    Ok(node.record)
}

fn add(
    transaction: &mut TreeTransaction<'_>,
    who: &Identity,
    path: &FilePath,
    record: &FileRecord,
) -> Result<CreateOutcome, NamespaceError> {
    if path.is_root() {
        let root = existing_node(transaction.snapshot(), FileId::ROOT)?;
        return Ok(CreateOutcome::Existed(root.record));
    }
    let ResolvedPath { directory, directory_path, name, child } =
        resolve(transaction.snapshot(), who, path)?;
    if let Some(child) = child {
        return Ok(CreateOutcome::Existed(child.record));
    }
    require_change_of_entries(who, &directory.record, &directory_path)?;
    if node(transaction.snapshot(), record.id)?.is_some() {
        let why = format!("{path}: file {} has a name already", record.id);
        return Err(Failure::Invalid(why).into());
    }
    transaction.link(&TreeNode {
        record: record.clone(),
        parent: directory.id(),
        name,
        entries: 0,
    })?;
    Ok(CreateOutcome::New(record.clone()))
}

/// Returns the node at a path if the user may remove it.
fn removable(
    transaction: &TreeTransaction<'_>,
    who: &Identity,
    path: &FilePath,
) -> Result<TreeNode, NamespaceError> {
    let resolved = resolve(transaction.snapshot(), who, path)?;
    let node = resolved.child.clone().ok_or_else(|| Failure::NotFound { path: path.clone() })?;
    let ResolvedPath { directory, directory_path, .. } = &resolved;
    require_removal_of_entry(who, &directory.record, directory_path, &node.record)?;
    Ok(node)
}

/// Fails if a directory has entries.
pub fn require_empty(node: &TreeNode, path: &FilePath) -> Result<(), Failure> {
    if node.entries > 0 { Err(Failure::NotEmpty { path: path.clone() }) } else { Ok(()) }
}
