//! Errors at the start of a node.

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
        /// The requested node.
        node: String,
        /// The nodes of the configuration.
        known: String,
    },
    /// Another process has a disk or the namespace open.
    #[error(
        "{what} is in use by another process, probably a running node: use the node with `--cluster \
         unix:{socket}`, or stop it with `pario stop --cluster unix:{socket}`"
    )]
    InUse {
        /// The disk or namespace.
        what: String,
        /// The socket of the other node.
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
        /// The system's reason.
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
    /// The namespace is missing, but the disks hold files.
    #[error(
        "the namespace of node {node:?}, {path}, is missing, but {evidence}: put the file back, or \
         start the node with `pario serve --rebuild` to rebuild the namespace from the disks, or \
         with `pario serve --new` to begin without files (the disks keep their content)"
    )]
    NamespaceMissing {
        /// The node.
        node: String,
        /// The path of the namespace.
        path: String,
        /// The evidence of files.
        evidence: String,
    },
    /// The node cannot listen.
    #[error(transparent)]
    Listen(#[from] pario_net::SpaceError),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl NodeError {
    /// Creates the error of a file of the node.
    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.display().to_string(), error }
    }

    /// Returns the kind of the error in terms of the standard library.
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

    /// Creates the error of a disk of a node.
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
