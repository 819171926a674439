//! The kinds of errors that a program can react to.

use std::io;

use pario_proto::{CollectiveError, Failure};
use pario_records::RecordError;
use pario_team::TeamError;

/// The kind of an error, by which a program can react; returned by
/// [`Error::kind`](crate::Error::kind).
///
/// ```
/// # fn main() -> Result<(), pario::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let cluster = pario::Cluster::embedded(dir.path())?;
/// use pario::ErrorKind;
///
/// let state = match cluster.open("/runs/7/state") {
///     Err(error) if error.kind() == ErrorKind::NotFound => cluster.create_all("/runs/7/state")?,
///     other => other?,
/// };
/// assert_eq!(state.len()?, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file, directory, node, record or operation does not exist.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// A directory is needed, and this is a file.
    NotADirectory,
    /// A file is needed, and this is a directory.
    IsADirectory,
    /// The directory has entries.
    DirectoryNotEmpty,
    /// The user lacks a right or a key.
    PermissionDenied,
    /// A disk is full.
    NoSpace,
    /// A disk accepts no changes.
    ReadOnly,
    /// A file or an access would be larger than the largest file.
    TooLarge,
    /// A user, or all users together, hold as much as a limit allows.
    QuotaExceeded,
    /// The machine has not enough memory.
    OutOfMemory,
    /// A node does not run, does not answer or is stopping.
    NodeUnreachable,
    /// A process of the job has ended or left, and the call needs it.
    RankLost,
    /// The ranks of a job have made calls that do not match.
    Mismatch,
    /// Stored bytes are damaged or lost, or a disk fails.
    Damaged,
    /// The open file, its locks or its shared state are no longer valid: open the file again.
    Stale,
    /// The wait would close a cycle of processes that wait for each other.
    Deadlock,
    /// Another process uses it.
    Busy,
    /// An argument is impossible.
    Invalid,
    /// The file ends before the requested bytes.
    UnexpectedEnd,
    /// The caller has cancelled the work.
    Cancelled,
    /// A process has not arrived, or a node has not answered, in time.
    TimedOut,
    /// The other side does not support it.
    Unsupported,
    /// Anything else: the sentence says what.
    Other,
}

impl From<ErrorKind> for io::ErrorKind {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::AlreadyExists => Self::AlreadyExists,
            ErrorKind::NotADirectory => Self::NotADirectory,
            ErrorKind::IsADirectory => Self::IsADirectory,
            ErrorKind::DirectoryNotEmpty => Self::DirectoryNotEmpty,
            ErrorKind::PermissionDenied => Self::PermissionDenied,
            ErrorKind::NoSpace => Self::StorageFull,
            ErrorKind::ReadOnly => Self::ReadOnlyFilesystem,
            ErrorKind::TooLarge => Self::FileTooLarge,
            ErrorKind::QuotaExceeded => Self::QuotaExceeded,
            ErrorKind::OutOfMemory => Self::OutOfMemory,
            ErrorKind::NodeUnreachable => Self::NotConnected,
            ErrorKind::RankLost => Self::ConnectionAborted,
            ErrorKind::Mismatch | ErrorKind::Invalid => Self::InvalidInput,
            ErrorKind::Damaged => Self::InvalidData,
            ErrorKind::Stale => Self::StaleNetworkFileHandle,
            ErrorKind::Deadlock => Self::Deadlock,
            ErrorKind::Busy => Self::ResourceBusy,
            ErrorKind::UnexpectedEnd => Self::UnexpectedEof,
            ErrorKind::Cancelled => Self::Interrupted,
            ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::Other => Self::Other,
        }
    }
}

