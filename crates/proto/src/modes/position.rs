//! Positions in a shared file: where the next access goes.
//!
//! Invariants: a position moves when an access is placed, not when its bytes have moved, so several
//! accesses can be under way. A read ends at the end of the file; a write moves the end. Nothing
//! lies beyond [`OFFSET_LIMIT`], and a refused access leaves the position as it was.

use serde::{Deserialize, Serialize};

/// The largest offset of a byte, 2^62.
pub const OFFSET_LIMIT: u64 = 1 << 62;

/// An access that has no range yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Transfer {
    /// Whether it writes.
    pub is_write: bool,
    /// The number of bytes.
    pub len: u64,
    /// Whether the write goes to the end of the file instead of the pointer.
    pub is_append: bool,
}

/// The range of a file that an access has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccessRange {
    /// The first byte.
    pub offset: u64,
    /// The number of bytes; a read has fewer than requested at the end of the file.
    pub len: u64,
}

/// A move of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Seek {
    /// To this byte.
    Start(u64),
    /// By a distance from the pointer.
    Current(i64),
    /// By a distance from the end of the file.
    End(i64),
}

impl From<std::io::SeekFrom> for Seek {
    fn from(seek: std::io::SeekFrom) -> Self {
        match seek {
            std::io::SeekFrom::Start(offset) => Self::Start(offset),
            std::io::SeekFrom::Current(distance) => Self::Current(distance),
            std::io::SeekFrom::End(distance) => Self::End(distance),
        }
    }
}

/// The access would lie beyond the largest file, or before its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the access would lie outside of the largest file, 2^62 bytes")]
pub struct OutOfRange;

/// A pointer, and the end of the file as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The offset of the next access.
    pub offset: u64,
    /// One past the last byte, including writes that are under way.
    pub end: u64,
}

impl Transfer {
    /// A read.
    pub fn read(len: u64) -> Self {
        Self { is_write: false, len, is_append: false }
    }

    /// A write at the pointer.
    pub fn write(len: u64) -> Self {
        Self { is_write: true, len, is_append: false }
    }

    /// A write at the end.
    pub fn append(len: u64) -> Self {
        Self { is_write: true, len, is_append: true }
    }
}

impl Position {
    /// Whether the known end may be too small for an access, so that the file must be measured
    /// first.
    pub fn needs_size_for(&self, transfer: Transfer) -> bool {
        !transfer.is_write && self.offset.saturating_add(transfer.len) > self.end
    }

    /// Places an access, and moves the pointer behind it.
    pub fn place(&mut self, transfer: Transfer) -> Result<AccessRange, OutOfRange> {
        let offset = if transfer.is_append { self.end } else { self.offset };
        let len = if transfer.is_write {
            transfer.len
        } else {
            transfer.len.min(self.end.saturating_sub(offset))
        };
        let after = offset.checked_add(len).filter(|after| *after <= OFFSET_LIMIT);
        let after = after.ok_or(OutOfRange)?;
        self.offset = after;
        if transfer.is_write && len > 0 {
            self.end = self.end.max(after);
        }
        Ok(AccessRange { offset, len })
    }

    /// Returns the offset that a seek leads to.
    pub fn target(&self, seek: Seek) -> Result<u64, OutOfRange> {
        let target = match seek {
            Seek::Start(offset) => Some(offset),
            Seek::Current(distance) => self.offset.checked_add_signed(distance),
            Seek::End(distance) => self.end.checked_add_signed(distance),
        };
        target.filter(|target| *target <= OFFSET_LIMIT).ok_or(OutOfRange)
    }

    /// Takes a measured length into account.
    pub fn measured(&mut self, len: u64) {
        self.end = self.end.max(len);
    }
}

/// The pointer of a rank in a file of interleaved records: the offset at which the next records of
/// all ranks begin. Its end is the rank's own, at which *its* next record would be appended,
/// however far the other ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleaved {
    /// The offset at which the next records of all ranks begin.
    pub base: u64,
    /// The offset at which the next appended records of all ranks begin.
    pub end: u64,
    rank: u32,
    size: u32,
}

impl Interleaved {
    /// The pointer of a rank in a file that ends at `end`.
    pub fn new(base: u64, end: u64, rank: u32, size: u32) -> Self {
        Self { base, end, rank, size }
    }

    /// The end of the records of all ranks, if each makes this access.
    pub fn end_of_all(&self, transfer: Transfer) -> u64 {
        let base = if transfer.is_append { self.end } else { self.base };
        base.saturating_add(transfer.len.saturating_mul(u64::from(self.size)))
    }

