//! Byte ranges, as accesses take them.

use std::ops::Range;

/// The range of `len` bytes from `start` on.
pub fn bytes(start: u64, len: usize) -> Range<u64> {
    start..start + len as u64
}