impl From<io::ErrorKind> for ErrorKind {
    fn from(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::AlreadyExists => Self::AlreadyExists,
            io::ErrorKind::NotADirectory => Self::NotADirectory,
            io::ErrorKind::IsADirectory => Self::IsADirectory,
            io::ErrorKind::DirectoryNotEmpty => Self::DirectoryNotEmpty,
            io::ErrorKind::PermissionDenied => Self::PermissionDenied,
            io::ErrorKind::StorageFull => Self::NoSpace,
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            io::ErrorKind::FileTooLarge => Self::TooLarge,
            io::ErrorKind::QuotaExceeded => Self::QuotaExceeded,
            io::ErrorKind::OutOfMemory => Self::OutOfMemory,
            io::ErrorKind::NotConnected
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable => Self::NodeUnreachable,
            io::ErrorKind::ConnectionAborted => Self::RankLost,
            io::ErrorKind::InvalidData => Self::Damaged,
            io::ErrorKind::StaleNetworkFileHandle => Self::Stale,
            io::ErrorKind::Deadlock => Self::Deadlock,
            io::ErrorKind::ResourceBusy => Self::Busy,
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => Self::Invalid,
            io::ErrorKind::UnexpectedEof => Self::UnexpectedEnd,
            io::ErrorKind::Interrupted => Self::Cancelled,
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::Unsupported => Self::Unsupported,
            _ => Self::Other,
        }
    }
}

impl From<&Failure> for ErrorKind {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::NotFound { .. } | Failure::Deleted { .. } | Failure::NoSuchModule { .. } => {
                Self::NotFound
            }
            Failure::Exists { .. } => Self::AlreadyExists,
            Failure::NotADirectory { .. } => Self::NotADirectory,
            Failure::IsADirectory { .. } => Self::IsADirectory,
            Failure::NotEmpty { .. } => Self::DirectoryNotEmpty,
            Failure::Denied { .. }
            | Failure::ModuleDenied { .. }
            | Failure::NotAdministrator { .. }
            | Failure::BadGrant { .. }
            | Failure::Revoked { .. }
            | Failure::GrantExpired { .. }
            | Failure::Refused { .. } => Self::PermissionDenied,
            Failure::DiskFull { .. } => Self::NoSpace,
            Failure::DiskReadOnly { .. } => Self::ReadOnly,
            Failure::Disk { .. } | Failure::SubfileMissing { .. } => Self::Damaged,
            Failure::NodeDown { .. }
            | Failure::Stopping { .. }
            | Failure::Uninformed { .. }
            | Failure::NotInterface { .. } => Self::NodeUnreachable,
            Failure::Collective { error, .. } => Self::from(error),
            Failure::StaleHandle { .. } => Self::Stale,
            Failure::Deadlock { .. } => Self::Deadlock,
            Failure::TooManyLocks { .. } | Failure::LimitReached { .. } => Self::QuotaExceeded,
            Failure::RankInUse { .. } => Self::Busy,
            Failure::Version { .. } | Failure::UnknownOperation { .. } => Self::Unsupported,
            Failure::Root
            | Failure::IntoItself { .. }
            | Failure::WrongKind { .. }
            | Failure::Invalid(_)
            | Failure::Layout { .. } => Self::Invalid,
            Failure::Metadata { .. } | Failure::Internal { .. } | Failure::Operation { .. } => {
                Self::Other
            }
        }
    }
}

impl From<&CollectiveError> for ErrorKind {
    fn from(error: &CollectiveError) -> Self {
        match error {
            CollectiveError::Disagreement(_)
            | CollectiveError::RankFailed { .. }
            | CollectiveError::WrongSize { .. }
            | CollectiveError::OutOfTurn { .. }
            | CollectiveError::WrongMode { .. } => Self::Mismatch,
            CollectiveError::Gone { .. } | CollectiveError::Closed { .. } => Self::RankLost,
            CollectiveError::NoSuchRank { .. } | CollectiveError::OutOfRange(_) => Self::Invalid,
            CollectiveError::RankTaken { .. } => Self::Busy,
            CollectiveError::Unknown | CollectiveError::Reset => Self::Stale,
            CollectiveError::NotPerformed { .. } | CollectiveError::NotMeasured { .. } => {
                Self::Other
            }
        }
    }
}

