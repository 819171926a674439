//! A cache of bytes that this process has read from parts on other machines, on request at open.
//!
//! The cache holds blocks of 16 KiB of records, up to a limit; the least recently used ones go first.
//! Each machine has a **generation** for each record (records may share one), a number in the memory
//! of its machine leader. An access that has changed a record raises the generation of the record on
//! all machines before it returns. A cached block has the generation that the machine had before the
//! block was requested, and is valid while the machine has the same. A read therefore sees every
//! write that had returned before it began, as without a cache, and a hit needs no message.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use pario_team::{Segments, Team};
use parking_lot::Mutex;

use super::caller_memory::CallerMemory;
use super::error::RecordError;
use super::file::OpenRecordFile;
use super::part_request::PartAction;
use super::record::{PartPiece, Record};
use super::remote_transfer::RemoteTransfer;

/// Bytes of a cached block.
const BLOCK_BYTES: u64 = 16 << 10;
/// Generations of a machine.
const GENERATIONS: usize = 1024;
/// A read of more than this part of the limit is not cached: it would displace everything else.
const LARGEST_READ_SHARE: usize = 4;

/// The cache of one process for one record file.
pub struct ReadCache {
    generations: Segments,
    limit_bytes: usize,
    state: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    blocks: HashMap<BlockKey, CachedBlock>,
    /// The blocks by the number of their last use.
    by_use: BTreeMap<u64, BlockKey>,
    uses: u64,
    statistics: CacheStatistics,
}

/// A block: its record, its part, and its number in the part's block of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BlockKey {
    record: u64,
    part: usize,
    number: u64,
}

struct CachedBlock {
    bytes: Box<[u8]>,
    generation: u64,
    last_use: u64,
}

/// What a [cache](crate::RecordOptions::cache) has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Blocks of 16 KiB that were read from the cache.
    pub hits: u64,
    /// Blocks that were requested from another machine.
    pub misses: u64,
    /// Bytes in the cache.
    pub bytes: usize,
}

/// A read of bytes on other machines of which some are in the cache.
pub struct CachedRead {
    generation: u64,
    fetches: Vec<BlockFetch>,
}

/// Consecutive blocks that are requested, and the piece of the access that needs them.
struct BlockFetch {
    piece: PartPiece,
    record: u64,
    blocks: Range<u64>,
    /// The offset of the piece in the part's block of the record.
    in_block: u64,
    /// The offset of the first block in the part.
    at: u64,
    bytes: Vec<u8>,
}

impl ReadCache {
    /// Creates the cache of a process, of at most this many bytes. Collective.
    pub fn new(team: &Team, limit_bytes: usize) -> Result<Self, RecordError> {
        let is_leader = team.machine_of(team.rank()) == team.rank();
        let generations = team.segments(if is_leader { 8 * GENERATIONS } else { 0 })?;
        Ok(Self { generations, limit_bytes, state: Mutex::default() })
    }

    /// Whether the bytes of a read of this length are cached.
    pub fn is_for(&self, bytes: usize) -> bool {
        bytes <= self.limit_bytes / LARGEST_READ_SHARE
    }

    /// Removes all bytes.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.blocks.clear();
        state.by_use.clear();
        state.statistics.bytes = 0;
    }

    pub fn statistics(&self) -> CacheStatistics {
        self.state.lock().statistics
    }

    /// The generation of a record on this machine.
    fn generation(&self, record: u64) -> Result<u64, RecordError> {
        let team = self.generations.team();
        let leader = team.machine_of(team.rank());
        Ok(self.generations.fetch_add(0_u64, leader, generation_offset(record))?)
    }

    /// Raises the generation of a record on all machines: it has changed.
    pub fn invalidate(&self, record: u64) -> Result<(), RecordError> {
        let team = self.generations.team();
        for leader in (0..team.size()).filter(|rank| team.machine_of(*rank) == *rank) {
            self.generations.fetch_add(1_u64, leader, generation_offset(record))?;
        }
        Ok(())
    }

    /// Begins a read of pieces: copies what is in the cache to the caller's memory.
    ///
    /// # Safety
    /// The memory covers the pieces, and no other thread uses it during the call.
    pub unsafe fn begin_read(
        &self,
        record: &Record,
        pieces: &[PartPiece],
        memory: CallerMemory,
    ) -> Result<CachedRead, RecordError> {
        let id = record.info.id.number();
        // Before any request: see the head of this file.
        let generation = self.generation(id)?;
        let mut fetches = Vec::new();
        let mut state = self.state.lock();
        for piece in pieces {
            let (_, block_len, offset) = record.block(piece.part);
            let in_block = piece.at - offset;
            let numbers =
                in_block / BLOCK_BYTES..(in_block + piece.len as u64).div_ceil(BLOCK_BYTES);
            let mut missing: Option<Range<u64>> = None;
            let mut fetch = |blocks: Range<u64>| {
                let start = blocks.start * BLOCK_BYTES;
                let end = (blocks.end * BLOCK_BYTES).min(block_len);
                let bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
                let at = offset + start;
                fetches.push(BlockFetch { piece: *piece, record: id, blocks, in_block, at, bytes });
            };
            for number in numbers {
                let key = BlockKey { record: id, part: piece.part, number };
                match state.find(key, generation) {
                    Some(bytes) => {
                        // SAFETY: the caller guarantees it.
                        unsafe { copy_overlap(piece, in_block, number, bytes, memory) };
                        missing.take().into_iter().for_each(&mut fetch);
                    }
                    None => missing.get_or_insert(number..number).end = number + 1,
                }
            }
            missing.take().into_iter().for_each(&mut fetch);
        }
        Ok(CachedRead { generation, fetches })
    }

    /// Adds fetched blocks to the cache, and copies them to the caller's memory.
    ///
    /// # Safety
    /// The memory covers the pieces of the read, and no other thread uses it during the call.
    pub unsafe fn end_read(&self, read: CachedRead, memory: CallerMemory) {
        let mut state = self.state.lock();
        for BlockFetch { piece, record, blocks, in_block, bytes, .. } in read.fetches {
            let block_bytes = usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX);
            for (number, bytes) in blocks.zip(bytes.chunks(block_bytes)) {
                // SAFETY: the caller guarantees it.
                unsafe { copy_overlap(&piece, in_block, number, bytes, memory) };
                let key = BlockKey { record, part: piece.part, number };
                state.insert(key, bytes, read.generation, self.limit_bytes);
            }
        }
    }
}

