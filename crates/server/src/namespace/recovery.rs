//! From ids to paths, and from what the disks say to a tree.

use std::collections::HashMap;

use pario_proto::{Failure, FileId, FileKind, FilePath, FileRecord, KnownFile};

use super::change::Change;
use super::grant_epochs::{forget_revocations, restored_version};
use super::handle::{Namespace, epoch_of};
use super::key;
use super::tree::{
    Node, Stop, child, counter, decode, joined, node, node_that_must_be, path_version,
};
use crate::metadata::Snapshot;

/// So many records are read at once.
const PAGE: usize = 1000;

impl Namespace {
    /// The path of what has an id: nothing if there is no such file or directory, or if its path
    /// has become too long to be written.
    pub fn path_of(&self, id: FileId) -> Result<Option<FilePath>, Failure> {
        self.look(|state| match node(state, id)? {
            Some(node) => Paths::new(state).path_of(&node),
            None => Ok(None),
        })
    }

    /// A file, wherever it is in the tree.
    pub fn known_file(&self, id: FileId) -> Result<Option<KnownFile>, Failure> {
        self.look(|state| match node(state, id)? {
            Some(node) if !node.is_directory() => Paths::new(state).known(node).map(Some),
            _ => Ok(None),
        })
    }

    /// Files without directories, in the order of their ids, after a given one and at most so
    /// many. There is no path where it has become too long to be written, as when a directory
    /// deep in the tree was moved still deeper.
    pub fn all_files(
        &self,
        after: Option<FileId>,
        limit: usize,
    ) -> Result<Vec<KnownFile>, Failure> {
        self.look(|state| {
            let mut paths = Paths::new(state);
            let mut files = Vec::new();
            let mut from = after.map_or_else(|| b"n".to_vec(), |id| key::after(key::node(id)));
            loop {
                let page = state.range(&from, b"o", PAGE)?;
                for (key, value) in &page {
                    if files.len() == limit {
                        return Ok(files);
                    }
                    let node: Node = decode(value, || format!("{}", key.escape_ascii()))?;
                    if !node.is_directory() {
                        files.push(paths.known(node)?);
                    }
                }
                match page.into_iter().last() {
                    Some((key, _)) => from = key::after(key),
                    None => return Ok(files),
                }
            }
        })
    }

    /// From now on new ids are higher than a given one. Before files are restored, this is called
    /// with the highest id on any disk, so that no directory gets the id of one of them.
    pub fn pass_id(&self, id: FileId, done: impl FnOnce(Result<(), Failure>) + Send + 'static) {
        let (names, this) = (self.clone(), self.clone());
        self.change(
            move |change| pass_id(change, &names, id),
            move |outcome| done(outcome.map(|epoch| this.enter_epoch(epoch))),
        );
    }

    /// Puts a file that was found on the disks into the tree, and tells where.
    ///
    /// Directories on the way that are missing are made; they belong to the owner of the file and
    /// have mode 0755. If the path is taken by another file, the file gets a name like
    /// `name.recovered-1`; if it is in the tree already, it stays where it is and gets the record.
    /// `renames` is how often the file was renamed, as far as the disks know: this counts as one
    /// more, so that all disks take the path.
    pub fn restore(
        &self,
        path: FilePath,
        renames: u32,
        record: FileRecord,
        done: impl FnOnce(Result<FilePath, Failure>) + Send + 'static,
    ) {
        let (names, this) = (self.clone(), self.clone());
        let body = move |change: &mut Change<'_>| {
            let mut record = record.clone();
            record.rights_version = restored_version(change, &record)?;
            forget_revocations(change, record.id)?;
            let renames = renames.max(path_version(change.state(), record.id)?).saturating_add(1);
            change.put_counter(&key::path_version(record.id), renames.into());
            let epoch = pass_id(change, &names, record.id)?;
            Ok((restore(change, &|| names.new_file_id_of(epoch), &path, &record)?, epoch))
        };
        self.change(body, move |outcome| {
            done(outcome.map(|(path, epoch)| {
                this.enter_epoch(epoch);
                path
            }));
        });
    }
}

/// The epoch of new ids that are higher than one that was found on a disk.
fn pass_id(change: &mut Change<'_>, names: &Namespace, id: FileId) -> Result<u64, Stop> {
    if names.epoch() > epoch_of(id) {
        return Ok(names.epoch());
    }
    let Some(next) = epoch_of(id).checked_add(1) else {
        return Err(Failure::Invalid(format!("no id can be higher than {id}")).into());
    };
    let epoch = next.max(counter(change.state(), key::EPOCH)? + 1);
    change.put_counter(key::EPOCH, epoch);
    Ok(epoch)
}

