//! Errors of reading and writing files of other programs.

use std::fmt;
use std::io;

/// The position of damage in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePosition {
    /// In the header.
    Header,
    /// At this byte.
    Byte(u64),
    /// In this row, counted from 0.
    Row(u64),
}

/// The error of a picture or volume that cannot be read or written. `name` is the name of the file.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The operating system reported an error.
    #[error("{name}: cannot {action}: {source}")]
    Io {
        /// The file.
        name: String,
        /// The attempted action.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The content contradicts itself or its format.
    #[error("{name}: damaged {position}: {what}; make or fetch the file again")]
    Damaged {
        /// The file.
        name: String,
        /// The position.
        position: FilePosition,
        /// The contradiction.
        what: String,
    },
    /// The file ends before its last pixel.
    #[error(
        "{name}: has {has_bytes} bytes, {needed_bytes} are needed for {what}; it was cut short, or \
         the size, the pixel or the bytes to skip are not those of this file"
    )]
    Short {
        /// The file.
        name: String,
        /// The length of the file.
        has_bytes: u64,
        /// The expected length.
        needed_bytes: u64,
        /// Size and pixel.
        what: String,
    },
    /// The file continues after its last pixel.
    #[error(
        "{name}: has {has_bytes} bytes, {needed_bytes} are needed for {what}: {} are too many; \
         correct the size or the pixel, or skip what comes before the first pixel",
        has_bytes - needed_bytes
    )]
    Long {
        /// The file.
        name: String,
        /// The length of the file.
        has_bytes: u64,
        /// The expected length.
        needed_bytes: u64,
        /// Size and pixel.
        what: String,
    },
    /// The file may be intact, but this program cannot read or write its kind.
    #[error("{name}: {what}; {advice}")]
    Unsupported {
        /// The file.
        name: String,
        /// What is not supported.
        what: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// The file needs more memory than allowed.
    #[error(
        "{name}: {what} takes {needed_bytes} bytes of memory, {limit_bytes} are allowed; allow \
         more, or convert it to strips or tiles of fewer pixels"
    )]
    TooLarge {
        /// The file.
        name: String,
        /// The part that is too large.
        what: &'static str,
        /// The needed memory.
        needed_bytes: u64,
        /// The allowed memory.
        limit_bytes: u64,
    },
    /// A picture of a stack differs from the first.
    #[error(
        "{name}: is {has}, but {first}, the first of the stack, is {expected}; all must be alike: \
         remove it from the stack or convert it"
    )]
    Differs {
        /// The file that differs.
        name: String,
        /// Its size and pixel.
        has: String,
        /// The first file.
        first: String,
        /// Size and pixel of the first.
        expected: String,
    },
    /// The caller's request is not valid.
    #[error("{name}: {what}")]
    Misuse {
        /// The file.
        name: String,
        /// The request, and what is possible.
        what: String,
    },
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilePosition::Header => write!(f, "in the header"),
            FilePosition::Byte(byte) => write!(f, "at byte {byte}"),
            FilePosition::Row(row) => write!(f, "in row {row}"),
        }
    }
}

impl FormatError {
    pub(super) fn damaged(
        name: &str,
        position: FilePosition,
        what: impl Into<String>,
    ) -> FormatError {
        FormatError::Damaged { name: name.to_owned(), position, what: what.into() }
    }

    pub(super) fn unsupported(
        name: &str,
        what: impl Into<String>,
        advice: &'static str,
    ) -> FormatError {
        FormatError::Unsupported { name: name.to_owned(), what: what.into(), advice }
    }

    pub(super) fn misuse(name: &str, what: impl Into<String>) -> FormatError {
        FormatError::Misuse { name: name.to_owned(), what: what.into() }
    }

    /// Returns the error of a read: an early end of the file is damage.
    pub(super) fn reading(name: &str, position: FilePosition, source: io::Error) -> FormatError {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                FormatError::damaged(name, position, "the file ends too early")
            }
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                FormatError::damaged(name, position, source.to_string())
            }
            _ => FormatError::Io { name: name.to_owned(), action: "read", source },
        }
    }

    pub(super) fn writing(name: &str, source: io::Error) -> FormatError {
        FormatError::Io { name: name.to_owned(), action: "write", source }
    }
}
