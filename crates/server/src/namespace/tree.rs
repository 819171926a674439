//! The tree as one state of the store shows it.

use pario_proto::{Failure, FileId, FileKind, FilePath, FileRecord, Identity};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::key;
use super::permission::{Permission, require};
use crate::metadata::{MetadataError, Snapshot};

/// What is stored of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub record: FileRecord,
    /// The directory that has its entry; the root is its own.
    pub parent: FileId,
    /// Its name there; the root has none.
    pub name: String,
    /// Of a directory: how many entries it has.
    pub entries: u64,
}

impl Node {
    pub fn id(&self) -> FileId {
        self.record.id
    }

    pub fn is_directory(&self) -> bool {
        self.record.kind == FileKind::Directory
    }
}

/// Why a call goes no further.
#[derive(Debug)]
pub enum Stop {
    /// What was asked for cannot be.
    Failure(Failure),
    /// The store cannot tell.
    Store(MetadataError),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failure(failure)
    }
}

impl From<MetadataError> for Stop {
    fn from(error: MetadataError) -> Stop {
        Stop::Store(error)
    }
}

/// A place in a directory that can be reached.
pub struct Place {
    pub directory: Node,
    pub directory_path: FilePath,
    pub name: String,
    /// What is there.
    pub child: Option<Node>,
}

/// The node with an id.
pub fn node(state: &dyn Snapshot, id: FileId) -> Result<Option<Node>, Stop> {
    state.get(&key::node(id))?.map(|bytes| decode(&bytes, || format!("file {id}"))).transpose()
}

/// The node with an id that something else refers to.
pub fn node_that_must_be(state: &dyn Snapshot, id: FileId) -> Result<Node, Stop> {
    node(state, id)?.ok_or_else(|| inconsistent(format!("file {id} has no record")))
}

/// The node with a name in a directory.
pub fn child(state: &dyn Snapshot, directory: FileId, name: &str) -> Result<Option<Node>, Stop> {
    let Some(id) = state.get(&key::entry(directory, name))? else { return Ok(None) };
    let id = id_of_entry(&id, name)?;
    node_that_must_be(state, id).map(Some)
}

/// The id that an entry means.
pub fn id_of_entry(value: &[u8], name: &str) -> Result<FileId, Stop> {
    let bytes = value.try_into();
    let bytes = bytes.map_err(|_| inconsistent(format!("the entry {name:?} cannot be read")))?;
    Ok(FileId(u128::from_be_bytes(bytes)))
}

/// What is at a path, if the user may reach it.
pub fn find(state: &dyn Snapshot, who: &Identity, path: &FilePath) -> Result<Node, Stop> {
    if path.is_root() {
        return node_that_must_be(state, FileId::ROOT);
    }
    let found = place(state, who, path)?.child;
    found.ok_or_else(|| Failure::NotFound { path: path.clone() }.into())
}

/// A place that is not the root, if the user may reach it. Everything on the way must be a
/// directory that the user may search.
pub fn place(state: &dyn Snapshot, who: &Identity, path: &FilePath) -> Result<Place, Stop> {
    let (Some(directory_path), Some(name)) = (path.parent(), path.name()) else {
        return Err(Failure::Root.into());
    };
    let mut directory = node_that_must_be(state, FileId::ROOT)?;
    let mut reached = FilePath::root();
    require_search(who, &directory, &reached)?;
    for step in directory_path.names() {
        reached = joined(&reached, step)?;
        directory = child(state, directory.id(), step)?
            .ok_or_else(|| Failure::NotFound { path: reached.clone() })?;
        require_search(who, &directory, &reached)?;
    }
    let child = child(state, directory.id(), name)?;
    Ok(Place { directory, directory_path, name: name.to_owned(), child })
}

fn require_search(who: &Identity, node: &Node, path: &FilePath) -> Result<(), Stop> {
    if !node.is_directory() {
        return Err(Failure::NotADirectory { path: path.clone() }.into());
    }
    let action = "look for names in this directory";
    Ok(require(who, &node.record, path, Permission::Search, action)?)
}

/// A path one name longer.
pub fn joined(path: &FilePath, name: &str) -> Result<FilePath, Stop> {
    path.join(name).map_err(|error| Failure::Invalid(error.to_string()).into())
}

/// Reads a value.
pub fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    whose: impl FnOnce() -> String,
) -> Result<T, Stop> {
    postcard::from_bytes(bytes)
        .map_err(|error| inconsistent(format!("the record of {} cannot be read: {error}", whose())))
}

/// Writes a value.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_allocvec(value).expect("records can be written to memory")
}

/// A counter; one that was never written is 0.
pub fn counter(state: &dyn Snapshot, key: &[u8]) -> Result<u64, Stop> {
    let Some(bytes) = state.get(key)? else { return Ok(0) };
    let bytes = bytes.as_slice().try_into();
    let name = || format!("the counter {} cannot be read", key.escape_ascii());
    Ok(u64::from_be_bytes(bytes.map_err(|_| inconsistent(name()))?))
}

/// How often a file was renamed.
pub fn path_version(state: &dyn Snapshot, id: FileId) -> Result<u32, Stop> {
    Ok(u32::try_from(counter(state, &key::path_version(id))?).unwrap_or(u32::MAX))
}

pub fn inconsistent(why: String) -> Stop {
    MetadataError::Inconsistent { why }.into()
}
