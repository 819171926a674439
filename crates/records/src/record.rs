//! Records: their numbers, their blocks in the parts, and the pieces of an access.

use std::fmt;
use std::ops::Range;

use super::error::RecordError;

/// The number of a record. It is valid as long as the file exists; no other record of the file ever
/// gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(u64);

impl RecordId {
    /// The id of the record with this number, which a program may have stored.
    pub fn of_number(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}", self.0)
    }
}

/// The length and distribution of a new record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewRecord {
    /// A length in bytes, in even blocks: they differ by one byte at most.
    Regular(u64),
    /// The length of the block in each part, in the order of parts. A block may be empty; those of
    /// parts without a length are.
    Irregular(Vec<u64>),
}

/// The number, length and kind of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordInfo {
    /// The number of the record.
    pub id: RecordId,
    /// Its length in bytes.
    pub len: u64,
    /// Whether its blocks are even.
    pub is_regular: bool,
}

/// The bytes of a record that one part of the file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLocation {
    /// The part of the file.
    pub part: u32,
    /// The rank that has this part now.
    pub rank: u32,
    /// The offset of the block in the record.
    pub start: u64,
    /// The length of the block, possibly 0.
    pub len: u64,
}

/// A record with the location of all its blocks.
#[derive(Debug)]
pub struct Record {
    pub info: RecordInfo,
    /// The offset of each part's block in the record; at the end, the length of the record.
    starts: Vec<u64>,
    /// The offset of each part's block in the part.
    offsets: Vec<u64>,
}

/// The bytes of an access that lie in one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartPiece {
    /// The number of the part.
    pub part: usize,
    /// The offset in the part.
    pub at: u64,
    /// The offset in the access.
    pub here: usize,
    pub len: usize,
}

/// Computes the length of the block in each part for a new record.
pub fn sizes_of(new: &NewRecord, parts: u32) -> Result<Vec<u64>, RecordError> {
    match new {
        NewRecord::Regular(total) => {
            let border = |part: u32| u128::from(*total) * u128::from(part) / u128::from(parts);
            let size = |part: u32| u64::try_from(border(part + 1) - border(part)).unwrap_or(*total);
            Ok((0..parts).map(size).collect())
        }
        NewRecord::Irregular(sizes) if sizes.len() <= parts as usize => {
            let total = sizes.iter().try_fold(0_u64, |sum, size| sum.checked_add(*size));
            if total.is_none() {
                return Err(RecordError::Invalid(
                    "the blocks of the irregular record have more than 2^64 bytes together; give \
                     smaller sizes"
                        .to_owned(),
                ));
            }
            let mut sizes = sizes.clone();
            sizes.resize(parts as usize, 0);
            Ok(sizes)
        }
        NewRecord::Irregular(sizes) => Err(RecordError::Invalid(format!(
            "the irregular record has {} block sizes, but the record file has {parts} parts; give at \
             most one size for each part",
            sizes.len()
        ))),
    }
}

impl Record {
    /// Describes a record by the sizes of its blocks and their offsets in the parts.
    pub fn new(id: RecordId, is_regular: bool, sizes: &[u64], offsets: Vec<u64>) -> Self {
        let mut starts = vec![0];
        let mut end = 0;
        for size in sizes {
            end += size;
            starts.push(end);
        }
        Self { info: RecordInfo { id, len: end, is_regular }, starts, offsets }
    }

    /// The block of a part: its offset in the record, its length, and its offset in the part.
    pub fn block(&self, part: usize) -> (u64, u64, u64) {
        let start = self.starts[part];
        (start, self.starts[part + 1] - start, self.offsets[part])
    }

    /// The number of parts.
    pub fn parts(&self) -> usize {
        self.offsets.len()
    }

    /// The part that holds a byte of the record.
    pub fn part_of(&self, position: u64) -> usize {
        // Of several blocks that begin at the same offset, all but the last are empty.
        self.starts.partition_point(|start| *start <= position).saturating_sub(1)
    }

    /// Checks that a range lies in the record; returns its first byte and its length.
    pub fn check(&self, range: &Range<u64>) -> Result<(u64, usize), RecordError> {
        let Range { start, end } = *range;
        let RecordInfo { id, len, .. } = &self.info;
        // An empty range is valid at any offset.
        if start == end {
            return Ok((start, 0));
        }
        let count = end.checked_sub(start).filter(|_| end <= *len);
        let count = count.and_then(|count| usize::try_from(count).ok());
        let Some(count) = count.filter(|count| isize::try_from(*count).is_ok()) else {
            return Err(RecordError::Invalid(format!(
                "bytes {start} to {} are not in {id}, which has {len} bytes from byte 0 on; give a \
                 range inside it",
                end.saturating_sub(1)
            )));
        };
        Ok((start, count))
    }

