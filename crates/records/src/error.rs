//! What can go wrong with record files, in sentences.

use std::io;
use std::path::Path;

use pario_team::TeamError;
use thiserror::Error;

/// Why a call on a record file failed. Collective calls fail with the same error on all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// What was asked for is impossible: a range outside of the record, memory that is too small,
    /// ranks that call different things.
    #[error("{0}")]
    Invalid(String),
    /// There is no such file, part or record.
    #[error("{0}")]
    NotFound(String),
    /// There is one already.
    #[error("{0}")]
    Exists(String),
    /// Another job has it open.
    #[error("{0}")]
    InUse(String),
    /// What is on the disk is not what was written, or parts do not belong together.
    #[error("{0}")]
    Damaged(String),
    /// A change of the map or a sync has failed before: the file can be changed no more.
    #[error("{0}")]
    Broken(String),
    /// The system refuses: the disk is full, a right is missing, and so on.
    #[error("{text}")]
    System {
        /// The number of the system's error.
        number: i32,
        /// What happened to what.
        text: String,
    },
    /// The processes of the job could not do something together.
    #[error(transparent)]
    Team(#[from] TeamError),
}

impl RecordError {
    /// The kind of error, as the standard library sorts them.
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

    /// What the system says while something is done to a file.
    pub(super) fn system(doing: &str, path: &Path, error: &io::Error) -> Self {
        let number = error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error());
        Self::System { number, text: format!("{}: {doing}: {error}", path.display()) }
    }

    /// How it is told to other ranks: a number for the kind, and the text.
    pub(super) fn told(&self) -> (i32, String) {
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

    /// What another rank has told.
    pub(super) fn of_told(kind: i32, text: String) -> Self {
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

    /// How it is told in one sentence.
    pub(super) fn to_sentence(&self) -> String {
        let (kind, text) = self.told();
        format!("{kind} {text}")
    }

    /// What another machine has told in one sentence; nothing if that is none.
    pub(super) fn of_sentence(sentence: &str) -> Option<Self> {
        let (kind, text) = sentence.split_once(' ')?;
        Some(Self::of_told(kind.parse().ok()?, text.to_owned()))
    }
}

impl From<RecordError> for io::Error {
    fn from(error: RecordError) -> Self {
        io::Error::new(error.kind(), error)
    }
}
