//! The block of an extent on the disk: a head of 64 bytes, the caller's header, the body, zeros up
//! to the next granule.
//!
//! The head names subfile, index and version of the extent, so that the index of a subfile could be
//! rebuilt from its data alone. The checksum covers head, header and body. The index holds it too,
//! so that a read detects a block that is whole but not the expected one.

use std::ops::Range;
use std::sync::Arc;

use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::buffer::{Buffer, BufferPool};
use crate::checksum::checksum;
use crate::error::StoreError;
use crate::index::TreeValue;
use crate::subfile::SubfileId;

/// Header and body of an extent together have at most this many bytes.
pub const EXTENT_LIMIT_BYTES: usize = 128 << 20;

/// The largest extent index.
pub const MAX_EXTENT_INDEX: u64 = (1 << 48) - 1;

pub(crate) const HEAD_BYTES: usize = size_of::<BlockHead>();
const MAGIC: [u8; 4] = *b"PEXT";
const CHECKSUM_AT: Range<usize> = 56..64;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct BlockHead {
    magic: [u8; 4],
    subfile_index: U32,
    file: U128,
    index: U64,
    version: U64,
    header_len: U32,
    body_len: U32,
    reserved: U64,
    checksum: U64,
}

/// The index entry of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentEntry {
    /// First granule in the data file.
    pub(crate) position: u64,
    pub(crate) header_len: u32,
    pub(crate) body_len: u32,
    pub(crate) checksum: u64,
}

impl ExtentEntry {
    pub(crate) fn to_value(self) -> TreeValue {
        let lengths = u64::from(self.header_len) | u64::from(self.body_len) << 32;
        [self.position, lengths, self.checksum]
    }

    pub(crate) fn from_value(value: TreeValue) -> Self {
        let [position, lengths, checksum] = value;
        let low = |word: u64| u32::try_from(word & u64::from(u32::MAX)).expect("masked");
        Self { position, header_len: low(lengths), body_len: low(lengths >> 32), checksum }
    }

    /// Length of header and body.
    pub(crate) fn payload_bytes(self) -> u64 {
        u64::from(self.header_len) + u64::from(self.body_len)
    }

    pub(crate) fn run(self, granule_bytes: u32) -> GranuleRun {
        GranuleRun {
            position: self.position,
            granules: granules_for(self.payload_bytes(), granule_bytes),
        }
    }
}

/// Consecutive granules of the data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GranuleRun {
    pub(crate) position: u64,
    pub(crate) granules: u64,
}

impl GranuleRun {
    pub(crate) fn end(self) -> u64 {
        self.position.saturating_add(self.granules)
    }
}

/// The granules that a payload occupies together with its head.
pub(crate) fn granules_for(payload_bytes: u64, granule_bytes: u32) -> u64 {
    (payload_bytes + HEAD_BYTES as u64).div_ceil(u64::from(granule_bytes))
}

/// Memory for an extent to write. The caller fills header and body and passes it to a write, which
/// sends it to the disk without a copy.
#[derive(Debug)]
pub struct ExtentBuffer {
    buffer: Buffer,
    header_len: u32,
    body_len: u32,
}

impl ExtentBuffer {
    /// Memory for a header and a body of these sizes, with unspecified content.
    pub fn new(pool: &BufferPool, header_len: usize, body_len: usize) -> Result<Self, StoreError> {
        let total = header_len.saturating_add(body_len);
        match (u32::try_from(header_len), u32::try_from(body_len)) {
            (Ok(header_len), Ok(body_len)) if total <= EXTENT_LIMIT_BYTES => {
                Ok(Self { buffer: pool.get(HEAD_BYTES + total), header_len, body_len })
            }
            _ => Err(StoreError::ExtentTooLarge {
                bytes: total as u64,
                limit_bytes: EXTENT_LIMIT_BYTES as u64,
            }),
        }
    }

    /// Memory that holds a copy of a header and a body.
    pub fn copy_of(pool: &BufferPool, header: &[u8], body: &[u8]) -> Result<Self, StoreError> {
        let mut new = Self::new(pool, header.len(), body.len())?;
        new.header_mut().copy_from_slice(header);
        new.body_mut().copy_from_slice(body);
        Ok(new)
    }

    /// The header, for the caller to fill.
    pub fn header_mut(&mut self) -> &mut [u8] {
        let end = HEAD_BYTES + self.header_len as usize;
        &mut self.buffer[HEAD_BYTES..end]
    }

    /// The body, for the caller to fill.
    pub fn body_mut(&mut self) -> &mut [u8] {
        let start = HEAD_BYTES + self.header_len as usize;
        let end = start + self.body_len as usize;
        &mut self.buffer[start..end]
    }

    /// The bytes of header and body.
    pub fn payload_bytes(&self) -> u64 {
        u64::from(self.header_len) + u64::from(self.body_len)
    }

