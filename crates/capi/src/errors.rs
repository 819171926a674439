//! Errors of calls: their numbers for `errno`, their texts, and their causes.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, Write as _};

use libc::c_int;
use pario::memory::TeamError;
use pario::{CollectiveError, Error, Failure, PathError};

/// Base of this library's error numbers, far above the system's.
pub const FIRST_NUMBER: c_int = 5000;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $offset:literal, $text:literal;)*) => {
        $($(#[$doc])* pub const $name: c_int = FIRST_NUMBER + $offset;)*

        /// All errors of this library: name, number and text.
        pub const LIBRARY_ERRORS: &[(&str, c_int, &str)] =
            &[$((stringify!($name), $name, $text)),*];
    };
}

errors! {
    /// The cluster refuses this user, or has withdrawn the right to this file.
    EPFSLAUTH = 1, "PFSLib: Incorrect authentication";
    /// The descriptor is not open, or does not belong to a shared file.
    EPFSLBADF = 2, "PFSLib: Bad file number";
    /// The cluster does not know the open file any more.
    EPFSLBADFH = 3, "PFSLib: Bad filehandle";
    /// No request has this id.
    EPFSLBADID = 4, "PFSLib: Bad I/O id";
    /// A started request failed because another process had left the file.
    EPFSLCHLDEXIT = 5, "PFSLib: Asynchronous I/O process terminated unsuccessfully";
    /// A started request failed because another process was killed.
    EPFSLCHLDSIG = 6, "PFSLib: Asynchronous I/O process terminated by signal";
    /// An argument is invalid.
    EPFSLINVAL = 7, "PFSLib: Invalid argument";
    /// One call asks for more bytes than it can transfer.
    EPFSLIOLEN = 8, "PFSLib: Too large I/O operation";
    /// No descriptor is left.
    EPFSLMFILE = 9, "PFSLib: Too many open files";
    /// The processes made calls that do not match.
    EPFSLMIXIO = 10, "PFSLib: Mixed file operations";
    /// The limit of started requests is reached.
    EPFSLMREQUEST = 11, "PFSLib: Too many outstanding requests";
    /// Fewer bytes were transferred than requested.
    EPFSLNBYTES = 12, "PFSLib: Read or written too few data";
    /// Calls on shared files block; use started requests instead of O_NDELAY.
    EPFSLNDELAY = 13, "PFSLib: O_NDELAY is not supported";
    /// A node that holds needed disks does not answer.
    EPFSLNOIOD = 14, "PFSLib: Couldn't get an I/O daemon";
    /// Any other failure in the cluster.
    EPFSLREMOTE = 15, "PFSLib: An error occurred on the server side";
    /// A forked process cannot use files and memory that its parent shares.
    EPFSLFORK = 16, "PFSLib: Not possible in a forked process";
}

/// The error of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrnoError {
    /// The number for `errno`.
    pub number: c_int,
    /// The cause: what failed, on which object, and what to do. Empty if the number says it all.
    pub text: String,
}

/// The result of a call.
pub type CallResult<T> = Result<T, ErrnoError>;

/// The kind of a call, as far as it decides the number of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrnoContext {
    /// Opens a file or connects to the cluster.
    Open,
    /// Reads or writes.
    Transfer,
    /// Waits for a started request, or tests it.
    Wait,
    /// Any other call.
    Other,
}

impl ErrnoError {
    /// Creates an error from a number and a cause.
    pub fn new(number: c_int, text: impl Into<String>) -> Self {
        Self { number, text: text.into() }
    }

