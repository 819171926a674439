//! The journal: every change of an extent subfile since its checkpoint.
//!
//! A journal is a chain of segment files `journal.N`. A segment starts with a head; records of 64
//! bytes with consecutive sequence numbers follow. The store writes a record to the kernel before it
//! acknowledges the change, so that the change survives the death of the process.
//!
//! After a power loss a segment may have holes: records that no sync made durable. Recovery reads up
//! to the first hole. A [`JournalRecord::Synced`] behind a hole, however, proves that the missing
//! records had been durable: the journal is damaged.

use std::io;
use std::sync::Arc;

use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::block::{ExtentEntry, GranuleRun};
use crate::checksum::checksum;
use crate::medium::MediumFile;
use crate::subfile::SubfileId;

pub(crate) const JOURNAL_VERSION: u16 = 1;
const MAGIC: [u8; 8] = *b"PARIOJNL";
const RECORD_BYTES: usize = size_of::<RawRecord>();
const NO_POSITION: u64 = u64::MAX;
/// A bound of sequence numbers that no subfile reaches.
const MAX_SEQUENCE: u64 = 1 << 60;
/// The step in which a segment reserves space ahead, so that a full disk still takes the records of
/// a few hundred deletions.
const STEP_BYTES: u64 = 64 << 10;

/// A record of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalRecord {
    /// A write or compaction has put an extent at a position.
    Put { index: u64, entry: ExtentEntry, old: Option<PreviousBlock> },
    /// A caller has deleted an extent.
    Delete { index: u64, old: PreviousBlock },
    /// All changes up to this sequence number are durable.
    Synced { through: u64 },
}

/// The block that an extent had before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreviousBlock {
    pub(crate) position: u64,
    pub(crate) payload_bytes: u32,
}

/// The head of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    pub(crate) number: u64,
    /// The segment that the checkpoint names after which the records start: `number` itself, or a
    /// smaller one if recovery has put the content of several segments into this one.
    pub(crate) base: u64,
    pub(crate) first_sequence: u64,
    /// The number of records that were written together with the head. A segment without all of
    /// them is not valid.
    pub(crate) whole_records: u64,
    /// Runs that are neither free nor part of an extent at the checkpoint: reserved or in limbo.
    pub(crate) held: Vec<GranuleRun>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHead {
    magic: [u8; 8],
    checksum: U64,
    version: U16,
    reserved: [u8; 2],
    subfile_index: U32,
    file: U128,
    number: U64,
    base: U64,
    first_sequence: U64,
    whole_records: U64,
    held_count: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawRecord {
    checksum: U64,
    sequence: U64,
    /// The kind in the highest byte, the extent index below.
    kind_and_index: U64,
    position: U64,
    extent_checksum: U64,
    header_len: U32,
    body_len: U32,
    old_position: U64,
    old_payload: U32,
    /// The low half of the segment's number.
    segment: U32,
}

const CHECKED_FROM_HEAD: usize = 16;
const CHECKED_FROM_RECORD: usize = 8;
const KIND_SHIFT: u32 = 56;

/// The segment to which the store appends.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn MediumFile>,
    next_sequence: u64,
    end: u64,
    reserved_end: u64,
}

impl Segment {
    /// The name of a segment's file.
    pub(crate) fn file_name(number: u64) -> String {
        format!("journal.{number}")
    }

    /// The number in the name of a segment's file.
    pub(crate) fn number_of(name: &str) -> Option<u64> {
        let number = name.strip_prefix("journal.")?.parse().ok()?;
        (Self::file_name(number) == name).then_some(number)
    }

    /// Writes head and first records into an empty file. A sync makes it durable.
    pub(crate) fn begin(
        file: Arc<dyn MediumFile>,
        subfile: SubfileId,
        head: &SegmentHead,
        records: &[JournalRecord],
    ) -> io::Result<Self> {
        let mut bytes = encode_head(subfile, head);
        let mut sequence = head.first_sequence;
        for change in records {
            bytes.extend_from_slice(encode(head.number, sequence, *change).as_bytes());
            sequence += 1;
        }
        let end = bytes.len() as u64;
        let mut segment =
            Self { number: head.number, file, next_sequence: sequence, end: 0, reserved_end: 0 };
        segment.reserve(end)?;
        segment.file.write_all_at(&bytes, 0)?;
        segment.end = end;
        Ok(segment)
    }