    /// Writes the head and clears the padding; returns the entry for the index.
    pub(crate) fn seal(
        &mut self,
        subfile: SubfileId,
        index: u64,
        version: u64,
        position: u64,
        disk_bytes: usize,
    ) -> ExtentEntry {
        let head = BlockHead {
            magic: MAGIC,
            subfile_index: U32::new(subfile.index),
            file: U128::new(subfile.file),
            index: U64::new(index),
            version: U64::new(version),
            header_len: U32::new(self.header_len),
            body_len: U32::new(self.body_len),
            reserved: U64::ZERO,
            checksum: U64::ZERO,
        };
        self.buffer[..HEAD_BYTES].copy_from_slice(head.as_bytes());
        let end = HEAD_BYTES + self.header_len as usize + self.body_len as usize;
        let checksum = block_checksum(&self.buffer[..end]);
        self.buffer[CHECKSUM_AT].copy_from_slice(&checksum.to_le_bytes());
        self.buffer[end..disk_bytes].fill(0);
        ExtentEntry { position, header_len: self.header_len, body_len: self.body_len, checksum }
    }

    pub(crate) fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

/// An extent in memory. Clones share the memory.
#[derive(Clone, Debug)]
pub struct Extent {
    buffer: Arc<Buffer>,
    header_len: u32,
    body_len: u32,
    checksum: u64,
}

impl Extent {
    /// Makes an extent of a block that matches its index entry; otherwise returns the buffer and the
    /// reason.
    pub(crate) fn verify(
        buffer: Buffer,
        read_bytes: usize,
        subfile: SubfileId,
        index: u64,
        entry: ExtentEntry,
    ) -> Result<Self, (Buffer, &'static str)> {
        match check_block(&buffer[..read_bytes.min(buffer.len())], subfile, index, entry) {
            Ok(()) => Ok(Self::trusted(buffer, entry)),
            Err(why) => Err((buffer, why)),
        }
    }

    /// Makes an extent of a block that is known to match its index entry.
    pub(crate) fn trusted(buffer: Buffer, entry: ExtentEntry) -> Self {
        let ExtentEntry { header_len, body_len, checksum, .. } = entry;
        Self { buffer: Arc::new(buffer), header_len, body_len, checksum }
    }

    /// The header.
    pub fn header(&self) -> &[u8] {
        &self.buffer[HEAD_BYTES..HEAD_BYTES + self.header_len as usize]
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        let start = HEAD_BYTES + self.header_len as usize;
        &self.buffer[start..start + self.body_len as usize]
    }

    pub(crate) fn checksum(&self) -> u64 {
        self.checksum
    }

    /// The bytes of memory that it occupies.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.buffer.len() as u64
    }
}

/// Index and payload length that a block of this subfile names; `None` for other bytes.
pub(crate) fn read_head(block: &[u8], subfile: SubfileId) -> Option<(u64, u64)> {
    let (head, _) = BlockHead::ref_from_prefix(block).ok()?;
    let ours = head.magic == MAGIC
        && head.file.get() == subfile.file
        && head.subfile_index.get() == subfile.index;
    let payload = u64::from(head.header_len.get()) + u64::from(head.body_len.get());
    ours.then_some((head.index.get(), payload))
}

/// Checks a block against its index entry.
pub(crate) fn check_block(
    block: &[u8],
    subfile: SubfileId,
    index: u64,
    entry: ExtentEntry,
) -> Result<(), &'static str> {
    let end = HEAD_BYTES as u64 + entry.payload_bytes();
    let Some(block) = usize::try_from(end).ok().and_then(|end| block.get(..end)) else {
        return Err("the data file ends before the extent does");
    };
    let (head, _) = BlockHead::ref_from_prefix(block).map_err(|_| "the head is cut off")?;
    let stored = head.checksum.get();
    let ours = head.magic == MAGIC
        && head.file.get() == subfile.file
        && head.subfile_index.get() == subfile.index
        && head.index.get() == index
        && head.header_len.get() == entry.header_len
        && head.body_len.get() == entry.body_len;
    if !ours {
        Err("its head names another extent than the index")
    } else if stored != entry.checksum {
        Err("its checksum is not the one in the index")
    } else if block_checksum(block) != entry.checksum {
        Err("its content does not match its checksum")
    } else {
        Ok(())
    }
}

/// The checksum of a block, computed with zeros in its own bytes.
fn block_checksum(block: &[u8]) -> u64 {
    checksum(&[&block[..CHECKSUM_AT.start], &[0; 8], &block[CHECKSUM_AT.end..]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_block_is_found() {
        let pool = BufferPool::new(1 << 20);
        let subfile = SubfileId::data(7, 1);
        let mut extent = ExtentBuffer::copy_of(&pool, b"header", &[9; 300]).unwrap();
        let entry = extent.seal(subfile, 42, 5, 3, 4096);
        let block = extent.into_buffer();
        let end = HEAD_BYTES + 306;
        assert_eq!(check_block(&block, subfile, 42, entry), Ok(()));
        assert_eq!(read_head(&block, subfile), Some((42, 306)));
        for bit in 0..end * 8 {
            let mut damaged = block[..end].to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(check_block(&damaged, subfile, 42, entry).is_err(), "bit {bit}");
        }
        assert!(check_block(&block[..end - 1], subfile, 42, entry).is_err());
        assert!(check_block(&block, subfile, 43, entry).is_err());
        assert!(check_block(&block, SubfileId::data(8, 1), 42, entry).is_err());
    }

    #[test]
    fn an_entry_fits_into_three_words() {
        let entry =
            ExtentEntry { position: 1 << 39, header_len: 5, body_len: u32::MAX, checksum: !7 };
        assert_eq!(ExtentEntry::from_value(entry.to_value()), entry);
    }
}