    /// Creates an error about an invalid argument.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(EPFSLINVAL, text)
    }

    /// Creates an error about a null pointer.
    pub fn null_pointer(what: &str) -> Self {
        Self::new(libc::EFAULT, format!("{what} is NULL"))
    }

    /// Puts the name of a file before the cause.
    pub fn with_name(mut self, name: &str) -> Self {
        self.text =
            if self.text.is_empty() { name.to_owned() } else { format!("{name}: {}", self.text) };
        self
    }

    /// Returns the error of the system call that has just failed.
    pub fn last_os_error() -> Self {
        let number = io::Error::last_os_error().raw_os_error();
        Self::new(number.unwrap_or(libc::EIO), "")
    }

    /// Converts an error of `pario`.
    pub fn from_error(error: &Error, kind: ErrnoContext) -> Self {
        Self { number: errno_of(error, kind), text: error.to_string() }
    }

    /// Returns whether a number is no descriptor, or one that does not permit the call.
    pub fn is_bad_descriptor(&self) -> bool {
        matches!(self.number, EPFSLBADF | libc::EBADF)
    }

    /// Returns the cause, or the text of the number if there is none.
    pub fn cause(&self) -> Cow<'_, str> {
        match self.text.as_str() {
            "" => describe_number(self.number).into(),
            cause => cause.into(),
        }
    }

    /// Returns the text of the number, followed by the cause. The text of `EPFSLREMOTE` says
    /// nothing specific, so a known cause replaces it.
    pub fn message(&self) -> String {
        let text = describe_number(self.number);
        match (self.number, self.text.as_str()) {
            (_, "") => text,
            (EPFSLREMOTE, cause) => format!("PFSLib: {cause}"),
            (_, cause) => format!("{text}: {cause}"),
        }
    }
}

impl From<rustix::io::Errno> for ErrnoError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::new(errno.raw_os_error(), "")
    }
}

/// Converts results of `pario` to results of calls.
pub trait IntoCallResult<T> {
    /// Converts the error; the kind of the call can decide its number.
    fn in_call(self, kind: ErrnoContext) -> CallResult<T>;
}

impl<T> IntoCallResult<T> for Result<T, Error> {
    fn in_call(self, kind: ErrnoContext) -> CallResult<T> {
        self.map_err(|error| ErrnoError::from_error(&error, kind))
    }
}

fn errno_of(error: &Error, kind: ErrnoContext) -> c_int {
    match error {
        Error::Path(PathError::TooLong { .. } | PathError::NameTooLong { .. }) => {
            libc::ENAMETOOLONG
        }
        Error::Path(PathError::Empty) | Error::NoParent { .. } => libc::ENOENT,
        Error::Path(_) | Error::Invalid { .. } => EPFSLINVAL,
        Error::Failure(failure) | Error::File { failure, .. } => errno_of_failure(failure, kind),
        Error::NodeDown { .. } if kind == ErrnoContext::Transfer => EPFSLNOIOD,
        Error::LocksLost { .. } => EPFSLBADFH,
        Error::Ended { .. } => EPFSLNBYTES,
        Error::Disagree { .. }
        | Error::Team(
            TeamError::Disagree { .. }
            | TeamError::GroupDisagree { .. }
            | TeamError::RankFailed { .. },
        ) => EPFSLMIXIO,
        Error::Cached { kind, .. } => errno_of_kind(*kind),
        Error::Team(TeamError::Invalid(_)) => EPFSLINVAL,
        Error::Team(TeamError::Memory(_)) => libc::ENOMEM,
        _ => EPFSLREMOTE,
    }
}

/// Returns the number for an I/O error that a rank met on the file behind a cached file.
fn errno_of_kind(kind: io::ErrorKind) -> c_int {
    use io::ErrorKind as Kind;
    match kind {
        Kind::NotFound => libc::ENOENT,
        Kind::PermissionDenied => libc::EACCES,
        Kind::AlreadyExists => libc::EEXIST,
        Kind::IsADirectory => libc::EISDIR,
        Kind::NotADirectory => libc::ENOTDIR,
        Kind::StorageFull => libc::ENOSPC,
        Kind::FileTooLarge => libc::EFBIG,
        Kind::ReadOnlyFilesystem => libc::EROFS,
        Kind::InvalidInput => EPFSLINVAL,
        Kind::NotConnected => EPFSLREMOTE,
        _ => libc::EIO,
    }
}

