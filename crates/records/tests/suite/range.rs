//! Ranges of bytes, as accesses take them.

use std::ops::Range;

/// So many bytes from a place on.
pub fn bytes(start: u64, len: usize) -> Range<u64> {
    start..start + len as u64
}
