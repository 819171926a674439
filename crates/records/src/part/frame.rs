//! Frames of the log: each is one change of the map, or all of it, with a checksum.

use super::checksum;
use super::superblock::Identity;

/// The first bytes of every frame.
const MAGIC: [u8; 4] = *b"RMAP";
/// Bytes of a frame before its entries.
pub const HEAD_BYTES: usize = 32;
/// Frames begin at multiples of this in the log.
pub const FRAME_ALIGN: usize = 64;
/// The longest path that is remembered.
pub const PATH_LIMIT: usize = 4096;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// The whole map, as it was after a change: the first frame of a log, and no other.
    Whole,
    /// One change.
    Change,
}

/// The block of a record in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Whether the record was cut evenly.
    pub is_regular: bool,
    /// How long the whole record is.
    pub total: u64,
    /// Where in the record the block begins.
    pub start: u64,
    /// How long it is.
    pub len: u64,
    /// Where in the part it is. Nothing is nowhere: 0.
    pub offset: u64,
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// There is a record.
    Record(u64, Block),
    /// There is a record no more.
    Gone(u64),
    /// The next record gets this number, or a larger one.
    Next(u64),
    /// Where a part was last.
    Place(u32, Vec<u8>),
}

/// A frame that is whole.
#[derive(Debug)]
pub struct Frame<'a> {
    /// The number of the change, or of the last one that is in the map.
    pub change: u64,
    /// What it is.
    pub kind: FrameKind,
    /// How many entries it says it has.
    pub count: u32,
    /// Its entries.
    body: &'a [u8],
}

/// The bytes of a frame, with zeros up to where the next one begins. Nothing if it has more entries
/// than can be counted.
pub fn encode(
    identity: &Identity,
    log_number: u64,
    change: u64,
    kind: FrameKind,
    entries: &[Entry],
) -> Option<Vec<u8>> {
    let mut bytes = vec![0; HEAD_BYTES];
    entries.iter().for_each(|entry| entry.encode(&mut bytes));
    let body = u32::try_from(bytes.len() - HEAD_BYTES).ok()?;
    let count = u32::try_from(entries.len()).ok()?;
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..8].copy_from_slice(&body.to_le_bytes());
    bytes[16..24].copy_from_slice(&change.to_le_bytes());
    bytes[24..28].copy_from_slice(&count.to_le_bytes());
    let kind: u32 = if kind == FrameKind::Whole { 1 } else { 2 };
    bytes[28..32].copy_from_slice(&kind.to_le_bytes());
    let sum = sum_of(identity, log_number, &bytes);
    bytes[8..16].copy_from_slice(&sum.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(FRAME_ALIGN), 0);
    Some(bytes)
}

/// The frame at the beginning of some bytes, and how many bytes it takes.
pub fn decode<'a>(
    identity: &Identity,
    log_number: u64,
    bytes: &'a [u8],
) -> Option<(Frame<'a>, usize)> {
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
        1 => FrameKind::Whole,
        2 => FrameKind::Change,
        _ => return None,
    };
    let change = u64::from(word(16)) | u64::from(word(20)) << 32;
    let frame = Frame { change, kind, count: word(24), body: &whole[HEAD_BYTES..] };
    Some((frame, end.checked_next_multiple_of(FRAME_ALIGN)?))
}

/// The checksum of a frame covers also which log of which part it is in: what an older log has left
/// there, or what was copied from elsewhere, is no frame.
fn sum_of(identity: &Identity, log_number: u64, frame: &[u8]) -> u64 {
    let number = identity.number.to_le_bytes();
    let log_number = log_number.to_le_bytes();
    checksum(&[&identity.file, &number, &log_number, &frame[4..8], &frame[16..]])
}

impl Frame<'_> {
    /// What it says; nothing if it is not what can be understood.
    pub fn entries(&self) -> Option<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut rest = self.body;
        while !rest.is_empty() {
            let (entry, later) = Entry::decode(rest)?;
            entries.push(entry);
            rest = later;
        }
        (entries.len() == self.count as usize).then_some(entries)
    }
}

const RECORD: u8 = 1;
const GONE: u8 = 2;
const NEXT: u8 = 3;
const PLACE: u8 = 4;

impl Entry {
    /// Adds how it stands in a frame.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Record(record, block) => {
                let kind = if block.is_regular { 1 } else { 2 };
                bytes.extend_from_slice(&[RECORD, kind, 0, 0, 0, 0, 0, 0]);
                for number in [*record, block.total, block.start, block.len, block.offset] {
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
            }
            Self::Gone(record) => {
                bytes.extend_from_slice(&[GONE, 0, 0, 0, 0, 0, 0, 0]);
                bytes.extend_from_slice(&record.to_le_bytes());
            }
            Self::Next(record) => {
                bytes.extend_from_slice(&[NEXT, 0, 0, 0, 0, 0, 0, 0]);
                bytes.extend_from_slice(&record.to_le_bytes());
            }
            Self::Place(part, path) => {
                let path = &path[..path.len().min(PATH_LIMIT)];
                // A path that is remembered is no longer than the limit, which two bytes hold.
                let len = u16::try_from(path.len()).unwrap_or(0).to_le_bytes();
                bytes.extend_from_slice(&[PLACE, 0, len[0], len[1]]);
                bytes.extend_from_slice(&part.to_le_bytes());
                bytes.extend_from_slice(path);
                bytes.resize(bytes.len().next_multiple_of(8), 0);
            }
        }
    }

    /// The entry at the beginning of some bytes, and what follows it.
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
                    Block { is_regular, total, start, len: number(32)?, offset: number(40)? };
                (Self::Record(number(8)?, block), 48)
            }
            GONE => (Self::Gone(number(8)?), 16),
            NEXT => (Self::Next(number(8)?), 16),
            PLACE => {
                let len = usize::from(u16::from_le_bytes([head[2], head[3]]));
                if len > PATH_LIMIT {
                    return None;
                }
                let part = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
                let path = bytes.get(8..8 + len)?.to_vec();
                (Self::Place(part, path), (8 + len).next_multiple_of(8))
            }
            _ => return None,
        };
        Some((entry, bytes.get(len..)?))
    }
}