fn errno_of_failure(failure: &Failure, kind: ErrnoContext) -> c_int {
    match failure {
        Failure::NotFound { .. } | Failure::Deleted { .. } => libc::ENOENT,
        Failure::Exists { .. } => libc::EEXIST,
        Failure::NotADirectory { .. } => libc::ENOTDIR,
        Failure::IsADirectory { .. } => libc::EISDIR,
        Failure::NotEmpty { .. } => libc::ENOTEMPTY,
        Failure::Denied { .. } if kind == ErrnoContext::Open => libc::EACCES,
        Failure::DiskFull { .. } => libc::ENOSPC,
        Failure::DiskReadOnly { .. } => libc::EROFS,
        Failure::Denied { .. }
        | Failure::NotAdministrator { .. }
        | Failure::BadGrant { .. }
        | Failure::Revoked { .. }
        | Failure::GrantExpired { .. }
        | Failure::Refused { .. } => EPFSLAUTH,
        Failure::StaleHandle { .. } | Failure::AccessReset => EPFSLBADFH,
        Failure::Deadlock { .. } => libc::EDEADLK,
        Failure::TooManyLocks { .. } => libc::ENOLCK,
        Failure::LimitReached { .. } => libc::EDQUOT,
        Failure::NodeDown { .. } | Failure::Stopping { .. } | Failure::Uninformed { .. }
            if kind == ErrnoContext::Transfer =>
        {
            EPFSLNOIOD
        }
        Failure::Invalid(_)
        | Failure::Layout { .. }
        | Failure::WrongKind { .. }
        | Failure::RankInUse { .. }
        | Failure::RankHeld { .. } => EPFSLINVAL,
        Failure::IntoItself { .. } => libc::EINVAL,
        Failure::Root => libc::EBUSY,
        Failure::Collective { error, .. } => errno_of_collective(error, kind),
        _ => EPFSLREMOTE,
    }
}

fn errno_of_collective(error: &CollectiveError, kind: ErrnoContext) -> c_int {
    match error {
        CollectiveError::Gone { .. } if kind == ErrnoContext::Wait => EPFSLCHLDSIG,
        CollectiveError::Closed { .. } if kind == ErrnoContext::Wait => EPFSLCHLDEXIT,
        CollectiveError::Disagreement(_)
        | CollectiveError::RankFailed { .. }
        | CollectiveError::Closed { .. }
        | CollectiveError::WrongMode { .. } => EPFSLMIXIO,
        CollectiveError::NoSuchRank { .. }
        | CollectiveError::WrongSize { .. }
        | CollectiveError::RankTaken { .. }
        | CollectiveError::OutOfRange(_) => EPFSLINVAL,
        CollectiveError::Unknown | CollectiveError::Reset => EPFSLBADFH,
        CollectiveError::OutOfTurn { .. } => EPFSLBADID,
        CollectiveError::Gone { .. }
        | CollectiveError::NotPerformed { .. }
        | CollectiveError::NotMeasured { .. } => EPFSLREMOTE,
    }
}

/// Returns the text of an error number of this library or of the system.
pub fn describe_number(number: c_int) -> String {
    let own = LIBRARY_ERRORS.iter().find(|(_, known, _)| *known == number);
    match own {
        Some((_, _, text)) => (*text).to_owned(),
        None => {
            let text = io::Error::from_raw_os_error(number).to_string();
            // Rust appends the number; the C library does not.
            match text.rfind(" (os error") {
                Some(end) => text[..end].to_owned(),
                None => text,
            }
        }
    }
}

thread_local! {
    /// The last error of this thread.
    static LAST_ERROR: RefCell<Option<ErrnoError>> = const { RefCell::new(None) };
}

/// Sets `errno` and stores the cause for `pfslib_perror`.
pub fn set_last_error(failed: ErrnoError) {
    let number = failed.number;
    // A thread that is ending has no thread-local storage.
    let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = Some(failed));
    // SAFETY: the address is that of this thread's `errno`, which lives as long as the thread.
    unsafe { *libc::__errno_location() = number };
}

/// Prints a line on standard error; a failure to print is ignored.
pub fn print_line(message: &str) {
    // One write per line: lines of several ranks do not mix.
    let _ = io::stderr().write_all(format!("{message}\n").as_bytes());
}

/// Returns the text of this thread's `errno`. The cause follows if this thread's last failed call
/// of the library set that number.
pub fn last_error_message() -> String {
    let number = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let last = LAST_ERROR.try_with(|last| last.borrow().clone()).ok().flatten();
    match last {
        Some(failed) if failed.number == number => failed.message(),
        _ => describe_number(number),
    }
}
