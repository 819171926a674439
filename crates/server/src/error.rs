//! Why a node cannot start.

use std::io;
use std::path::Path;

use pario_store::StoreError;
use thiserror::Error;

use crate::config::NodeConfig;

/// Why a node cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The configuration has no such node.
    #[error("the configuration of cluster {cluster:?} has no node {node:?}; it has {known}")]
    UnknownNode {
        /// The cluster.
        cluster: String,
        /// The node asked for.
        node: String,
        /// The nodes there are.
        known: String,
    },
    /// Another process has a disk or the namespace open.
    #[error(
        "{what} is in use by another process, probably a node that runs: connect to it (its socket \
         is {socket}), or stop it with `pario stop --cluster unix={socket}`"
    )]
    InUse {
        /// What is in use.
        what: String,
        /// Where the node would be reached.
        socket: String,
    },
    /// A disk cannot be used.
    #[error("{0}")]
    Disk(StoreError),
    /// A file of the node cannot be used.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// The runtime directory, where the sockets of this user lie, is not private.
    #[error(
        "no socket can be created in the runtime directory: {0}. Have it removed, or set \
         XDG_RUNTIME_DIR to a directory that only you can enter"
    )]
    RuntimeDirectory(io::Error),
    /// The namespace cannot be opened.
    #[error("{0}")]
    Metadata(#[from] crate::metadata::MetadataError),
    /// The namespace is missing, and there are files.
    #[error(
        "the namespace of node {node:?}, {path}, is missing, but {evidence}: put the file back, or \
         start the node with `pario serve --rebuild` to make the names from what the disks say, or \
         with `pario serve --new` to begin without files (what is on the disks stays there)"
    )]
    NamespaceMissing {
        /// The node.
        node: String,
        /// Where the namespace should be.
        path: String,
        /// What shows that there are files.
        evidence: String,
    },
    /// It cannot listen.
    #[error("the node cannot listen: {0}")]
    Listen(#[from] pario_net::SpaceError),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl NodeError {
    /// A file of the node cannot be used.
    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.display().to_string(), error }
    }

    /// The kind of error, as the standard library sorts them.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::UnknownNode { .. } => io::ErrorKind::InvalidInput,
            Self::InUse { .. } => io::ErrorKind::ResourceBusy,
            Self::Io { error, .. } => error.kind(),
            Self::Disk(StoreError::Io { source, .. }) => source.kind(),
            Self::Listen(pario_net::SpaceError::Listen { error, .. }) => error.kind(),
            Self::NamespaceMissing { .. } => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        }
    }

    /// A disk of a node cannot be used.
    pub(crate) fn of_disk(error: StoreError, config: &NodeConfig) -> Self {
        match error {
            StoreError::InUse { disk } => Self::InUse {
                what: format!("disk {disk}"),
                socket: config.socket.display().to_string(),
            },
            error => Self::Disk(error),
        }
    }
}
