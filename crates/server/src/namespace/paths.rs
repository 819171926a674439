//! From ids to paths.

use std::collections::HashMap;

use pario_proto::{Failure, FileId, FilePath, KnownFile};

use super::handle::Namespace;
use super::key;
use super::tree::{NamespaceError, TreeNode, decode, existing_node, node, path_version};
use crate::metadata::Snapshot;

/// Records that one range read returns.
const PAGE: usize = 1000;

impl Namespace {
    /// Returns the path of a file or directory. Returns `None` if the id is unknown, or if the path
    /// has become longer than a path may be.
    pub fn path_of(&self, id: FileId) -> Result<Option<FilePath>, Failure> {
        self.read(|snapshot| match node(snapshot, id)? {
            Some(node) => PathCache::new(snapshot).path_of(&node),
            None => Ok(None),
        })
    }

    /// Returns a file by its id.
    pub fn known_file(&self, id: FileId) -> Result<Option<KnownFile>, Failure> {
        self.read(|snapshot| match node(snapshot, id)? {
            Some(node) if !node.is_directory() => {
                PathCache::new(snapshot).known_file(node).map(Some)
            }
            _ => Ok(None),
        })
    }

    /// Returns files, without directories, in the order of their ids, after a given one; at most
    /// `limit`. A file has no path here if its path has become longer than a path may be, as when a
    /// directory deep in the tree was moved still deeper.
    pub fn all_files(
        &self,
        after: Option<FileId>,
        limit: usize,
    ) -> Result<Vec<KnownFile>, Failure> {
        self.read(|snapshot| {
            let mut paths = PathCache::new(snapshot);
            let mut files = Vec::new();
            let mut from = after.map_or_else(|| b"n".to_vec(), |id| key::after(key::node(id)));
            loop {
                let page = snapshot.range(&from, b"o", PAGE)?;
                for (key, value) in &page {
                    if files.len() == limit {
                        return Ok(files);
                    }
                    let node: TreeNode = decode(value, || format!("{}", key.escape_ascii()))?;
                    if !node.is_directory() {
                        files.push(paths.known_file(node)?);
                    }
                }
                match page.into_iter().last() {
                    Some((key, _)) => from = key::after(key),
                    None => return Ok(files),
                }
            }
        })
    }
}

/// Computes the paths of nodes in one snapshot, and caches those of directories.
pub struct PathCache<'a> {
    snapshot: &'a dyn Snapshot,
    directories: HashMap<FileId, Option<FilePath>>,
}

impl<'a> PathCache<'a> {
    pub fn new(snapshot: &'a dyn Snapshot) -> PathCache<'a> {
        let directories = HashMap::from([(FileId::ROOT, Some(FilePath::root()))]);
        PathCache { snapshot, directories }
    }

    /// Returns what the namespace knows of a file.
    pub fn known_file(&mut self, node: TreeNode) -> Result<KnownFile, NamespaceError> {
        let path_version = path_version(self.snapshot, node.id())?;
        Ok(KnownFile { path: self.path_of(&node)?, path_version, record: node.record })
    }

    /// Returns the path of a node; `None` if it is too long.
    pub fn path_of(&mut self, node: &TreeNode) -> Result<Option<FilePath>, NamespaceError> {
        if node.id() == FileId::ROOT {
            return Ok(Some(FilePath::root()));
        }
        // The directories above the node, up to one whose path is cached.
        let mut above = Vec::new();
        let mut id = node.parent;
        while !self.directories.contains_key(&id) {
            // Each level takes at least two bytes of a path.
            if above.len() > FilePath::LIMIT_BYTES {
                return Ok(None);
            }
            let directory = existing_node(self.snapshot, id)?;
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
