//! Why calls fail: the numbers that go to `errno`, their texts, and what is known beyond them.

use std::cell::RefCell;
use std::io::{self, Write as _};

use libc::c_int;
use pario::team::TeamError;
use pario::{CollectiveError, Error, Failure, PathError};

/// The first number of the errors of this library. The system's numbers end far below.
pub const FIRST: c_int = 5000;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $offset:literal, $text:literal;)*) => {
        $($(#[$doc])* pub const $name: c_int = FIRST + $offset;)*

        /// All errors of this library: name, number and text.
        pub const ALL: &[(&str, c_int, &str)] = &[$((stringify!($name), $name, $text)),*];
    };
}

errors! {
    /// The cluster does not let this user in, or not any more to this file.
    EPFSLAUTH = 1, "PFSLib: Incorrect authentication";
    /// The descriptor is not open, or does not belong to a shared file.
    EPFSLBADF = 2, "PFSLib: Bad file number";
    /// The cluster does not know the open file any more.
    EPFSLBADFH = 3, "PFSLib: Bad filehandle";
    /// There is no such request.
    EPFSLBADID = 4, "PFSLib: Bad I/O id";
    /// A started request failed because another process had left the file.
    EPFSLCHLDEXIT = 5, "PFSLib: Asynchronous I/O process terminated unsuccessfully";
    /// A started request failed because another process was killed.
    EPFSLCHLDSIG = 6, "PFSLib: Asynchronous I/O process terminated by signal";
    /// What was asked for is impossible.
    EPFSLINVAL = 7, "PFSLib: Invalid argument";
    /// More bytes than one call can move.
    EPFSLIOLEN = 8, "PFSLib: Too large I/O operation";
    /// There are no descriptors left.
    EPFSLMFILE = 9, "PFSLib: Too many open files";
    /// The processes have called what does not fit together.
    EPFSLMIXIO = 10, "PFSLib: Mixed file operations";
    /// As many requests are under way as there can be.
    EPFSLMREQUEST = 11, "PFSLib: Too many outstanding requests";
    /// Fewer bytes were read or written than were wanted.
    EPFSLNBYTES = 12, "PFSLib: Read or written too few data";
    /// Calls always wait; requests that are started do not.
    EPFSLNDELAY = 13, "PFSLib: O_NDELAY is not supported";
    /// A node whose disks are needed does not answer.
    EPFSLNOIOD = 14, "PFSLib: Couldn't get an I/O daemon";
    /// Anything else that went wrong in the cluster.
    EPFSLREMOTE = 15, "PFSLib: An error occurred on the server side";
    /// Files are shared by the process that has opened them, and by none that it forks.
    EPFSLFORK = 16, "PFSLib: Not possible in a forked process";
}

/// Why a call fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What goes to `errno`.
    pub number: c_int,
    /// What happened, to what, and what to do; empty if the number says it all.
    pub text: String,
}

/// What came of a call.
pub type Done<T> = Result<T, Failed>;

/// What a call does, as far as it decides what an error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Opening a file, or looking for the cluster.
    Opening,
    /// Reading or writing.
    Moving,
    /// Finding out what came of a started request.
    Waiting,
    /// Anything else.
    Else,
}

impl Failed {
    /// A number, and what is known beyond it.
    pub fn new(number: c_int, text: impl Into<String>) -> Self {
        Self { number, text: text.into() }
    }

    /// An impossible argument.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(EPFSLINVAL, text)
    }

    /// A null pointer.
    pub fn null(what: &str) -> Self {
        Self::new(libc::EFAULT, format!("{what} is NULL"))
    }

    /// The same error, said of a file that has this name.
    pub fn of_name(mut self, name: &str) -> Self {
        self.text =
            if self.text.is_empty() { name.to_owned() } else { format!("{name}: {}", self.text) };
        self
    }

    /// What the system has just said.
    pub fn of_system() -> Self {
        let number = io::Error::last_os_error().raw_os_error();
        Self::new(number.unwrap_or(libc::EIO), "")
    }

    /// What the library says.
    pub fn of(error: &Error, doing: Doing) -> Self {
        Self { number: number_of(error, doing), text: error.to_string() }
    }

    /// The text of the number, and then the cause. The text of `EPFSLREMOTE` only says that there
    /// is a cause: a cause that is known stands in its place.
    pub fn message(&self) -> String {
        let text = text_of(self.number);
        match (self.number, self.text.as_str()) {
            (_, "") => text,
            (EPFSLREMOTE, cause) => format!("PFSLib: {cause}"),
            (_, cause) => format!("{text}: {cause}"),
        }
    }
}

impl From<rustix::io::Errno> for Failed {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::new(errno.raw_os_error(), "")
    }
}

/// Adds what a call was doing to errors of the library.
pub trait While<T> {
    /// The error as C programs know it.
    fn while_doing(self, doing: Doing) -> Done<T>;
}