impl From<&TeamError> for ErrorKind {
    fn from(error: &TeamError) -> Self {
        match error {
            TeamError::Disagree { .. }
            | TeamError::GroupDisagree { .. }
            | TeamError::RankFailed { .. } => Self::Mismatch,
            other => Self::from(other.kind()),
        }
    }
}

impl From<&RecordError> for ErrorKind {
    fn from(error: &RecordError) -> Self {
        match error {
            RecordError::Team(error) => Self::from(error),
            other => Self::from(other.kind()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Error, ErrorKind};
    use pario_proto::{CollectiveError, Failure, FilePath};
    use pario_records::RecordError;
    use pario_team::TeamError;
    use std::io;

    fn collective(error: CollectiveError) -> Error {
        let (what, job) = ("/runs/7/log".to_owned(), "4711".to_owned());
        Error::Failure(Failure::Collective { what, job, error })
    }

    #[test]
    fn a_lost_rank_is_named_through_files_teams_and_records() {
        let lost = TeamError::Lost { job: "4711".to_owned(), rank: 3 };
        for error in [
            collective(CollectiveError::Gone { rank: 3 }),
            Error::from(lost.clone()),
            Error::from(RecordError::Team(lost)),
        ] {
            assert_eq!((error.kind(), error.rank()), (ErrorKind::RankLost, Some(3)), "{error}");
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::ConnectionAborted);
        }
    }

    #[test]
    fn records_keep_their_kind() {
        for (error, kind) in [
            (RecordError::NotFound("x".to_owned()), ErrorKind::NotFound),
            (RecordError::Exists("x".to_owned()), ErrorKind::AlreadyExists),
            (RecordError::InUse("x".to_owned()), ErrorKind::Busy),
            (RecordError::Damaged("x".to_owned()), ErrorKind::Damaged),
            (RecordError::System { number: 28, text: "x".to_owned() }, ErrorKind::NoSpace),
        ] {
            assert_eq!(Error::from(error).kind(), kind);
        }
    }

    #[test]
    fn errors_name_what_they_concern() {
        let path = FilePath::new("/runs/7").unwrap();
        let missing = Error::from(Failure::NotFound { path });
        assert_eq!((missing.kind(), missing.path()), (ErrorKind::NotFound, Some("/runs/7")));
        let (disk, action) = ("b/disk1".to_owned(), "a write".to_owned());
        let failure = Failure::DiskFull { disk, free_bytes: 0, action };
        let full = Error::File { path: "/x".to_owned(), failure };
        assert_eq!((full.path(), full.disk()), (Some("/x"), Some("b/disk1")));
        assert_eq!((full.kind(), full.node()), (ErrorKind::NoSpace, None));
        let (node, why) = ("b".to_owned(), "it was killed".to_owned());
        let down = Error::from(Failure::NodeDown { node, why });
        assert_eq!((down.kind(), down.node()), (ErrorKind::NodeUnreachable, Some("b")));
    }

    /// Every kind that an operating system knows comes back from `io::ErrorKind` as itself.
    #[test]
    fn kinds_survive_the_standard_library() {
        for kind in [
            ErrorKind::NotFound,
            ErrorKind::PermissionDenied,
            ErrorKind::NoSpace,
            ErrorKind::QuotaExceeded,
            ErrorKind::NodeUnreachable,
            ErrorKind::RankLost,
            ErrorKind::Damaged,
            ErrorKind::Stale,
            ErrorKind::Deadlock,
            ErrorKind::Busy,
            ErrorKind::Invalid,
            ErrorKind::UnexpectedEnd,
            ErrorKind::TooLarge,
            ErrorKind::TimedOut,
        ] {
            assert_eq!(ErrorKind::from(io::ErrorKind::from(kind)), kind);
        }
    }
}