    /// Places an access, and moves the pointer behind the records of all ranks. Reads end at
    /// `file_end`, the current end of the file: if the records of one rank reach beyond it, the
    /// pointers of all ranks are there, so that the next records follow without a hole.
    pub fn place(&mut self, transfer: Transfer, file_end: u64) -> Result<AccessRange, OutOfRange> {
        let base = if transfer.is_append { self.end } else { self.base };
        let all = transfer.len.checked_mul(u64::from(self.size)).ok_or(OutOfRange)?;
        let after = base.checked_add(all).filter(|after| *after <= OFFSET_LIMIT);
        let after = after.ok_or(OutOfRange)?;
        let offset = base + transfer.len * u64::from(self.rank);
        if transfer.is_write {
            self.base = after;
            self.end = self.end.max(after);
            return Ok(AccessRange { offset, len: transfer.len });
        }
        let len = transfer.len.min(file_end.saturating_sub(offset));
        self.base = after.min(file_end.max(base));
        Ok(AccessRange { offset, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_follow_each_other_and_reads_end_where_the_file_ends() {
        let mut position = Position { offset: 0, end: 10 };
        assert!(!position.needs_size_for(Transfer::read(10)));
        assert_eq!(position.place(Transfer::read(4)), Ok(AccessRange { offset: 0, len: 4 }));
        assert!(position.needs_size_for(Transfer::read(7)));
        assert_eq!(position.place(Transfer::read(7)), Ok(AccessRange { offset: 4, len: 6 }));
        assert_eq!(position.place(Transfer::read(7)), Ok(AccessRange { offset: 10, len: 0 }));
        assert_eq!(position.place(Transfer::write(5)), Ok(AccessRange { offset: 10, len: 5 }));
        assert_eq!(position, Position { offset: 15, end: 15 });
        position.offset = 3;
        assert_eq!(position.place(Transfer::append(2)), Ok(AccessRange { offset: 15, len: 2 }));
        assert_eq!(position, Position { offset: 17, end: 17 });
        position.measured(40);
        assert_eq!(position.target(Seek::End(-1)), Ok(39));
        position.measured(20);
        assert_eq!(position.target(Seek::End(0)), Ok(40), "what is being written counts");
        assert_eq!(position.target(Seek::Current(-17)), Ok(0));
        assert_eq!(position.target(Seek::Current(-18)), Err(OutOfRange));
    }

    #[test]
    fn what_is_refused_moves_nothing() {
        let before = Position { offset: OFFSET_LIMIT - 1, end: 5 };
        let mut position = before;
        assert_eq!(position.place(Transfer::write(2)), Err(OutOfRange));
        assert_eq!(position.place(Transfer::write(u64::MAX)), Err(OutOfRange));
        assert_eq!(position, before);
        assert_eq!(
            position.place(Transfer::read(u64::MAX)),
            Ok(AccessRange { offset: before.offset, len: 0 })
        );
        let before = Interleaved::new(8, 8, 3, 4);
        let mut records = before;
        assert_eq!(records.place(Transfer::write(u64::MAX / 2), 0), Err(OutOfRange));
        assert_eq!(records, before);
    }

    /// Ranks may be far ahead of each other; each record lies where it would if they were not.
    #[test]
    fn records_are_interleaved_in_any_order_of_calls() {
        let mut ranks: Vec<_> = (0..3).map(|rank| Interleaved::new(0, 100, rank, 3)).collect();
        let places = |rank: &mut Interleaved| -> Vec<u64> {
            (0..3).map(|_| rank.place(Transfer::write(10), 0).unwrap().offset).collect()
        };
        assert_eq!(places(&mut ranks[2]), [20, 50, 80]);
        assert_eq!(places(&mut ranks[0]), [0, 30, 60]);
        assert_eq!(ranks[0].place(Transfer::append(10), 0).unwrap().offset, 100);
        assert_eq!(ranks[0].place(Transfer::append(10), 0).unwrap().offset, 130);
        assert_eq!(ranks[1].place(Transfer::append(10), 0).unwrap().offset, 110);
        assert_eq!(places(&mut ranks[1]), [140, 170, 200]);
        let mut reader = Interleaved::new(0, 0, 1, 3);
        assert_eq!(reader.place(Transfer::read(10), 15), Ok(AccessRange { offset: 10, len: 5 }));
        assert_eq!(reader.base, 15, "a read past the end leaves the pointer at the end");
        assert_eq!(reader.place(Transfer::read(10), 15), Ok(AccessRange { offset: 25, len: 0 }));
        assert_eq!(reader.place(Transfer::write(4), 0), Ok(AccessRange { offset: 19, len: 4 }));
        assert_eq!(reader.base, 27);
        assert_eq!(reader.place(Transfer::read(1), 20), Ok(AccessRange { offset: 28, len: 0 }));
        assert_eq!(reader.base, 27, "a pointer beyond the end stays");
    }
}
