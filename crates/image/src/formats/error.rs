//! What can be wrong with a file, in sentences.

use std::fmt;
use std::io;

/// Where in a file something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the header.
    Header,
    /// At this byte.
    Byte(u64),
    /// In this row, counted from 0.
    Row(u64),
}

/// Why a picture or volume could not be read or written. The name is that of the file.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The operating system refused an operation.
    #[error("{name}: cannot {action}: {source}")]
    Io {
        /// The file.
        name: String,
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// What the file holds contradicts itself or its format.
    #[error("{name}: damaged {place}: {what}; make or fetch the file again")]
    Damaged {
        /// The file.
        name: String,
        /// Where.
        place: Place,
        /// What does not fit.
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
        /// Its length.
        has_bytes: u64,
        /// The length it ought to have.
        needed_bytes: u64,
        /// Size and pixel.
        what: String,
    },
    /// The file goes on after its last pixel.
    #[error(
        "{name}: has {has_bytes} bytes, {needed_bytes} are needed for {what}: {} are too many; \
         correct the size or the pixel, or skip what comes before the first pixel",
        has_bytes - needed_bytes
    )]
    Long {
        /// The file.
        name: String,
        /// Its length.
        has_bytes: u64,
        /// The length it ought to have.
        needed_bytes: u64,
        /// Size and pixel.
        what: String,
    },
    /// The file may be well, but is of a kind that cannot be read or written.
    #[error("{name}: {what}; {advice}")]
    Unsupported {
        /// The file.
        name: String,
        /// What is not supported.
        what: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// Reading would take more memory than allowed.
    #[error(
        "{name}: {what} takes {needed_bytes} bytes of memory, {limit_bytes} are allowed; allow \
         more, or convert it to strips or tiles of fewer pixels"
    )]
    TooLarge {
        /// The file.
        name: String,
        /// What is too large.
        what: &'static str,
        /// What it takes.
        needed_bytes: u64,
        /// What is allowed.
        limit_bytes: u64,
    },
    /// A picture of a stack is not like the first.
    #[error(
        "{name}: is {has}, but {first}, the first of the stack, is {expected}; all must be alike: \
         take it out of the stack or convert it"
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
    /// The caller asked for what cannot be.
    #[error("{name}: {what}")]
    Misuse {
        /// The file.
        name: String,
        /// What was asked, and what can be.
        what: String,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Header => write!(f, "in the header"),
            Place::Byte(byte) => write!(f, "at byte {byte}"),
            Place::Row(row) => write!(f, "in row {row}"),
        }
    }
}

impl FormatError {
    pub(super) fn damaged(name: &str, place: Place, what: impl Into<String>) -> FormatError {
        FormatError::Damaged { name: name.to_owned(), place, what: what.into() }
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

    /// A failure while reading: an end that came too early is damage.
    pub(super) fn reading(name: &str, place: Place, source: io::Error) -> FormatError {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                FormatError::damaged(name, place, "the file ends too early")
            }
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                FormatError::damaged(name, place, source.to_string())
            }
            _ => FormatError::Io { name: name.to_owned(), action: "read", source },
        }
    }

    pub(super) fn writing(name: &str, source: io::Error) -> FormatError {
        FormatError::Io { name: name.to_owned(), action: "write", source }
    }
}
