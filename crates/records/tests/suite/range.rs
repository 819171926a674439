//! Byte ranges, as accesses take them.

use std::ops::RangeInclusive;

/// The range of `len` bytes from `start` on.
pub fn bytes(start: u64, len: usize) -> RangeInclusive<u64> {
    match len {
        0 => RangeInclusive::new(start + 1, start),
        len => RangeInclusive::new(start, start + len as u64 - 1),
    }
}
