//! A range of bytes of a file.
//!
//! Invariant: `start + len` fits 64 bits, so no arithmetic on positions inside a range can wrap.

use thiserror::Error;

/// `len` bytes of a file from byte `start` on; may be empty.
///
/// ```
/// use pario_proto::ByteRange;
///
/// let range = ByteRange::new(100, 28)?;
/// assert_eq!(range.end_bytes(), 128);
/// assert!(ByteRange::new(u64::MAX, 1).is_err());
/// # Ok::<(), pario_proto::RangeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteRange {
    start_bytes: u64,
    len_bytes: u64,
}

/// The range would end beyond the largest file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{len_bytes} bytes from byte {start_bytes} on would end beyond the largest file size, 2^64 - 1 \
     bytes: use a smaller offset or fewer bytes"
)]
pub struct RangeError {
    /// Where the range starts.
    pub start_bytes: u64,
    /// How long it is.
    pub len_bytes: u64,
}

impl ByteRange {
    /// Checks and takes a range.
    pub fn new(start_bytes: u64, len_bytes: u64) -> Result<ByteRange, RangeError> {
        match start_bytes.checked_add(len_bytes) {
            Some(_) => Ok(ByteRange { start_bytes, len_bytes }),
            None => Err(RangeError { start_bytes, len_bytes }),
        }
    }

    /// The first byte.
    pub fn start_bytes(&self) -> u64 {
        self.start_bytes
    }

    /// The number of bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// One past the last byte.
    pub fn end_bytes(&self) -> u64 {
        self.start_bytes + self.len_bytes
    }

    /// Whether the range has no byte.
    pub fn is_empty(&self) -> bool {
        self.len_bytes == 0
    }
}
