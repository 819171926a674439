//! The memory of closed cached files, kept for the next ones of the job.
//!
//! Allocating the memory of a cached file takes many collective rounds, and its pages must be zeroed
//! and mapped. A job therefore keeps the memory of closed files, up to a limit, and gives it to the
//! next file that it fits.
//!
//! All ranks have the same list of memories, because they add and remove them only in collective
//! calls. A rank tells the others in such a call which of them it does not use. Only a memory that no
//! rank uses is given to a file or freed. Every rank chooses by the same rule, without a round of its
//! own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pario_team::{Team, WeakTeam, total_memory};
use parking_lot::{Mutex, MutexGuard};

use super::whole_file_cache::{MemoryState, WholeFileCache};
use crate::error::Error;

/// The part of a machine's memory that the pool of a job may keep.
const POOL_PART: u64 = 16;
/// The bytes that it may keep on any machine.
const FEWEST_POOL_BYTES: u64 = 64 << 20;
/// The number of memories that are kept.
const POOL_LIMIT: usize = 32;
/// Bits for the number of memories that were added.
const ADDED_BITS: usize = 24;
/// Memory has a multiple of this size, which is that of a huge page.
const GRANULE_BYTES: u64 = 2 << 20;

/// The memories that a job keeps.
#[derive(Default)]
pub struct MemoryPool {
    kept: Mutex<KeptMemory>,
}

#[derive(Default)]
struct KeptMemory {
    /// The team to which the memory belongs.
    team: Option<WeakTeam>,
    memories: Vec<Arc<PooledMemory>>,
    /// The number of memories that were added in the life of the team, in its lowest bits.
    added: u64,
}

struct PooledMemory {
    cache: WholeFileCache,
    /// Whether this rank uses it.
    is_used: AtomicBool,
    /// Bytes from the first one on that may differ from zero.
    touched_bytes: AtomicU64,
    /// Whether the memory was taken at once when it was allocated.
    is_prefaulted: bool,
    /// Whether all of it is mapped into this process.
    is_ready: AtomicBool,
}

/// The memory of a file. Dropping it returns the memory to the pool, or frees it.
pub struct MemoryLease {
    memory: Arc<PooledMemory>,
}

/// The part of a collective call in which the ranks choose memory.
pub struct PoolCall<'a> {
    kept: MutexGuard<'a, KeptMemory>,
}

impl MemoryPool {
    /// Begins a collective call that may choose memory. [`PoolCall::number`] must be sent to all
    /// ranks in this call.
    pub fn begin(&self, team: &Team) -> PoolCall<'_> {
        let mut kept = self.kept.lock();
        let is_same =
            kept.team.as_ref().and_then(WeakTeam::upgrade).is_some_and(|of| of.is_same(team));
        if !is_same {
            *kept = KeptMemory { team: Some(team.downgrade()), ..KeptMemory::default() };
        }
        PoolCall { kept }
    }

    /// Frees all memory that no file uses.
    pub fn clear(&self) {
        drop(std::mem::take(&mut *self.kept.lock()));
    }
}

impl PoolCall<'_> {
    /// The memories that this rank does not use, as bits; how many were added; and how much this
    /// machine may keep.
    pub fn number(&self) -> u64 {
        let bits = self
            .kept
            .memories
            .iter()
            .enumerate()
            .map(|(index, memory)| u64::from(!memory.is_used.load(Ordering::Acquire)) << index);
        let bits = self.kept.added << POOL_LIMIT | bits.sum::<u64>();
        u64::from(machine_limit().ilog2()) << (POOL_LIMIT + ADDED_BITS) | bits
    }

    /// Chooses or allocates memory for this many bytes, which is taken at once if the caller wants
    /// that. `numbers` are those of all ranks. Each rank has to [clean](MemoryLease::clean) its part
    /// before the next round. Collective.
    pub fn lease(
        mut self,
        team: &Team,
        path: &str,
        numbers: &[u64],
        bytes: u64,
        prefault: bool,
    ) -> Result<MemoryLease, Error> {
        let kept = &mut *self.kept;
        let added = |number: &u64| number >> POOL_LIMIT & ((1 << ADDED_BITS) - 1);
        let limit = |number: &u64| 1 << (number >> (POOL_LIMIT + ADDED_BITS)).min(63);
        let limit = numbers.iter().map(limit).min().unwrap_or(0);
        let most = numbers.iter().map(added).max().unwrap_or(0);
        if numbers.iter().any(|number| added(number) != most) {
            // A rank has joined the job again and knows no memories: all begin again.
            kept.memories.clear();
            kept.added = most;
        }
        let free = numbers.iter().fold(u64::MAX, |free, number| free & number);
        let is_free = |index: usize| free >> index & 1 == 1;
        let fits = |memory: &PooledMemory| {
            let room = memory.cache.len();
            let is_near = room >= bytes && room <= (2 * bytes).max(GRANULE_BYTES);
            is_near && (!prefault || memory.is_prefaulted)
        };
        let candidates = kept.memories.iter().enumerate().filter(|(index, _)| is_free(*index));
        let found = candidates.map(|(_, memory)| memory).filter(|memory| fits(memory));
        if let Some(memory) = found.min_by_key(|memory| memory.cache.len()) {
            memory.is_used.store(true, Ordering::Release);
            return Ok(MemoryLease { memory: memory.clone() });
        }
        let room = bytes.max(1).next_multiple_of(GRANULE_BYTES);
        let is_kept = room <= limit && kept.make_space(room, limit, is_free);
        let cache = WholeFileCache::new(team, path, if is_kept { room } else { bytes })?;
        if prefault {
            cache.array().prefault()?;
        }
        let memory = Arc::new(PooledMemory {
            cache,
            is_used: AtomicBool::new(true),
            touched_bytes: AtomicU64::new(0),
            is_prefaulted: prefault,
            is_ready: AtomicBool::new(prefault),
        });
        if is_kept {
            kept.added = (kept.added + 1) & ((1 << ADDED_BITS) - 1);
            kept.memories.push(memory.clone());
        }
        Ok(MemoryLease { memory })
    }
}