    /// Checks that the record has a byte.
    pub fn check_byte(&self, position: u64) -> Result<(), RecordError> {
        let RecordInfo { id, len, .. } = &self.info;
        if position < *len {
            return Ok(());
        }
        Err(RecordError::Invalid(format!(
            "byte {position} is not in {id}, which has {len} bytes from byte 0 on"
        )))
    }

    /// Cuts an access into pieces, one for each part that holds bytes of it.
    pub fn pieces(&self, lo: u64, count: usize) -> Vec<PartPiece> {
        let end = lo + count as u64;
        let mut pieces = Vec::new();
        let mut at = lo;
        let mut part = if count == 0 { self.parts() } else { self.part_of(lo) };
        while at < end && part < self.parts() {
            let until = self.starts[part + 1].min(end);
            if until > at {
                #[expect(clippy::cast_possible_truncation, reason = "both are at most `count`")]
                let (here, len) = ((at - lo) as usize, (until - at) as usize);
                let at_part = self.offsets[part] + (at - self.starts[part]);
                pieces.push(PartPiece { part, at: at_part, here, len });
                at = until;
            }
            part += 1;
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sizes: &[u64]) -> Record {
        let offsets = (0..sizes.len() as u64).map(|part| (part + 1) << 20).collect();
        Record::new(RecordId(7), false, sizes, offsets)
    }

    #[test]
    fn regular_records_are_cut_evenly() {
        assert_eq!(sizes_of(&NewRecord::Regular(1000), 4).unwrap(), [250; 4]);
        assert_eq!(sizes_of(&NewRecord::Regular(10), 4).unwrap(), [2, 3, 2, 3]);
        assert_eq!(sizes_of(&NewRecord::Regular(1), 3).unwrap().iter().sum::<u64>(), 1);
        let huge = sizes_of(&NewRecord::Regular(u64::MAX), 4096).unwrap();
        assert_eq!(huge.iter().sum::<u64>(), u64::MAX);
        assert_eq!(sizes_of(&NewRecord::Irregular(vec![1; 3]), 4).unwrap(), [1, 1, 1, 0]);
        assert_eq!(sizes_of(&NewRecord::Irregular(Vec::new()), 2).unwrap(), [0, 0]);
        assert!(sizes_of(&NewRecord::Irregular(vec![1; 5]), 4).is_err());
        assert!(sizes_of(&NewRecord::Irregular(vec![u64::MAX, 1]), 2).is_err());
    }

    #[test]
    fn every_byte_is_in_one_piece() {
        let sizes = [0, 5, 0, 0, 3, 1, 0, 8, 0];
        let record = record(&sizes);
        let place = |position: u64| {
            let part = record.part_of(position);
            let (start, len, offset) = record.block(part);
            assert!(start <= position && position < start + len);
            (part, offset + position - start)
        };
        for lo in 0..17 {
            for count in 0..=(17 - lo) {
                let pieces = record.pieces(lo, usize::try_from(count).unwrap());
                let bytes: Vec<(usize, u64)> = pieces
                    .iter()
                    .flat_map(|piece| {
                        (0..piece.len as u64).map(|byte| (piece.part, piece.at + byte))
                    })
                    .collect();
                assert_eq!(bytes, (lo..lo + count).map(place).collect::<Vec<_>>());
                let places = pieces.iter().map(|piece| piece.here);
                assert!(places.is_sorted());
            }
        }
    }

    #[test]
    fn ranges_are_inside_or_refused() {
        let record = record(&[4, 6]);
        assert_eq!(record.check(&(0..10)).unwrap(), (0, 10));
        assert_eq!(record.check(&(9..10)).unwrap(), (9, 1));
        #[expect(clippy::reversed_empty_ranges, reason = "an empty range and an invalid one")]
        let (empty, reversed) = (5..5, 5..4);
        assert_eq!(record.check(&empty).unwrap(), (5, 0));
        for wrong in [reversed, 0..11, 10..11, u64::MAX - 1..u64::MAX, 0..u64::MAX] {
            let text = record.check(&wrong).unwrap_err().to_string();
            assert!(text.contains("are not in record 7, which has 10 bytes"), "{text}");
        }
        record.check_byte(9).unwrap();
        for wrong in [10, u64::MAX] {
            let text = record.check_byte(wrong).unwrap_err().to_string();
            assert!(text.contains("is not in record 7, which has 10 bytes"), "{text}");
        }
    }
}