    /// Continues behind the last record of a segment that was read.
    pub(crate) fn resume(file: Arc<dyn MediumFile>, read: &ReadSegment) -> io::Result<Self> {
        let reserved_end = file.len()?;
        Ok(Self {
            number: read.head.number,
            file,
            next_sequence: read.end_sequence(),
            end: records_at(read.head.held.len()) + (read.records.len() * RECORD_BYTES) as u64,
            reserved_end,
        })
    }

    /// Appends a record; returns its sequence number. After a failure the next append overwrites the
    /// same bytes.
    pub(crate) fn append(&mut self, change: JournalRecord) -> io::Result<u64> {
        let sequence = self.next_sequence;
        let record = encode(self.number, sequence, change);
        let end = self.end + RECORD_BYTES as u64;
        // Half a step stays reserved for deletions, which free space.
        let ahead = if matches!(change, JournalRecord::Put { .. }) { STEP_BYTES / 2 } else { 0 };
        self.reserve(end + ahead)?;
        self.file.write_all_at(record.as_bytes(), self.end)?;
        self.end = end;
        self.next_sequence += 1;
        Ok(sequence)
    }

    /// The sequence number of the next record.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// The length in bytes, up to the last record.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.end
    }

    fn reserve(&mut self, end: u64) -> io::Result<()> {
        if end > self.reserved_end {
            let reserved_end = end.next_multiple_of(STEP_BYTES);
            self.file.allocate(self.reserved_end, reserved_end - self.reserved_end)?;
            self.reserved_end = reserved_end;
        }
        Ok(())
    }
}

/// A segment that recovery has read.
#[derive(Debug)]
pub(crate) struct ReadSegment {
    pub(crate) head: SegmentHead,
    /// The records before the first hole, from `head.first_sequence` on.
    pub(crate) records: Vec<JournalRecord>,
    /// Whether bytes other than zero follow the records.
    pub(crate) has_more: bool,
    /// The largest sequence number in a [`JournalRecord::Synced`] behind the hole.
    pub(crate) synced_behind_hole: Option<u64>,
}

/// Why recovery cannot use a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadSegment {
    /// Head or first records are damaged, or were never durable.
    NotWhole,
    Newer(u16),
}

impl ReadSegment {
    /// The sequence number behind the last record.
    pub(crate) fn end_sequence(&self) -> u64 {
        self.head.first_sequence.saturating_add(self.records.len() as u64)
    }

    pub(crate) fn decode(
        bytes: &[u8],
        subfile: SubfileId,
        number: u64,
    ) -> Result<Self, BadSegment> {
        let head = decode_head(bytes, subfile, number)?;
        let start = usize::try_from(records_at(head.held.len())).unwrap_or(usize::MAX);
        let mut slots = bytes.get(start..).unwrap_or_default().chunks_exact(RECORD_BYTES);
        let mut records = Vec::new();
        let mut has_more = false;
        for slot in slots.by_ref() {
            let sequence = head.first_sequence.wrapping_add(records.len() as u64);
            match decode(slot, number) {
                Some((found, change)) if found == sequence => records.push(change),
                _ => {
                    has_more = slot.iter().any(|&byte| byte != 0);
                    break;
                }
            }
        }
        let mut synced_behind_hole = None;
        for slot in slots {
            has_more |= slot.iter().any(|&byte| byte != 0);
            if let Some((_, JournalRecord::Synced { through })) = decode(slot, number) {
                synced_behind_hole = synced_behind_hole.max(Some(through));
            }
        }
        if (records.len() as u64) < head.whole_records {
            return Err(BadSegment::NotWhole);
        }
        Ok(Self { head, records, has_more, synced_behind_hole })
    }
}

/// The position of the first record of a segment.
fn records_at(held_count: usize) -> u64 {
    let bytes = size_of::<RawHead>() + held_count * 16;
    bytes.next_multiple_of(RECORD_BYTES) as u64
}

