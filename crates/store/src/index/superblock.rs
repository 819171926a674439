//! The superblock: the checkpoint that the index file holds.
//!
//! There are two, in pages 0 and 1. Checkpoint `g` writes page `g mod 2`, so that the superblock of
//! the checkpoint before survives a torn write.

use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::page::{PAGE_BYTES, PageLink};
use crate::checksum::checksum;

pub(crate) const INDEX_VERSION: u16 = 1;
const MAGIC: [u8; 8] = *b"PARIOIDX";
const CHECKED_FROM: usize = 16;
/// A bound of all numbers, so that arithmetic on them stays within 64 bits.
const MAX_NUMBER: u64 = 1 << 50;

/// The content of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Number of the checkpoint.
    pub(crate) generation: u64,
    /// The parallel file and the number of the subfile, as in its description.
    pub(crate) file: u128,
    pub(crate) subfile_index: u32,
    /// Roots and heights: extents, free runs by position, free runs by size.
    pub(crate) trees: [(PageLink, u8); 3],
    /// The list of free pages.
    pub(crate) free_list: PageLink,
    /// One past the last page of the index file.
    pub(crate) page_end: u64,
    /// One past the last granule in use in the data file.
    pub(crate) data_end: u64,
    /// The number of extents.
    pub(crate) extents: u64,
    /// The sum of their header and body lengths.
    pub(crate) live_bytes: u64,
    /// The version of the next extent.
    pub(crate) next_version: u64,
    /// The journal segment that starts after this checkpoint.
    pub(crate) journal_segment: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
struct RawTree {
    page: U64,
    generation: U64,
    height: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawSuperblock {
    magic: [u8; 8],
    checksum: U64,
    version: U16,
    reserved: [u8; 2],
    subfile_index: U32,
    file: U128,
    generation: U64,
    trees: [RawTree; 3],
    free_list_page: U64,
    free_list_generation: U64,
    page_end: U64,
    data_end: U64,
    extents: U64,
    live_bytes: U64,
    next_version: U64,
    journal_segment: U64,
}

/// Why recovery cannot use a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadSuperblock {
    Damaged,
    Newer(u16),
}

impl Superblock {
    /// The position of this checkpoint's superblock in the index file.
    pub(crate) fn position(&self) -> u64 {
        (self.generation % 2) * PAGE_BYTES as u64
    }

    pub(crate) fn encode(&self) -> Box<[u8; PAGE_BYTES]> {
        let mut raw = RawSuperblock::new_zeroed();
        raw.magic = MAGIC;
        raw.version = U16::new(INDEX_VERSION);
        raw.subfile_index = U32::new(self.subfile_index);
        raw.file = U128::new(self.file);
        raw.generation = U64::new(self.generation);
        raw.trees = self.trees.map(|(link, height)| RawTree {
            page: U64::new(link.page),
            generation: U64::new(link.generation),
            height: U64::new(u64::from(height)),
        });
        raw.free_list_page = U64::new(self.free_list.page);
        raw.free_list_generation = U64::new(self.free_list.generation);
        raw.page_end = U64::new(self.page_end);
        raw.data_end = U64::new(self.data_end);
        raw.extents = U64::new(self.extents);
        raw.live_bytes = U64::new(self.live_bytes);
        raw.next_version = U64::new(self.next_version);
        raw.journal_segment = U64::new(self.journal_segment);
        let mut block = Box::new([0; PAGE_BYTES]);
        block[..size_of::<RawSuperblock>()].copy_from_slice(raw.as_bytes());
        let sum = checksum(&[&block[CHECKED_FROM..]]);
        block[8..16].copy_from_slice(&sum.to_le_bytes());
        block
    }

    pub(crate) fn decode(block: &[u8; PAGE_BYTES]) -> Result<Self, BadSuperblock> {
        let (raw, _) =
            RawSuperblock::ref_from_prefix(&block[..]).map_err(|_| BadSuperblock::Damaged)?;
        if raw.magic != MAGIC {
            return Err(BadSuperblock::Damaged);
        }
        if raw.version.get() > INDEX_VERSION {
            return Err(BadSuperblock::Newer(raw.version.get()));
        }
        if checksum(&[&block[CHECKED_FROM..]]) != raw.checksum.get() {
            return Err(BadSuperblock::Damaged);
        }
        let tree = |raw: RawTree| {
            let link = PageLink { page: raw.page.get(), generation: raw.generation.get() };
            let height = u8::try_from(raw.height.get()).map_err(|_| BadSuperblock::Damaged)?;
            Ok((link, height))
        };
        // The store never writes larger numbers; refusing them keeps all arithmetic safe.
        let possible = [
            raw.generation,
            raw.page_end,
            raw.extents,
            raw.live_bytes,
            raw.next_version,
            raw.journal_segment,
        ];
        if possible.iter().any(|number| number.get() > MAX_NUMBER) {
            return Err(BadSuperblock::Damaged);
        }
        Ok(Self {
            generation: raw.generation.get(),
            file: raw.file.get(),
            subfile_index: raw.subfile_index.get(),
            trees: [tree(raw.trees[0])?, tree(raw.trees[1])?, tree(raw.trees[2])?],
            free_list: PageLink {
                page: raw.free_list_page.get(),
                generation: raw.free_list_generation.get(),
            },
            page_end: raw.page_end.get(),
            data_end: raw.data_end.get(),
            extents: raw.extents.get(),
            live_bytes: raw.live_bytes.get(),
            next_version: raw.next_version.get(),
            journal_segment: raw.journal_segment.get(),
        })
    }
}
