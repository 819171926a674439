//! Reading the tree from one snapshot of the store.

use pario_proto::{Failure, FileId, FileKind, FilePath, FileRecord, Identity};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::key;
use super::permission::{Permission, require};
use crate::metadata::{MetadataError, Snapshot};

/// The stored form of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeNode {
    pub record: FileRecord,
    /// The directory with its entry; the root is its own parent.
    pub parent: FileId,
    /// Its name in that directory; empty for the root.
    pub name: String,
    /// The number of entries of a directory.
    pub entries: u64,
}

impl TreeNode {
    pub fn id(&self) -> FileId {
        self.record.id
    }

    pub fn is_directory(&self) -> bool {
        self.record.kind == FileKind::Directory
    }
}

/// Why a call of the namespace fails.
#[derive(Debug)]
pub enum NamespaceError {
    /// The request cannot be done.
    Failure(Failure),
    /// The metadata store has failed.
    Store(MetadataError),
}

impl From<Failure> for NamespaceError {
    fn from(failure: Failure) -> NamespaceError {
        NamespaceError::Failure(failure)
    }
}

impl From<MetadataError> for NamespaceError {
    fn from(error: MetadataError) -> NamespaceError {
        NamespaceError::Store(error)
    }
}

/// A path whose directory exists and may be searched.
pub struct ResolvedPath {
    pub directory: TreeNode,
    pub directory_path: FilePath,
    pub name: String,
    /// The file or directory with this name.
    pub child: Option<TreeNode>,
}

/// Returns the node with an id.
pub fn node(snapshot: &dyn Snapshot, id: FileId) -> Result<Option<TreeNode>, NamespaceError> {
    snapshot.get(&key::node(id))?.map(|bytes| decode(&bytes, || format!("file {id}"))).transpose()
}

/// Returns the node with an id that another node refers to; it must exist.
pub fn existing_node(snapshot: &dyn Snapshot, id: FileId) -> Result<TreeNode, NamespaceError> {
    node(snapshot, id)?.ok_or_else(|| inconsistent(format!("file {id} has no record")))
}

/// Returns the node with a name in a directory.
pub fn child(
    snapshot: &dyn Snapshot,
    directory: FileId,
    name: &str,
) -> Result<Option<TreeNode>, NamespaceError> {
    let Some(id) = snapshot.get(&key::entry(directory, name))? else { return Ok(None) };
    let id = id_of_entry(&id, name)?;
    existing_node(snapshot, id).map(Some)
}

/// Decodes the id in the value of an entry.
pub fn id_of_entry(value: &[u8], name: &str) -> Result<FileId, NamespaceError> {
    let bytes = value.try_into();
    let bytes = bytes.map_err(|_| inconsistent(format!("the entry {name:?} cannot be read")))?;
    Ok(FileId(u128::from_be_bytes(bytes)))
}

/// Returns the node at a path, if the user may reach it.
pub fn find(
    snapshot: &dyn Snapshot,
    who: &Identity,
    path: &FilePath,
) -> Result<TreeNode, NamespaceError> {
    if path.is_root() {
        return existing_node(snapshot, FileId::ROOT);
    }
    let found = resolve(snapshot, who, path)?.child;
    found.ok_or_else(|| Failure::NotFound { path: path.clone() }.into())
}

/// Resolves a path other than the root. Everything above it must be a directory that the user may
/// search.
pub fn resolve(
    snapshot: &dyn Snapshot,
    who: &Identity,
    path: &FilePath,
) -> Result<ResolvedPath, NamespaceError> {
    let (Some(directory_path), Some(name)) = (path.parent(), path.name()) else {
        return Err(Failure::Root.into());
    };
    let mut directory = existing_node(snapshot, FileId::ROOT)?;
    let mut reached = FilePath::root();
    require_search(who, &directory, &reached)?;
    for step in directory_path.names() {
        reached = joined(&reached, step)?;
        directory = child(snapshot, directory.id(), step)?
            .ok_or_else(|| Failure::NotFound { path: reached.clone() })?;
        require_search(who, &directory, &reached)?;
    }
    let child = child(snapshot, directory.id(), name)?;
    Ok(ResolvedPath { directory, directory_path, name: name.to_owned(), child })
}

fn require_search(who: &Identity, node: &TreeNode, path: &FilePath) -> Result<(), NamespaceError> {
    if !node.is_directory() {
        return Err(Failure::NotADirectory { path: path.clone() }.into());
    }
    let action = "look for names in this directory";
    Ok(require(who, &node.record, path, Permission::Search, action)?)
}

/// Appends a name to a path.
pub fn joined(path: &FilePath, name: &str) -> Result<FilePath, NamespaceError> {
    path.join(name).map_err(|error| Failure::Invalid(error.to_string()).into())
}

/// Decodes a value.
pub fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    whose: impl FnOnce() -> String,
) -> Result<T, NamespaceError> {
    postcard::from_bytes(bytes)
        .map_err(|error| inconsistent(format!("the record of {} cannot be read: {error}", whose())))
}

/// Encodes a value.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_allocvec(value).expect("records can be written to memory")
}

/// Reads a counter; a missing one is 0.
pub fn counter(snapshot: &dyn Snapshot, key: &[u8]) -> Result<u64, NamespaceError> {
    let Some(bytes) = snapshot.get(key)? else { return Ok(0) };
    let bytes = bytes.as_slice().try_into();
    let name = || format!("the counter {} cannot be read", key.escape_ascii());
    Ok(u64::from_be_bytes(bytes.map_err(|_| inconsistent(name()))?))
}

/// Returns the number of renames of a file.
pub fn path_version(snapshot: &dyn Snapshot, id: FileId) -> Result<u32, NamespaceError> {
    Ok(u32::try_from(counter(snapshot, &key::path_version(id))?).unwrap_or(u32::MAX))
}

pub fn inconsistent(why: String) -> NamespaceError {
    MetadataError::Inconsistent { why }.into()
}
