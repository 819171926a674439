//! Errors: their sentences, kinds and fields.

mod kind;

use std::io;

use pario_proto::{Failure, FilePath, PathError};
use pario_records::RecordError;
use pario_team::TeamError;
use thiserror::Error;

pub use kind::ErrorKind;

/// The reason why a call failed. Its text says what happened, to what, and what to do. Programs react
/// to its [`kind`](Self::kind); [`path`](Self::path), [`node`](Self::node), [`disk`](Self::disk) and
/// [`rank`](Self::rank) name what it concerns.
///
/// ```
/// # fn main() -> Result<(), pario::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let cluster = pario::Cluster::embedded(dir.path())?;
/// use pario::ErrorKind;
///
/// let error = cluster.open("/state").unwrap_err();
/// assert_eq!((error.kind(), error.path()), (ErrorKind::NotFound, Some("/state")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not a path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A node has replied with a failure.
    #[error("{0}")]
    Failure(Failure),
    /// A node has replied with a failure that concerns an open file.
    #[error("{path}: {failure}")]
    File {
        /// The path with which the file was opened.
        path: String,
        /// The failure.
        failure: Failure,
    },
    /// The directory of a new file does not exist.
    #[error(
        "{path}: there is no directory {parent}: make it first (`pario mkdir -p`), or create the file \
         with create_parents(true)"
    )]
    NoParent {
        /// The file.
        path: String,
        /// The first directory on its path that does not exist.
        parent: String,
    },
    /// No cluster runs at the given place.
    #[error("{text}")]
    NotRunning {
        /// The place, and how to start a cluster.
        text: String,
    },
    /// Several nodes of this user run, and the caller has not chosen one.
    #[error("{text}")]
    SeveralNodes {
        /// The nodes, and how to choose one.
        text: String,
    },
    /// The namespace of an embedded cluster is missing, but its disks have files.
    #[error("{text}")]
    NamespaceMissing {
        /// The missing file, and what to do.
        text: String,
    },
    /// Another process uses the directory.
    #[error("{text}")]
    InUse {
        /// The process, and what to do.
        text: String,
    },
    /// This user may not use the node or the directory, or does not have the key.
    #[error("{text}")]
    Refused {
        /// The refused object, and the right or key that is needed.
        text: String,
    },
    /// The file with the cluster's key cannot be used.
    #[error("{text}")]
    KeyFile {
        /// The kind of error, as the standard library sorts them.
        kind: io::ErrorKind,
        /// The file, and what is wrong with it.
        text: String,
    },
    /// A node does not answer.
    #[error("{text}")]
    NodeDown {
        /// The node.
        node: String,
        /// The call that needs the node, and how it was tried.
        text: String,
    },
    /// An argument is impossible.
    #[error("{text}")]
    Invalid {
        /// The argument, and why it is impossible.
        text: String,
    },
    /// The file ends before the requested bytes.
    #[error(
        "{path}: the file ends at byte {len}; {wanted} bytes from byte {offset} on were wanted"
    )]
    Ended {
        /// The path with which the file was opened.
        path: String,
        /// Where the file ends.
        len: u64,
        /// The first requested byte.
        offset: u64,
        /// The number of requested bytes.
        wanted: u64,
    },
    /// The locks of this process on an open file are lost.
    #[error(
        "{path}: the connection was lost, and with it what this process had locked; others may have \
         it now: open the file again"
    )]
    LocksLost {
        /// The path with which the file was opened.
        path: String,
    },
    /// The caller has stopped a processing call.
    #[error("operation {operation:?} was stopped before it was done")]
    Stopped {
        /// The operation.
        operation: String,
    },
    /// The ranks have made calls that do not match; all of them get this error.
    #[error("job {job}: the ranks disagree{calls}")]
    Disagree {
        /// The job.
        job: String,
        /// The calls and their ranks, a line for each call.
        calls: String,
    },
    /// A rank could not read or write its part of a cached file.
    #[error("{path}: rank {rank} {what}")]
    Cached {
        /// The path with which the file was opened.
        path: String,
        /// The rank.
        rank: u32,
        /// The kind of error, as the standard library sorts them.
        kind: io::ErrorKind,
        /// What the rank could not do, and why.
        what: String,
        /// Whether a sync has failed, so that the content of the disk is unknown.
        is_final: bool,
    },
    /// A call on the memory of a job has failed.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// A call on a record file has failed.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// Anything else.
    #[error("{text}")]
    Other {
        /// What happened.
        text: String,
    },
}

