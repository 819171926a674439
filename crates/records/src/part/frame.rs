//! The frames of the log: each is one change of the map, or the whole map, with a checksum.

use super::checksum;
use super::superblock::PartIdentity;

/// The first bytes of every frame.
const MAGIC: [u8; 4] = *b"RMAP";
/// Bytes of a frame before its entries.
pub const HEAD_BYTES: usize = 32;
/// Frames begin at multiples of this in the log.
pub const FRAME_ALIGN: usize = 64;
/// The longest path that a part stores.
pub const PATH_LIMIT: usize = 4096;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFrameKind {
    /// The whole map as of a change: always the first frame of a log, and only that.
    Whole,
    /// One change.
    Change,
}

/// The block of a record in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordBlock {
    /// Whether the blocks of the record are even.
    pub is_regular: bool,
    /// The length of the whole record.
    pub total: u64,
    /// The offset of the block in the record.
    pub start: u64,
    /// The length of the block.
    pub len: u64,
    /// The offset of the block in the part; 0 for an empty block.
    pub offset: u64,
}

/// An entry of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapEntry {
    /// A record exists, with this block in the part.
    Record(u64, RecordBlock),
    /// A record was removed.
    Removed(u64),
    /// The next record gets this number or a larger one.
    NextRecord(u64),
    /// The last known path of a part.
    LastPath(u32, Vec<u8>),
}

/// A whole frame.
#[derive(Debug)]
pub struct LogFrame<'a> {
    /// The number of the change; for a whole map, of the last change in it.
    pub change: u64,
    pub kind: LogFrameKind,
    /// The number of entries, as stored.
    pub count: u32,
    /// The encoded entries.
    body: &'a [u8],
}

/// Encodes a frame, with zeros up to the beginning of the next one. `None` if it has 2^32 entries or
/// entry bytes, or more.
pub fn encode(
    identity: &PartIdentity,
    log_number: u64,
    change: u64,
    kind: LogFrameKind,
    entries: &[MapEntry],
) -> Option<Vec<u8>> {
    let mut bytes = vec![0; HEAD_BYTES];
    entries.iter().for_each(|entry| entry.encode(&mut bytes));
    let body = u32::try_from(bytes.len() - HEAD_BYTES).ok()?;
    let count = u32::try_from(entries.len()).ok()?;
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..8].copy_from_slice(&body.to_le_bytes());
    bytes[16..24].copy_from_slice(&change.to_le_bytes());
    bytes[24..28].copy_from_slice(&count.to_le_bytes());
    let kind: u32 = if kind == LogFrameKind::Whole { 1 } else { 2 };
    bytes[28..32].copy_from_slice(&kind.to_le_bytes());
    let sum = sum_of(identity, log_number, &bytes);
    bytes[8..16].copy_from_slice(&sum.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(FRAME_ALIGN), 0);
    Some(bytes)
}

/// Decodes the frame at the beginning of some bytes; returns it with its length, padding included.
pub fn decode<'a>(
    identity: &PartIdentity,
    log_number: u64,
    bytes: &'a [u8],
) -> Option<(LogFrame<'a>, usize)> {
    let head = bytes.first_chunk::<HEAD_BYTES>()?;
    if head[..4] != MAGIC {
        return None;
    }
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let end = HEAD_BYTES.checked_add(usize::try_from(word(4)).ok()?)?;
    let whole = bytes.get(..end)?;
    let sum = u64::from(word(8)) | u64::from(word(12)) << 32;
    if sum != sum_of(identity, log_number, whole) {
        return None;
    }
    let kind = match word(28) {
        1 => LogFrameKind::Whole,
        2 => LogFrameKind::Change,
        _ => return None,
    };
    let change = u64::from(word(16)) | u64::from(word(20)) << 32;
    let frame = LogFrame { change, kind, count: word(24), body: &whole[HEAD_BYTES..] };
    Some((frame, end.checked_next_multiple_of(FRAME_ALIGN)?))
}

/// Computes the checksum of a frame. It also covers the file, the part and the number of the log, so
/// that remains of an older log or bytes copied from elsewhere are not taken for a frame.
fn sum_of(identity: &PartIdentity, log_number: u64, frame: &[u8]) -> u64 {
    let number = identity.number.to_le_bytes();
    let log_number = log_number.to_le_bytes();
    checksum(&[&identity.file, &number, &log_number, &frame[4..8], &frame[16..]])
}

impl LogFrame<'_> {
    /// Decodes the entries; `None` if they are invalid.
    pub fn entries(&self) -> Option<Vec<MapEntry>> {
        let mut entries = Vec::new();
        let mut rest = self.body;
        while !rest.is_empty() {
            let (entry, later) = MapEntry::decode(rest)?;
            entries.push(entry);
            rest = later;
        }
        (entries.len() == self.count as usize).then_some(entries)
    }
}

const RECORD: u8 = 1;
const REMOVED: u8 = 2;
const NEXT_RECORD: u8 = 3;
const LAST_PATH: u8 = 4;

impl MapEntry {
    /// Appends the encoded entry to a frame.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Record(record, block) => {
                let kind = if block.is_regular { 1 } else { 2 };
                bytes.extend_from_slice(&[RECORD, kind, 0, 0, 0, 0, 0, 0]);
                for number in [*record, block.total, block.start, block.len, block.offset] {
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
            }
            Self::Removed(record) => {
                bytes.extend_from_slice(&[REMOVED, 0, 0, 0, 0, 0, 0, 0]);
                bytes.extend_from_slice(&record.to_le_bytes());
            }
            Self::NextRecord(record) => {
                bytes.extend_from_slice(&[NEXT_RECORD, 0, 0, 0, 0, 0, 0, 0]);
                bytes.extend_from_slice(&record.to_le_bytes());
            }
            Self::LastPath(part, path) => {
                let path = &path[..path.len().min(PATH_LIMIT)];
                // At most `PATH_LIMIT`, which fits into two bytes.
                let len = u16::try_from(path.len()).unwrap_or(0).to_le_bytes();
                bytes.extend_from_slice(&[LAST_PATH, 0, len[0], len[1]]);
                bytes.extend_from_slice(&part.to_le_bytes());
                bytes.extend_from_slice(path);
                bytes.resize(bytes.len().next_multiple_of(8), 0);
            }
        }
    }

    /// Decodes the entry at the beginning of some bytes; returns it with the bytes that follow.
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let head = bytes.first_chunk::<8>()?;
        let number = |at: usize| {
            let eight = bytes.get(at..at + 8)?.first_chunk::<8>()?;
            Some(u64::from_le_bytes(*eight))
        };
        let (entry, len) = match head[0] {
            RECORD => {
                let is_regular = match head[1] {
                    1 => true,
                    2 => false,
                    _ => return None,
                };
                let (total, start) = (number(16)?, number(24)?);
                let block =
                    RecordBlock { is_regular, total, start, len: number(32)?, offset: number(40)? };
                (Self::Record(number(8)?, block), 48)
            }
            REMOVED => (Self::Removed(number(8)?), 16),
            NEXT_RECORD => (Self::NextRecord(number(8)?), 16),
            LAST_PATH => {
                let len = usize::from(u16::from_le_bytes([head[2], head[3]]));
                if len > PATH_LIMIT {
                    return None;
                }
                let part = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
                let path = bytes.get(8..8 + len)?.to_vec();
                (Self::LastPath(part, path), (8 + len).next_multiple_of(8))
            }
            _ => return None,
        };
        Some((entry, bytes.get(len..)?))
    }
}