impl<T> While<T> for Result<T, Error> {
    fn while_doing(self, doing: Doing) -> Done<T> {
        self.map_err(|error| Failed::of(&error, doing))
    }
}

fn number_of(error: &Error, doing: Doing) -> c_int {
    match error {
        Error::Path(PathError::TooLong { .. } | PathError::NameTooLong { .. }) => {
            libc::ENAMETOOLONG
        }
        Error::Path(PathError::Empty) | Error::NoParent { .. } => libc::ENOENT,
        Error::Path(_) | Error::Invalid { .. } => EPFSLINVAL,
        Error::Failure(failure) | Error::File { failure, .. } => number_of_failure(failure, doing),
        Error::NodeDown { .. } if doing == Doing::Moving => EPFSLNOIOD,
        Error::LocksLost { .. } => EPFSLBADFH,
        Error::Ended { .. } => EPFSLNBYTES,
        Error::Disagree { .. } | Error::Team(TeamError::Disagree { .. }) => EPFSLMIXIO,
        Error::Cached { kind, .. } => number_of_kind(*kind),
        Error::Team(TeamError::Invalid(_)) => EPFSLINVAL,
        Error::Team(TeamError::Memory(_)) => libc::ENOMEM,
        _ => EPFSLREMOTE,
    }
}

/// What one of the ranks met at the disk of a cached file.
fn number_of_kind(kind: io::ErrorKind) -> c_int {
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

fn number_of_failure(failure: &Failure, doing: Doing) -> c_int {
    match failure {
        Failure::NotFound { .. } | Failure::Deleted { .. } => libc::ENOENT,
        Failure::Exists { .. } => libc::EEXIST,
        Failure::NotADirectory { .. } => libc::ENOTDIR,
        Failure::IsADirectory { .. } => libc::EISDIR,
        Failure::NotEmpty { .. } => libc::ENOTEMPTY,
        Failure::Denied { .. } if doing == Doing::Opening => libc::EACCES,
        Failure::DiskFull { .. } => libc::ENOSPC,
        Failure::DiskReadOnly { .. } => libc::EROFS,
        Failure::Denied { .. }
        | Failure::NotAdministrator { .. }
        | Failure::BadGrant { .. }
        | Failure::Revoked { .. }
        | Failure::GrantExpired { .. }
        | Failure::Refused { .. } => EPFSLAUTH,
        Failure::StaleHandle { .. } => EPFSLBADFH,
        Failure::Deadlock { .. } => libc::EDEADLK,
        Failure::TooManyLocks { .. } => libc::ENOLCK,
        Failure::LimitReached { .. } => libc::EDQUOT,
        Failure::NodeDown { .. } | Failure::Stopping { .. } | Failure::Uninformed { .. }
            if doing == Doing::Moving =>
        {
            EPFSLNOIOD
        }
        Failure::Invalid(_)
        | Failure::Layout { .. }
        | Failure::WrongKind { .. }
        | Failure::Root
        | Failure::IntoItself { .. } => EPFSLINVAL,
        Failure::Collective { error, .. } => number_of_collective(error, doing),
        _ => EPFSLREMOTE,
    }
}

fn number_of_collective(error: &CollectiveError, doing: Doing) -> c_int {
    match error {
        CollectiveError::Gone { .. } if doing == Doing::Waiting => EPFSLCHLDSIG,
        CollectiveError::Closed { .. } if doing == Doing::Waiting => EPFSLCHLDEXIT,
        CollectiveError::Disagreement(_)
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

/// The text of a number: of this library, or of the system.
pub fn text_of(number: c_int) -> String {
    let own = ALL.iter().find(|(_, known, _)| *known == number);
    match own {
        Some((_, _, text)) => (*text).to_owned(),
        None => {
            let text = io::Error::from_raw_os_error(number).to_string();
            // The library of Rust adds the number, the one of C does not.
            match text.rfind(" (os error") {
                Some(end) => text[..end].to_owned(),
                None => text,
            }
        }
    }
}

thread_local! {
    /// The last error of this thread.
    static LAST: RefCell<Option<Failed>> = const { RefCell::new(None) };
}

/// Sets `errno`, and remembers what is known beyond it.
pub fn raise(failed: Failed) {
    let number = failed.number;
    // A thread that is ending has nothing to remember.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Some(failed));
    // SAFETY: the address is that of this thread's `errno`, which lives as long as the thread.
    unsafe { *libc::__errno_location() = number };
}

/// Says something on standard error. If nobody hears it, there is nobody to tell that either.
pub fn say(message: &str) {
    // One write, so that lines of several ranks do not mix.
    let _ = io::stderr().write_all(format!("{message}\n").as_bytes());
}

/// What `errno` of this thread says, followed by the cause if the last call of this library that
/// failed in this thread has set it.
pub fn last_message() -> String {
    let number = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let last = LAST.try_with(|last| last.borrow().clone()).ok().flatten();
    match last {
        Some(failed) if failed.number == number => failed.message(),
        _ => text_of(number),
    }
}
