//! Errors of record files, and their encoding for other ranks.

use std::io;
use std::path::Path;

use pario_team::TeamError;
use thiserror::Error;

/// The reason why a call on a record file failed. A collective call fails with the same error on
/// all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The call is impossible: a range outside of the record, a buffer of the wrong length, ranks
    /// whose collective calls do not match.
    #[error("{0}")]
    Invalid(String),
    /// The file, part or record does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The file or part exists already.
    #[error("{0}")]
    Exists(String),
    /// Another job has the file open.
    #[error("{0}")]
    InUse(String),
    /// A part is damaged, or the parts do not belong together.
    #[error("{0}")]
    Damaged(String),
    /// A change of the map or a sync has failed before. The file can no longer be changed.
    #[error("{0}")]
    Broken(String),
    /// A system call failed: the disk is full, a permission is missing, and so on.
    #[error("{text}")]
    System {
        /// The `errno` of the system call.
        number: i32,
        /// The path, the failed step and the system's text.
        text: String,
    },
    /// A call of the team failed: a rank is lost, has left, or made another call.
    #[error(transparent)]
    Team(#[from] TeamError),
}

impl RecordError {
    /// The error kind of the standard library.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Invalid(_) => io::ErrorKind::InvalidInput,
            Self::NotFound(_) => io::ErrorKind::NotFound,
            Self::Exists(_) => io::ErrorKind::AlreadyExists,
            Self::InUse(_) => io::ErrorKind::ResourceBusy,
            Self::Damaged(_) => io::ErrorKind::InvalidData,
            Self::Broken(_) => io::ErrorKind::Other,
            Self::System { number, .. } => io::Error::from_raw_os_error(*number).kind(),
            Self::Team(error) => error.kind(),
        }
    }

    /// The error of a system call on a file. `doing` names the step that failed.
    pub(super) fn system(doing: &str, path: &Path, error: &io::Error) -> Self {
        let number = error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error());
        Self::System { number, text: format!("{}: {doing}: {error}", path.display()) }
    }

    /// Encodes the error for other ranks: a number for its kind, and its text.
    pub(super) fn to_code(&self) -> (i32, String) {
        let kind = match self {
            Self::Invalid(_) => -1,
            Self::NotFound(_) => -2,
            Self::Exists(_) => -3,
            Self::InUse(_) => -4,
            Self::Damaged(_) => -5,
            Self::Broken(_) => -6,
            Self::Team(_) => rustix::io::Errno::CONNABORTED.raw_os_error(),
            Self::System { number, .. } => *number,
        };
        (kind, self.to_string())
    }

    /// Decodes the error of another rank.
    pub(super) fn of_code(kind: i32, text: String) -> Self {
        match kind {
            -1 => Self::Invalid(text),
            -2 => Self::NotFound(text),
            -3 => Self::Exists(text),
            -4 => Self::InUse(text),
            -5 => Self::Damaged(text),
            -6 => Self::Broken(text),
            number => Self::System { number, text },
        }
    }

    /// Encodes the error as one line, for the reply to a request from another machine.
    pub(super) fn to_line(&self) -> String {
        let (kind, text) = self.to_code();
        format!("{kind} {text}")
    }

    /// Decodes the line of another machine; `None` if it is not the line of a [`RecordError`].
    pub(super) fn of_line(line: &str) -> Option<Self> {
        let (kind, text) = line.split_once(' ')?;
        Some(Self::of_code(kind.parse().ok()?, text.to_owned()))
    }
}

impl From<RecordError> for io::Error {
    fn from(error: RecordError) -> Self {
        io::Error::new(error.kind(), error)
    }
}
