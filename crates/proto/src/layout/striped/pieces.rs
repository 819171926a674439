//! A range in the order of the file.
//!
//! Invariants: the pieces tile the range without gap or overlap; none is empty and none crosses
//! the border of a unit.

use super::{BytePlacement, Striped};
use crate::layout::range::ByteRange;

/// A part of a range that lies in one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Where its first byte lies.
    pub place: BytePlacement,
    /// Which byte of the file its first byte is.
    pub file_offset_bytes: u64,
    /// How long it is.
    pub len_bytes: u64,
}

/// The pieces of a range; see [`Striped::pieces`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    striped: &'a Striped,
    next_byte: u64,
    end_byte: u64,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(striped: &'a Striped, range: ByteRange) -> Pieces<'a> {
        Pieces { striped, next_byte: range.start_bytes(), end_byte: range.end_bytes() }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let left_bytes = self.end_byte - self.next_byte;
        if left_bytes == 0 {
            return None;
        }
        let unit_bytes = self.striped.unit_bytes;
        let len_bytes = left_bytes.min(unit_bytes - self.next_byte % unit_bytes);
        let piece = Piece {
            place: self.striped.locate(self.next_byte),
            file_offset_bytes: self.next_byte,
            len_bytes,
        };
        self.next_byte += len_bytes;
        Some(piece)
    }
}
