//! The superblock, in the first two pages of a part: the identity of the part, and the location of
//! its log. The two copies are written one after the other, so that one of them is always whole.

use super::checksum;

/// The first bytes of every part.
pub const MAGIC: [u8; 8] = *b"PARIOREC";
/// The version of the format.
pub const VERSION: u16 = 1;
/// The used bytes of a superblock.
pub const SUPERBLOCK_BYTES: usize = 96;
/// The offsets of the two superblocks.
pub const SUPERBLOCKS: [u64; 2] = [0, 4096];
/// The first offset for the log and for blocks.
pub const FIRST_SPACE: u64 = 8192;
/// The log and the blocks of records begin at multiples of this.
pub const PAGE: u64 = 4096;
/// The largest number of parts of a file: that of the processes of a team.
pub const PARTS_LIMIT: u32 = 4096;

/// The record file of a part, and its number there. It never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartIdentity {
    /// The random id of the record file, the same in all its parts.
    pub file: [u8; 16],
    /// The number of this part.
    pub number: u32,
    /// The number of parts.
    pub parts: u32,
    /// The time of the file's creation, in seconds since 1970.
    pub created: u64,
}

/// The content of the first two pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartSuperblock {
    pub identity: PartIdentity,
    /// The number of times the superblock was written. Of two valid copies the larger one counts.
    pub generation: u64,
    /// The offset of the log.
    pub log_start: u64,
    /// The length that the log may reach.
    pub log_len: u64,
    /// The number of the log among all logs that this part has had.
    pub log_number: u64,
    /// A change that is durable in all parts: a log that ends before it is damaged.
    pub mark: u64,
}

/// The reason why bytes are not a valid superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuperblockError {
    /// The magic number is missing: the file is not a part.
    Foreign,
    /// The checksum is wrong, or a field has an impossible value.
    Damaged,
    /// A newer program has written this version.
    Newer(u16),
}

impl PartSuperblock {
    /// Encodes the superblock.
    pub fn to_bytes(self) -> [u8; SUPERBLOCK_BYTES] {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        let Self { identity, generation, log_start, log_len, log_number, mark } = self;
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[16..18].copy_from_slice(&VERSION.to_le_bytes());
        bytes[24..28].copy_from_slice(&identity.number.to_le_bytes());
        bytes[28..32].copy_from_slice(&identity.parts.to_le_bytes());
        bytes[32..48].copy_from_slice(&identity.file);
        let numbers = [identity.created, generation, log_start, log_len, log_number, mark];
        for (place, number) in bytes[48..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(&[&bytes[16..]]);
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes and checks a superblock.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, SuperblockError> {
        let Some(bytes) = bytes.first_chunk::<SUPERBLOCK_BYTES>() else {
            return Err(SuperblockError::Foreign);
        };
        if bytes[..8] != MAGIC {
            return Err(SuperblockError::Foreign);
        }
        if number(bytes, 8) != checksum(&[&bytes[16..]]) {
            return Err(SuperblockError::Damaged);
        }
        let version = u16::from_le_bytes([bytes[16], bytes[17]]);
        if version != VERSION {
            return Err(SuperblockError::Newer(version));
        }
        let mut file = [0; 16];
        file.copy_from_slice(&bytes[32..48]);
        let halves = number(bytes, 24).to_le_bytes();
        let half = |at: usize| {
            u32::from_le_bytes([halves[at], halves[at + 1], halves[at + 2], halves[at + 3]])
        };
        let identity =
            PartIdentity { file, number: half(0), parts: half(4), created: number(bytes, 48) };
        let superblock = Self {
            identity,
            generation: number(bytes, 56),
            log_start: number(bytes, 64),
            log_len: number(bytes, 72),
            log_number: number(bytes, 80),
            mark: number(bytes, 88),
        };
        let is_possible = identity.number < identity.parts
            && identity.parts <= PARTS_LIMIT
            && superblock.log_start >= FIRST_SPACE
            && superblock.log_start.is_multiple_of(PAGE)
            && superblock.log_start.checked_add(superblock.log_len).is_some();
        if is_possible { Ok(superblock) } else { Err(SuperblockError::Damaged) }
    }

    /// Chooses the valid copy with the larger generation.
    pub fn newest(
        one: Result<Self, SuperblockError>,
        other: Result<Self, SuperblockError>,
    ) -> Result<Self, SuperblockError> {
        match (one, other) {
            (Ok(one), Ok(other)) if other.generation > one.generation => Ok(other),
            (Ok(one), _) => Ok(one),
            (_, Ok(other)) => Ok(other),
            // Of two errors, the one that says most about the file.
            (Err(SuperblockError::Newer(version)), _)
            | (_, Err(SuperblockError::Newer(version))) => Err(SuperblockError::Newer(version)),
            (Err(SuperblockError::Damaged), _) | (_, Err(SuperblockError::Damaged)) => {
                Err(SuperblockError::Damaged)
            }
            _ => Err(SuperblockError::Foreign),
        }
    }
}

/// Reads eight bytes as a number.
fn number(bytes: &[u8; SUPERBLOCK_BYTES], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}
