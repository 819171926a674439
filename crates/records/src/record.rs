//! What a record is, which rank holds which bytes of it, and how an access is cut into pieces.

use std::fmt;
use std::ops::Range;

use super::error::RecordError;

/// The number of a record: it stays the same as long as the file exists, and no other record of the
/// file ever gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(u64);

impl RecordId {
    /// The record with a number, which was noted somewhere.
    pub fn of_number(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}", self.0)
    }
}

/// A record that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewRecord {
    /// So many bytes, cut evenly: blocks differ by one byte at most.
    Regular(u64),
    /// So many bytes in each part of the file, in the order of parts. A part may get none.
    Irregular(Vec<u64>),
}

/// What is known of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordInfo {
    /// Which record.
    pub id: RecordId,
    /// How many bytes it has.
    pub len: u64,
    /// Whether it was cut evenly.
    pub is_regular: bool,
}

/// A block of a record: the bytes that one part of the file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The part of the file.
    pub part: u32,
    /// The rank that has this part now.
    pub rank: u32,
    /// The first byte of the record that is there.
    pub start: u64,
    /// How many are there; if none, it begins where it would.
    pub len: u64,
}

/// A record, with where everything is.
#[derive(Debug)]
pub struct Record {
    pub info: RecordInfo,
    /// Where the block of each part begins in the record; at the end, how long the record is.
    starts: Vec<u64>,
    /// Where the block of each part is in the part.
    offsets: Vec<u64>,
}

/// Bytes that lie together in one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which part.
    pub part: usize,
    /// Where in the part.
    pub at: u64,
    /// Where in the access.
    pub here: usize,
    pub len: usize,
}

/// Sizes of the blocks of a new record, one for each part.
pub fn sizes_of(new: &NewRecord, parts: u32) -> Result<Vec<u64>, RecordError> {
    match new {
        NewRecord::Regular(total) => {
            let border = |part: u32| u128::from(*total) * u128::from(part) / u128::from(parts);
            let size = |part: u32| u64::try_from(border(part + 1) - border(part)).unwrap_or(*total);
            Ok((0..parts).map(size).collect())
        }
        NewRecord::Irregular(sizes) if sizes.len() == parts as usize => {
            let total = sizes.iter().try_fold(0_u64, |sum, size| sum.checked_add(*size));
            if total.is_none() {
                let text = "a record of more bytes than can be counted".to_owned();
                return Err(RecordError::Invalid(text));
            }
            Ok(sizes.clone())
        }
        NewRecord::Irregular(sizes) => Err(RecordError::Invalid(format!(
            "an irregular record of {} blocks: this file has {parts} parts, give a size for each, 0 \
             for those that get nothing",
            sizes.len()
        ))),
    }
}

impl Record {
    /// A record whose blocks have these sizes and are at these offsets.
    pub fn new(id: RecordId, is_regular: bool, sizes: &[u64], offsets: Vec<u64>) -> Self {
        let mut starts = vec![0];
        let mut end = 0;
        for size in sizes {
            end += size;
            starts.push(end);
        }
        Self { info: RecordInfo { id, len: end, is_regular }, starts, offsets }
    }

    /// Where the block of a part begins, how long it is, and where it is in the part.
    pub fn block(&self, part: usize) -> (u64, u64, u64) {
        let start = self.starts[part];
        (start, self.starts[part + 1] - start, self.offsets[part])
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        self.offsets.len()
    }

    /// The part that holds a byte of the record.
    pub fn part_of(&self, position: u64) -> usize {
        // Of parts that begin at the same place, the last one has something there.
        self.starts.partition_point(|start| *start <= position).saturating_sub(1)
    }

    /// Checks a range; where it begins, and how many bytes it has.
    pub fn check(&self, range: &Range<u64>) -> Result<(u64, usize), RecordError> {
        let Range { start, end } = *range;
        let RecordInfo { id, len, .. } = &self.info;
        // An empty range is valid anywhere.
        if start == end {
            return Ok((start, 0));
        }
        let count = end.checked_sub(start).filter(|_| end <= *len);
        let count = count.and_then(|count| usize::try_from(count).ok());
        let Some(count) = count.filter(|count| isize::try_from(*count).is_ok()) else {
            return Err(RecordError::Invalid(format!(
                "bytes {start} to {} are not in {id}, which has {len} bytes from byte 0 on",
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

    /// The pieces of an access, one for each part that holds something of it.
    pub fn pieces(&self, lo: u64, count: usize) -> Vec<Piece> {
        let end = lo + count as u64;
        let mut pieces = Vec::new();
        let mut at = lo;
        let mut part = if count == 0 { self.parts() } else { self.part_of(lo) };
        while at < end && part < self.parts() {
            let until = self.starts[part + 1].min(end);
            if until > at {
                // Both are below what was checked to fit into memory.
                #[expect(clippy::cast_possible_truncation, reason = "no more than `count`")]
                let (here, len) = ((at - lo) as usize, (until - at) as usize);
                let at_part = self.offsets[part] + (at - self.starts[part]);
                pieces.push(Piece { part, at: at_part, here, len });
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
        assert!(sizes_of(&NewRecord::Irregular(vec![1; 3]), 4).is_err());
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
        #[expect(clippy::reversed_empty_ranges, reason = "what is refused, and what is nothing")]
        let (nothing, reversed) = (5..5, 5..4);
        assert_eq!(record.check(&nothing).unwrap(), (5, 0));
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