fn restore(
    change: &mut Change<'_>,
    new_id: &dyn Fn() -> FileId,
    path: &FilePath,
    record: &FileRecord,
) -> Result<FilePath, Stop> {
    let (Some(directories), Some(name)) = (path.parent(), path.name()) else {
        return Err(Failure::Exists { path: path.clone() }.into());
    };
    change.delete(&key::doomed(record.id));
    change.owe(record.id);
    if let Some(there) = node(change.state(), record.id)? {
        if there.is_directory() {
            let why = format!("{path}: its id {} is that of a directory", record.id);
            return Err(Failure::Invalid(why).into());
        }
        let path = Paths::new(change.state()).path_of(&there)?;
        change.put_node(&Node { record: record.clone(), ..there });
        let too_long = || Failure::Invalid(format!("the path of {} is too long", record.id));
        return Ok(path.ok_or_else(too_long)?);
    }
    let mut reached = FilePath::root();
    let mut directory = FileId::ROOT;
    for step in directories.names() {
        let name = free_name(change, directory, step, Node::is_directory)?;
        reached = joined(&reached, &name)?;
        directory = match child(change.state(), directory, &name)? {
            Some(there) => there.id(),
            None => make_directory(change, new_id(), directory, name, record)?,
        };
    }
    let name = free_name(change, directory, name, |_| false)?;
    reached = joined(&reached, &name)?;
    change.link(&Node { record: record.clone(), parent: directory, name, entries: 0 })?;
    Ok(reached)
}

fn make_directory(
    change: &mut Change<'_>,
    id: FileId,
    parent: FileId,
    name: String,
    file: &FileRecord,
) -> Result<FileId, Stop> {
    let record = FileRecord {
        id,
        kind: FileKind::Directory,
        layout: None,
        uid: file.uid,
        gid: file.gid,
        mode: 0o755,
        created_ns: change.now_ns,
        changed_ns: change.now_ns,
        rights_version: 0,
        first_synced: Vec::new(),
    };
    change.link(&Node { record, parent, name, entries: 0 })?;
    Ok(id)
}

/// A name like the given one that is free, or taken by something that will do.
fn free_name(
    change: &Change<'_>,
    directory: FileId,
    name: &str,
    will_do: impl Fn(&Node) -> bool,
) -> Result<String, Stop> {
    let mut candidate = name.to_owned();
    for number in 1u64.. {
        match child(change.state(), directory, &candidate)? {
            Some(there) if !will_do(&there) => {}
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

/// Paths of nodes in one state; those of directories are kept.
pub struct Paths<'a> {
    state: &'a dyn Snapshot,
    directories: HashMap<FileId, Option<FilePath>>,
}

impl<'a> Paths<'a> {
    pub fn new(state: &'a dyn Snapshot) -> Paths<'a> {
        let directories = HashMap::from([(FileId::ROOT, Some(FilePath::root()))]);
        Paths { state, directories }
    }

    /// What is known of the file of a node.
    pub fn known(&mut self, node: Node) -> Result<KnownFile, Stop> {
        let path_version = path_version(self.state, node.id())?;
        Ok(KnownFile { path: self.path_of(&node)?, path_version, record: node.record })
    }

    /// The path of a node; nothing if it is too long.
    pub fn path_of(&mut self, node: &Node) -> Result<Option<FilePath>, Stop> {
        if node.id() == FileId::ROOT {
            return Ok(Some(FilePath::root()));
        }
        // The directories above it, up to one whose path is known.
        let mut above = Vec::new();
        let mut id = node.parent;
        while !self.directories.contains_key(&id) {
            // Each level takes at least two bytes of a path that can be written.
            if above.len() > FilePath::LIMIT_BYTES {
                return Ok(None);
            }
            let directory = node_that_must_be(self.state, id)?;
            id = directory.parent;
            above.push(directory);
        }
        let mut path = self.directories[&id].clone();
        for directory in above.iter().rev() {
            path = path.and_then(|path| path.join(&directory.name).ok());
            self.directories.insert(directory.id(), path.clone());
        }
        Ok(path.and_then(|path| path.join(&node.name).ok()))
    }
}
