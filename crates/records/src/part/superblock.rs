//! The two first pages of a part: what it is a part of, and where its log is. Both say the same, and
//! are written one after the other, so that one of them is always whole.

use super::checksum;

/// The first bytes of every part.
pub const MAGIC: [u8; 8] = *b"PARIOREC";
/// The version of the format.
pub const VERSION: u16 = 1;
/// Bytes of a superblock that mean something.
pub const SUPERBLOCK_BYTES: usize = 96;
/// Where the two superblocks are.
pub const SUPERBLOCKS: [u64; 2] = [0, 4096];
/// Where everything else begins.
pub const FIRST_SPACE: u64 = 8192;
/// The log and the blocks of records begin at multiples of this.
pub const PAGE: u64 = 4096;
/// Parts that a file may have: as many as a team has processes.
pub const PARTS_LIMIT: u32 = 4096;

/// What a part is a part of. It stays the same as long as the part exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The record file: the same in all its parts, and in no other file.
    pub file: [u8; 16],
    /// Which part this is.
    pub number: u32,
    /// How many parts there are.
    pub parts: u32,
    /// When the file was made, in seconds since 1970.
    pub created: u64,
}

/// What stands in the first two pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// What this is a part of.
    pub identity: Identity,
    /// How often the superblock was written: the larger one of two counts.
    pub generation: u64,
    /// Where the log begins.
    pub log_start: u64,
    /// How long it may become.
    pub log_len: u64,
    /// Which log of this part it is.
    pub log_number: u64,
    /// A change that is in all parts, durably: a log that ends before it is damaged.
    pub mark: u64,
}

/// Why bytes are no superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSuperblock {
    /// The bytes say nothing of the kind.
    Foreign,
    /// The checksum is wrong, or what it covers is impossible.
    Damaged,
    /// It was written by a newer program.
    Newer(u16),
}

impl Superblock {
    /// How it stands on the disk.
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

    /// What stands on the disk.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, NoSuperblock> {
        let Some(bytes) = bytes.first_chunk::<SUPERBLOCK_BYTES>() else {
            return Err(NoSuperblock::Foreign);
        };
        if bytes[..8] != MAGIC {
            return Err(NoSuperblock::Foreign);
        }
        if number(bytes, 8) != checksum(&[&bytes[16..]]) {
            return Err(NoSuperblock::Damaged);
        }
        let version = u16::from_le_bytes([bytes[16], bytes[17]]);
        if version != VERSION {
            return Err(NoSuperblock::Newer(version));
        }
        let mut file = [0; 16];
        file.copy_from_slice(&bytes[32..48]);
        let halves = number(bytes, 24).to_le_bytes();
        let half = |at: usize| {
            u32::from_le_bytes([halves[at], halves[at + 1], halves[at + 2], halves[at + 3]])
        };
        let identity =
            Identity { file, number: half(0), parts: half(4), created: number(bytes, 48) };
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
        if is_possible { Ok(superblock) } else { Err(NoSuperblock::Damaged) }
    }

    /// The one of two that counts.
    pub fn newest(
        one: Result<Self, NoSuperblock>,
        other: Result<Self, NoSuperblock>,
    ) -> Result<Self, NoSuperblock> {
        match (one, other) {
            (Ok(one), Ok(other)) if other.generation > one.generation => Ok(other),
            (Ok(one), _) => Ok(one),
            (_, Ok(other)) => Ok(other),
            // What is known best: who has written it, then that somebody has.
            (Err(NoSuperblock::Newer(version)), _) | (_, Err(NoSuperblock::Newer(version))) => {
                Err(NoSuperblock::Newer(version))
            }
            (Err(NoSuperblock::Damaged), _) | (_, Err(NoSuperblock::Damaged)) => {
                Err(NoSuperblock::Damaged)
            }
            _ => Err(NoSuperblock::Foreign),
        }
    }
}

/// Eight bytes that are there, as a number.
fn number(bytes: &[u8; SUPERBLOCK_BYTES], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}
