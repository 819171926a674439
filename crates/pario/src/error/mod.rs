//! What can go wrong, in sentences.

mod kind;

use std::io;

use pario_proto::{Failure, FilePath, PathError};
use pario_records::RecordError;
use pario_team::TeamError;
use thiserror::Error;

pub use kind::ErrorKind;

/// Why a call failed. Each error says what happened, to what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is no path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A node has answered that it cannot be done.
    #[error("{0}")]
    Failure(Failure),
    /// The same, and it concerned an open file.
    #[error("{path}: {failure}")]
    File {
        /// The path with which the file was opened.
        path: String,
        /// What a node has answered.
        failure: Failure,
    },
    /// The directory in which a file was to be created is not there.
    #[error(
        "{path}: there is no directory {parent}: make it first (`pario mkdir -p`), or create the file \
         with create_parents(true)"
    )]
    NoParent {
        /// The file.
        path: String,
        /// The first directory on its path that is not there.
        parent: String,
    },
    /// There is no cluster where it was looked for.
    #[error("{text}")]
    NotRunning {
        /// Where it was looked for, and how to get one.
        text: String,
    },
    /// Several nodes of this user run, and the caller has not said which one is meant.
    #[error("{text}")]
    SeveralNodes {
        /// Which run, and how to choose.
        text: String,
    },
    /// The namespace of an embedded cluster is missing, and there are files on its disks.
    #[error("{text}")]
    NamespaceMissing {
        /// What is missing, and what to do.
        text: String,
    },
    /// Another process has the directory.
    #[error("{text}")]
    InUse {
        /// Which, and what to do.
        text: String,
    },
    /// The node, its key or a directory is not for this user.
    #[error("{text}")]
    Refused {
        /// What is refused, and which right or key is needed.
        text: String,
    },
    /// The file with the cluster's key cannot be used.
    #[error("{text}")]
    KeyFile {
        /// The kind of error, as the standard library sorts them.
        kind: io::ErrorKind,
        /// Which file, and what is wrong with it.
        text: String,
    },
    /// A node does not answer.
    #[error("{text}")]
    NodeDown {
        /// The node.
        node: String,
        /// What it is needed for, and what was tried.
        text: String,
    },
    /// What was asked for is impossible.
    #[error("{text}")]
    Invalid {
        /// What, and why.
        text: String,
    },
    /// The file ends before the bytes that were to be read.
    #[error(
        "{path}: the file ends at byte {len}; {wanted} bytes from byte {offset} on were wanted"
    )]
    Ended {
        /// The path with which the file was opened.
        path: String,
        /// Where the file ends.
        len: u64,
        /// The first byte wanted.
        offset: u64,
        /// How many were wanted.
        wanted: u64,
    },
    /// What this process had locked of an open file is not locked any more.
    #[error(
        "{path}: the connection was lost, and with it what this process had locked; others may have \
         it now: open the file again"
    )]
    LocksLost {
        /// The path with which the file was opened.
        path: String,
    },
    /// Work with extents was given up by who wanted it.
    #[error("operation {operation:?} was stopped before it was done")]
    Stopped {
        /// The operation.
        operation: String,
    },
    /// The ranks have called what does not fit together; all of them get this.
    #[error("job {job}: the ranks disagree{calls}")]
    Disagree {
        /// The job.
        job: String,
        /// Who called what, a line for each call.
        calls: String,
    },
    /// What was to be read or written for a cached file could not be, by one of the ranks.
    #[error("{path}: rank {rank} {what}")]
    Cached {
        /// The path with which the file was opened.
        path: String,
        /// Which rank.
        rank: u32,
        /// The kind of error, as the standard library sorts them.
        kind: io::ErrorKind,
        /// What it could not do, and why.
        what: String,
        /// Whether a sync has failed, so that nobody knows what is on the disk.
        is_final: bool,
    },
    /// What the processes of a job do with their memory has failed.
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
    /// Returns what a program can react to.
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

    /// An impossible wish.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid { text: text.into() }
    }

    /// The same error, said of a file that was to be created: what is not there is its directory.
    pub(crate) fn of_creation(self, path: &FilePath) -> Self {
        match self {
            Self::Failure(Failure::NotFound { path: missing }) if missing != *path => {
                Self::NoParent { path: path.to_string(), parent: missing.to_string() }
            }
            error => error,
        }
    }

    /// The same error, said of an open file.
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
