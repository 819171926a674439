//! Names come and go.

use pario_proto::{Failure, FileId, FileKind, FilePath, FileRecord, Identity, Removal};

use super::change::Change;
use super::handle::Namespace;
use super::many::each;
use super::permission::{require_change_of_entries, require_removal_of_entry};
use super::tree::{Node, Place, Stop, node, node_that_must_be, place};

/// What came of a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The file is there now.
    New(FileRecord),
    /// Somebody else was first: this is at the path, and may be a directory.
    Existed(FileRecord),
}

impl Namespace {
    /// Whether a file can be created, before its subfiles are made: its directory must be there
    /// and be writable. If something is at the path already, its record.
    pub fn check_create(
        &self,
        who: &Identity,
        path: &FilePath,
    ) -> Result<Option<FileRecord>, Failure> {
        self.look(|state| {
            if path.is_root() {
                return Ok(Some(node_that_must_be(state, FileId::ROOT)?.record));
            }
            let place = place(state, who, path)?;
            if let Some(child) = place.child {
                return Ok(Some(child.record));
            }
            require_change_of_entries(who, &place.directory.record, &place.directory_path)?;
            Ok(None)
        })
    }

    /// Gives a file whose subfiles are made its name.
    pub fn create(
        &self,
        who: Identity,
        path: FilePath,
        record: FileRecord,
        done: impl FnOnce(Result<Created, Failure>) + Send + 'static,
    ) {
        self.change(move |change| add(change, &who, &path, &record), done);
    }

    /// Gives files their names, all in one transaction.
    pub fn create_many(
        &self,
        who: Identity,
        files: Vec<(FilePath, FileRecord)>,
        done: impl FnOnce(Result<Vec<Result<Created, Failure>>, Failure>) + Send + 'static,
    ) {
        let body = move |change: &mut Change<'_>| {
            each(&files, |(path, record)| add(change, &who, path, record))
        };
        self.change(body, done);
    }

    /// Makes a directory that belongs to the user and its first group.
    pub fn make_directory(
        &self,
        who: Identity,
        path: FilePath,
        mode: u32,
        done: impl FnOnce(Result<FileRecord, Failure>) + Send + 'static,
    ) {
        let id = self.new_file_id();
        let body = move |change: &mut Change<'_>| {
            let record = FileRecord {
                id,
                kind: FileKind::Directory,
                layout: None,
                uid: who.uid,
                gid: who.gids.first().copied().unwrap_or(who.uid),
                mode: mode & 0o777,
                created_ns: change.now_ns,
                changed_ns: change.now_ns,
                rights_version: 0,
                first_synced: Vec::new(),
            };
            match add(change, &who, &path, &record)? {
                Created::New(record) => Ok(record),
                Created::Existed(_) => Err(Failure::Exists { path: path.clone() }.into()),
            }
        };
        self.change(body, done);
    }

    /// Removes an empty directory.
    pub fn remove_directory(
        &self,
        who: Identity,
        path: FilePath,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        self.change(move |change| take_directory(change, &who, &path), done);
    }

    /// Removes a file: its name is gone, and its record is among the doomed.
    pub fn remove(
        &self,
        who: Identity,
        path: FilePath,
        done: impl FnOnce(Result<FileRecord, Failure>) + Send + 'static,
    ) {
        self.change(move |change| take_file(change, &who, &path), done);
    }

    /// Removes files and empty directories in the given order, all in one transaction. The records of
    /// the files are among the doomed.
    pub fn remove_many(
        &self,
        who: Identity,
        entries: Vec<Removal>,
        done: impl FnOnce(Result<Vec<Result<Option<FileRecord>, Failure>>, Failure>) + Send + 'static,
    ) {
        let body = move |change: &mut Change<'_>| {
            each(&entries, |Removal { path, is_directory }| match is_directory {
                true => take_directory(change, &who, path).map(|()| None),
                false => take_file(change, &who, path).map(Some),
            })
        };
        self.change(body, done);
    }
}

fn take_directory(change: &mut Change<'_>, who: &Identity, path: &FilePath) -> Result<(), Stop> {
    let node = removable(change, who, path)?;
    if !node.is_directory() {
        return Err(Failure::NotADirectory { path: path.clone() }.into());
    }
    require_empty(&node, path)?;
    change.take_out(&node)
}

fn take_file(change: &mut Change<'_>, who: &Identity, path: &FilePath) -> Result<FileRecord, Stop> {
    let node = removable(change, who, path)?;
    if node.is_directory() {
        return Err(Failure::IsADirectory { path: path.clone() }.into());
    }
    change.take_out(&node)?;
    Ok(node.record)
}

fn add(
    change: &mut Change<'_>,
    who: &Identity,
    path: &FilePath,
    record: &FileRecord,
) -> Result<Created, Stop> {
    if path.is_root() {
        let root = node_that_must_be(change.state(), FileId::ROOT)?;
        return Ok(Created::Existed(root.record));
    }
    let Place { directory, directory_path, name, child } = place(change.state(), who, path)?;
    if let Some(child) = child {
        return Ok(Created::Existed(child.record));
    }
    require_change_of_entries(who, &directory.record, &directory_path)?;
    if node(change.state(), record.id)?.is_some() {
        let why = format!("{path}: file {} has a name already", record.id);
        return Err(Failure::Invalid(why).into());
    }
    change.link(&Node { record: record.clone(), parent: directory.id(), name, entries: 0 })?;
    Ok(Created::New(record.clone()))
}

/// What is at a path, if the user may take it from there.
fn removable(change: &Change<'_>, who: &Identity, path: &FilePath) -> Result<Node, Stop> {
    let place = place(change.state(), who, path)?;
    let node = place.child.clone().ok_or_else(|| Failure::NotFound { path: path.clone() })?;
    let Place { directory, directory_path, .. } = &place;
    require_removal_of_entry(who, &directory.record, directory_path, &node.record)?;
    Ok(node)
}

/// That a directory has no entries.
pub fn require_empty(node: &Node, path: &FilePath) -> Result<(), Failure> {
    if node.entries > 0 { Err(Failure::NotEmpty { path: path.clone() }) } else { Ok(()) }
}