impl CachedRead {
    /// Whether everything was in the cache.
    pub fn is_complete(&self) -> bool {
        self.fetches.is_empty()
    }

    /// The transfers of the missing blocks; they must be dropped before this is.
    pub fn transfers(&mut self, file: &Arc<OpenRecordFile>) -> Vec<RemoteTransfer> {
        let transfer = |fetch: &mut BlockFetch| {
            let memory = CallerMemory::bytes(fetch.bytes.as_mut_ptr(), 1);
            let (part, at, len) = (fetch.piece.part, fetch.at, fetch.bytes.len());
            let piece = PartPiece { part, at, here: 0, len };
            // SAFETY: the bytes are as long as the piece, stay where they are, and only the transfer
            // uses them.
            unsafe { RemoteTransfer::new(file, PartAction::Read, memory, piece) }
        };
        self.fetches.iter_mut().map(transfer).collect()
    }
}

impl CacheState {
    /// The bytes of a block, if it is valid.
    fn find(&mut self, key: BlockKey, generation: u64) -> Option<&[u8]> {
        let found = self.blocks.get_mut(&key).filter(|block| block.generation == generation);
        let Some(block) = found else {
            self.statistics.misses += 1;
            return None;
        };
        self.statistics.hits += 1;
        self.uses += 1;
        self.by_use.remove(&block.last_use);
        self.by_use.insert(self.uses, key);
        block.last_use = self.uses;
        Some(&block.bytes)
    }

    fn insert(&mut self, key: BlockKey, bytes: &[u8], generation: u64, limit_bytes: usize) {
        self.remove(key);
        while self.statistics.bytes + bytes.len() > limit_bytes {
            let Some((_, oldest)) = self.by_use.first_key_value() else { return };
            self.remove(*oldest);
        }
        self.uses += 1;
        self.statistics.bytes += bytes.len();
        self.by_use.insert(self.uses, key);
        let block = CachedBlock { bytes: bytes.into(), generation, last_use: self.uses };
        self.blocks.insert(key, block);
    }

    fn remove(&mut self, key: BlockKey) {
        if let Some(block) = self.blocks.remove(&key) {
            self.by_use.remove(&block.last_use);
            self.statistics.bytes -= block.bytes.len();
        }
    }
}

/// The offset of a record's generation.
fn generation_offset(record: u64) -> usize {
    usize::try_from(record % GENERATIONS as u64).unwrap_or(0) * 8
}

/// Copies the bytes of a block that a piece has to their place in the caller's memory. `in_block` is
/// the offset of the piece in the part's block of the record.
///
/// # Safety
/// The memory covers the piece, and no other thread uses it.
unsafe fn copy_overlap(
    piece: &PartPiece,
    in_block: u64,
    number: u64,
    bytes: &[u8],
    memory: CallerMemory,
) {
    let start = number * BLOCK_BYTES;
    let from = start.max(in_block);
    let to = (start + bytes.len() as u64).min(in_block + piece.len as u64);
    if from < to {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "both lie in the piece or in the block"
        )]
        let (here, first, len) =
            ((from - in_block) as usize, (from - start) as usize, (to - from) as usize);
        // SAFETY: the caller guarantees it.
        unsafe { memory.scatter(piece.here + here, &bytes[first..first + len]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_blocks_go_first() {
        let mut state = CacheState::default();
        let key = |number| BlockKey { record: 1, part: 0, number };
        for number in 0..4 {
            state.insert(key(number), &[7; 10], 5, 40);
        }
        assert!(state.find(key(0), 5).is_some());
        state.insert(key(4), &[8; 15], 5, 40);
        let left: Vec<bool> = (0..5).map(|number| state.find(key(number), 5).is_some()).collect();
        assert_eq!(left, [true, false, false, true, true]);
        assert_eq!(state.statistics.bytes, 35);
        // Another generation is not found, and replaces the old one.
        assert!(state.find(key(4), 6).is_none());
        state.insert(key(4), &[9; 5], 6, 40);
        assert_eq!(state.find(key(4), 6), Some(&[9; 5][..]));
        assert_eq!(state.statistics.bytes, 25);
        // What is larger than the limit is not kept.
        state.insert(key(9), &[1; 41], 6, 40);
        assert!(state.find(key(9), 6).is_none());
        assert_eq!(state.statistics.bytes, 0);
        assert!(state.by_use.is_empty() && state.blocks.is_empty());
    }
}