impl KeptMemory {
    /// Frees the oldest unused memories until this many bytes can be added within the limit. Returns
    /// whether they can.
    fn make_space(&mut self, bytes: u64, limit: u64, is_free: impl Fn(usize) -> bool) -> bool {
        let mut is_free: Vec<bool> = (0..self.memories.len()).map(is_free).collect();
        loop {
            let all: u64 = self.memories.iter().map(|memory| memory.cache.len()).sum();
            if all + bytes <= limit && self.memories.len() < POOL_LIMIT {
                return true;
            }
            let Some(index) = is_free.iter().position(|is_free| *is_free) else { return false };
            self.memories.remove(index);
            is_free.remove(index);
        }
    }
}

/// The bytes that the pool may keep on this machine. Ranks compare its logarithm.
fn machine_limit() -> u64 {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    let part = || total_memory().map_or(0, |bytes| bytes / POOL_PART);
    *LIMIT.get_or_init(|| part().max(FEWEST_POOL_BYTES))
}

impl MemoryLease {
    /// Prepares the memory for a file of a length that is read from a byte on: zeroes what an earlier
    /// file has left there, or leaves that to the ranks that read. Collective.
    pub fn prepare(&self, team: &Team, needed: u64, len: u64) -> Result<MemoryState, Error> {
        let old_bytes = self.memory.touched_bytes.load(Ordering::Acquire);
        let is_whole_read = needed == 0 && len > 0;
        let is_one_machine = (0..team.size()).all(|rank| team.is_near(rank));
        if is_whole_read && old_bytes > 0 && is_one_machine {
            self.touch(len);
            return Ok(MemoryState { is_provided: true, old_bytes });
        }
        // Pages that the open reads need no cleaning.
        self.clean(if is_whole_read { len } else { 0 });
        self.touch(len);
        let is_provided =
            old_bytes > 0 || self.is_prefaulted() || (is_whole_read && self.cache().prefault_own());
        if len > 0 && (old_bytes > 0 || is_whole_read) {
            // A rank reads into the memory of others, which must be clean and provided.
            team.barrier()?;
        }
        Ok(MemoryState { is_provided, old_bytes: 0 })
    }

    /// Makes this rank's pages from a byte on, and its flags, zero again where an earlier file has
    /// used them. Returns whether there were any.
    pub fn clean(&self, from: u64) -> bool {
        let touched = self.memory.touched_bytes.swap(0, Ordering::AcqRel);
        if touched > 0 {
            self.cache().clean(from, touched);
        }
        touched > 0
    }

    /// Maps all pages into this process, if that has not been done.
    pub fn make_ready(&self) {
        if !self.memory.is_ready.swap(true, Ordering::Relaxed) {
            self.cache().array().make_ready();
        }
    }

    /// Notes that the file may use this many bytes.
    pub fn touch(&self, bytes: u64) {
        self.memory.touched_bytes.fetch_max(bytes, Ordering::AcqRel);
    }

    /// Whether the memory was taken at once when it was allocated.
    pub fn is_prefaulted(&self) -> bool {
        self.memory.is_prefaulted
    }

    /// The memory.
    pub fn cache(&self) -> &WholeFileCache {
        &self.memory.cache
    }
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        self.memory.is_used.store(false, Ordering::Release);
    }
}