impl Error {
    /// Returns the kind, by which a program can react.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Path(_) | Self::SeveralNodes { .. } | Self::Invalid { .. } => ErrorKind::Invalid,
            Self::Failure(failure) | Self::File { failure, .. } => ErrorKind::from(failure),
            Self::NoParent { .. } => ErrorKind::NotFound,
            Self::NotRunning { .. } | Self::NodeDown { .. } => ErrorKind::NodeUnreachable,
            Self::NamespaceMissing { .. } => ErrorKind::Damaged,
            Self::InUse { .. } => ErrorKind::Busy,
            Self::Refused { .. } => ErrorKind::PermissionDenied,
            Self::KeyFile { kind, .. } | Self::Cached { kind, .. } => ErrorKind::from(*kind),
            Self::Ended { .. } => ErrorKind::UnexpectedEnd,
            Self::LocksLost { .. } => ErrorKind::Stale,
            Self::Stopped { .. } => ErrorKind::Cancelled,
            Self::Disagree { .. } => ErrorKind::Mismatch,
            Self::Team(error) => ErrorKind::from(error),
            Self::Records(error) => ErrorKind::from(error),
            Self::Other { .. } => ErrorKind::Other,
        }
    }

    /// Returns the path of the file or directory that the error concerns, if the error names one.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Failure(failure) => failure.path().map(FilePath::as_str),
            Self::File { path, .. }
            | Self::NoParent { path, .. }
            | Self::Ended { path, .. }
            | Self::LocksLost { path }
            | Self::Cached { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Returns the node that the error concerns, if the error names one.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Failure(failure) | Self::File { failure, .. } => failure.node(),
            Self::NodeDown { node, .. } => Some(node),
            _ => None,
        }
    }

    /// Returns the disk that the error concerns, as `node/disk`, if the error names one.
    pub fn disk(&self) -> Option<&str> {
        match self {
            Self::Failure(failure) | Self::File { failure, .. } => failure.disk(),
            _ => None,
        }
    }

    /// Returns the rank that was lost, has left or could not do its part, if the error names one.
    pub fn rank(&self) -> Option<u32> {
        match self {
            Self::Failure(Failure::Collective { error, .. })
            | Self::File { failure: Failure::Collective { error, .. }, .. } => error.rank(),
            Self::Cached { rank, .. } => Some(*rank),
            Self::Team(error) | Self::Records(RecordError::Team(error)) => error.rank(),
            _ => None,
        }
    }

    /// An error without a kind of its own.
    pub(crate) fn other(text: impl Into<String>) -> Self {
        Self::Other { text: text.into() }
    }

    /// An error about an impossible argument.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid { text: text.into() }
    }

    /// The error of a creation: a missing path above the file is a missing directory.
    pub(crate) fn of_creation(self, path: &FilePath) -> Self {
        match self {
            Self::Failure(Failure::NotFound { path: missing }) if missing != *path => {
                Self::NoParent { path: path.to_string(), parent: missing.to_string() }
            }
            error => error,
        }
    }

    /// The error of a call on an open file: names its path.
    pub(crate) fn of_file(self, path: &str) -> Self {
        match self {
            // These name the path themselves.
            Self::Failure(Failure::Denied { .. } | Failure::NotFound { .. }) => self,
            Self::Failure(failure) => Self::File { path: path.to_owned(), failure },
            Self::NodeDown { node, text } => {
                Self::NodeDown { node, text: format!("{path}: {text}") }
            }
            error => error,
        }
    }
}

impl Error {
    /// Whether a node has refused a grant for which a new one may be had, or has just started and
    /// does not know yet which grants are valid.
    pub(crate) fn needs_renewal(&self) -> bool {
        match self {
            Self::Failure(failure) => failure.needs_renewal() || self.is_uninformed(),
            _ => false,
        }
    }

    /// Whether a node has just started and does not know yet which grants are valid.
    pub(crate) fn is_uninformed(&self) -> bool {
        matches!(self, Self::Failure(Failure::Uninformed { .. }))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NodeDown { node, why } => {
                let text = format!("node {node} does not answer: {why}");
                Self::NodeDown { node, text }
            }
            failure => Self::Failure(failure),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(error.kind().into(), error)
    }
}