fn encode_head(subfile: SubfileId, head: &SegmentHead) -> Vec<u8> {
    let raw = RawHead {
        magic: MAGIC,
        checksum: U64::ZERO,
        version: U16::new(JOURNAL_VERSION),
        reserved: [0; 2],
        subfile_index: U32::new(subfile.index),
        file: U128::new(subfile.file),
        number: U64::new(head.number),
        base: U64::new(head.base),
        first_sequence: U64::new(head.first_sequence),
        whole_records: U64::new(head.whole_records),
        held_count: U64::new(head.held.len() as u64),
    };
    let mut bytes = raw.as_bytes().to_vec();
    for run in &head.held {
        bytes.extend_from_slice(&run.position.to_le_bytes());
        bytes.extend_from_slice(&run.granules.to_le_bytes());
    }
    bytes.resize(usize::try_from(records_at(head.held.len())).expect("fits into memory"), 0);
    let sum = checksum(&[&bytes[CHECKED_FROM_HEAD..]]);
    bytes[8..16].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn decode_head(bytes: &[u8], subfile: SubfileId, number: u64) -> Result<SegmentHead, BadSegment> {
    let (raw, _) = RawHead::ref_from_prefix(bytes).map_err(|_| BadSegment::NotWhole)?;
    if raw.magic != MAGIC {
        return Err(BadSegment::NotWhole);
    }
    if raw.version.get() > JOURNAL_VERSION {
        return Err(BadSegment::Newer(raw.version.get()));
    }
    let held_count = usize::try_from(raw.held_count.get()).map_err(|_| BadSegment::NotWhole)?;
    if held_count > bytes.len() / 16 {
        return Err(BadSegment::NotWhole);
    }
    let end = usize::try_from(records_at(held_count)).map_err(|_| BadSegment::NotWhole)?;
    let head = bytes.get(CHECKED_FROM_HEAD..end).ok_or(BadSegment::NotWhole)?;
    let ours = raw.file.get() == subfile.file
        && raw.subfile_index.get() == subfile.index
        && raw.number.get() == number
        && raw.first_sequence.get() <= MAX_SEQUENCE;
    if !ours || checksum(&[head]) != raw.checksum.get() {
        return Err(BadSegment::NotWhole);
    }
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let runs = &bytes[size_of::<RawHead>()..][..held_count * 16];
    let held = runs
        .chunks_exact(16)
        .map(|run| GranuleRun { position: word(&run[..8]), granules: word(&run[8..]) });
    Ok(SegmentHead {
        number,
        base: raw.base.get(),
        first_sequence: raw.first_sequence.get(),
        whole_records: raw.whole_records.get(),
        held: held.collect(),
    })
}

fn encode(segment: u64, sequence: u64, change: JournalRecord) -> RawRecord {
    let low = u32::try_from(segment & u64::from(u32::MAX)).expect("masked");
    let mut raw = RawRecord {
        checksum: U64::ZERO,
        sequence: U64::new(sequence),
        kind_and_index: U64::ZERO,
        position: U64::ZERO,
        extent_checksum: U64::ZERO,
        header_len: U32::ZERO,
        body_len: U32::ZERO,
        old_position: U64::new(NO_POSITION),
        old_payload: U32::ZERO,
        segment: U32::new(low),
    };
    let mut set_old = |old: PreviousBlock| {
        raw.old_position = U64::new(old.position);
        raw.old_payload = U32::new(old.payload_bytes);
    };
    match change {
        JournalRecord::Put { index, entry, old } => {
            old.map(&mut set_old);
            raw.kind_and_index = U64::new(1 << KIND_SHIFT | index);
            raw.position = U64::new(entry.position);
            raw.extent_checksum = U64::new(entry.checksum);
            raw.header_len = U32::new(entry.header_len);
            raw.body_len = U32::new(entry.body_len);
        }
        JournalRecord::Delete { index, old } => {
            set_old(old);
            raw.kind_and_index = U64::new(2 << KIND_SHIFT | index);
        }
        JournalRecord::Synced { through } => {
            raw.kind_and_index = U64::new(3 << KIND_SHIFT);
            raw.position = U64::new(through);
        }
    }
    raw.checksum = U64::new(checksum(&[&raw.as_bytes()[CHECKED_FROM_RECORD..]]));
    raw
}

fn decode(slot: &[u8], segment: u64) -> Option<(u64, JournalRecord)> {
    let raw = RawRecord::ref_from_bytes(slot).ok()?;
    let fits = u64::from(raw.segment.get()) == segment & u64::from(u32::MAX)
        && checksum(&[&slot[CHECKED_FROM_RECORD..]]) == raw.checksum.get();
    if !fits {
        return None;
    }
    let old_position = raw.old_position.get();
    let old = (old_position != NO_POSITION)
        .then(|| PreviousBlock { position: old_position, payload_bytes: raw.old_payload.get() });
    let kind_and_index = raw.kind_and_index.get();
    let index = kind_and_index & ((1 << KIND_SHIFT) - 1);
    let change = match kind_and_index >> KIND_SHIFT {
        1 => JournalRecord::Put {
            index,
            entry: ExtentEntry {
                position: raw.position.get(),
                header_len: raw.header_len.get(),
                body_len: raw.body_len.get(),
                checksum: raw.extent_checksum.get(),
            },
            old,
        },
        2 => JournalRecord::Delete { index, old: old? },
        3 => JournalRecord::Synced { through: raw.position.get() },
        _ => return None,
    };
    Some((raw.sequence.get(), change))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::{Medium, MediumOpenMode, MemoryMedium};

    const SUBFILE: SubfileId = SubfileId { file: 9, index: 2, role: crate::SubfileRole::Data };

    fn changes() -> Vec<JournalRecord> {
        let entry = ExtentEntry { position: 77, header_len: 3, body_len: 1000, checksum: 0xabc };
        let old = PreviousBlock { position: 5, payload_bytes: 12 };
        vec![
            JournalRecord::Put { index: 1 << 40, entry, old: None },
            JournalRecord::Put { index: 2, entry, old: Some(old) },
            JournalRecord::Synced { through: 101 },
            JournalRecord::Delete { index: 2, old },
            JournalRecord::Synced { through: 103 },
        ]
    }

    fn segment_bytes() -> Vec<u8> {
        let memory = MemoryMedium::untracked();
        let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
        let file = memory.open("journal.4", mode).unwrap();
        let held = vec![GranuleRun { position: 8, granules: 3 }];
        let head = SegmentHead { number: 4, base: 4, first_sequence: 100, whole_records: 0, held };
        let mut segment = Segment::begin(file, SUBFILE, &head, &[]).unwrap();
        for (i, change) in changes().into_iter().enumerate() {
            assert_eq!(segment.append(change).unwrap(), 100 + i as u64);
        }
        memory.bytes("journal.4").unwrap()
    }

    #[test]
    fn a_segment_is_read_back() {
        let read = ReadSegment::decode(&segment_bytes(), SUBFILE, 4).unwrap();
        assert_eq!(read.records, changes());
        assert_eq!(read.head.held, [GranuleRun { position: 8, granules: 3 }]);
        assert_eq!((read.has_more, read.synced_behind_hole), (false, None));
        assert_eq!(Segment::number_of(&Segment::file_name(17)), Some(17));
        assert_eq!(Segment::number_of("journal.017"), None);
    }

    #[test]
    fn a_flipped_bit_ends_the_records_or_spoils_the_head() {
        let bytes = segment_bytes();
        let start = usize::try_from(records_at(1)).unwrap();
        for bit in 0..(start + 5 * RECORD_BYTES) * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            match ReadSegment::decode(&damaged, SUBFILE, 4) {
                Err(_) => assert!(bit / 8 < start),
                Ok(read) => {
                    let hit = (bit / 8 - start) / RECORD_BYTES;
                    assert_eq!(read.records, changes()[..hit]);
                    assert!(read.has_more);
                    let later = changes()[hit + 1..].iter().rev().find_map(|change| match change {
                        JournalRecord::Synced { through } => Some(*through),
                        _ => None,
                    });
                    assert_eq!(read.synced_behind_hole, later);
                }
            }
        }
    }

    #[test]
    fn another_subfiles_segment_is_refused() {
        let bytes = segment_bytes();
        assert!(ReadSegment::decode(&bytes, SubfileId::data(9, 3), 4).is_err());
        assert!(ReadSegment::decode(&bytes, SUBFILE, 5).is_err());
    }
}
