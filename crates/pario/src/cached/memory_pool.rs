//! The memory of closed cached files, kept for the next ones of the job.
//!
//! Allocating the memory of a cached file takes many collective rounds, and its pages must be zeroed
//! and mapped. A job therefore keeps the memory of small files when they are closed, and gives it to
//! the next file that it fits.
//!
//! All ranks have the same list of memories, because they add and remove them only in collective
//! calls. A rank tells the others in such a call which of them it does not use. Only a memory that no
//! rank uses is given to a file or freed. Every rank chooses by the same rule, without a round of its
//! own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pario_team::{Team, WeakTeam};
use parking_lot::{Mutex, MutexGuard};

use super::whole_file_cache::WholeFileCache;
use crate::error::Error;

/// The largest file whose memory is kept, and the largest sum of what is kept.
const POOL_BYTES: u64 = 64 << 20;
/// The number of memories that are kept.
const POOL_LIMIT: usize = 32;
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
    /// The number of memories that were added in the life of the team.
    added: u32,
}

struct PooledMemory {
    cache: WholeFileCache,
    /// Whether this rank uses it.
    is_used: AtomicBool,
    /// Bytes from the first one on that may differ from zero.
    touched_bytes: AtomicU64,
    /// Whether the memory was taken at once when it was allocated.
    is_prefaulted: bool,
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
    /// The memories that this rank does not use, as bits, and how many were added.
    pub fn number(&self) -> u64 {
        let bits = self
            .kept
            .memories
            .iter()
            .enumerate()
            .map(|(index, memory)| u64::from(!memory.is_used.load(Ordering::Acquire)) << index);
        u64::from(self.kept.added) << POOL_LIMIT | bits.sum::<u64>()
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
        let added = |number: &u64| u32::try_from(number >> POOL_LIMIT).unwrap_or(u32::MAX);
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
        let is_kept = room <= POOL_BYTES && kept.make_space(room, is_free);
        let cache = WholeFileCache::new(team, path, if is_kept { room } else { bytes })?;
        if prefault {
            cache.array().prefault()?;
        }
        let memory = Arc::new(PooledMemory {
            cache,
            is_used: AtomicBool::new(true),
            touched_bytes: AtomicU64::new(0),
            is_prefaulted: prefault,
        });
        if is_kept {
            kept.added += 1;
            kept.memories.push(memory.clone());
        }
        Ok(MemoryLease { memory })
    }
}

impl KeptMemory {
    /// Frees the oldest unused memories until this many bytes can be added. Returns whether they
    /// can.
    fn make_space(&mut self, bytes: u64, is_free: impl Fn(usize) -> bool) -> bool {
        let mut is_free: Vec<bool> = (0..self.memories.len()).map(is_free).collect();
        loop {
            let all: u64 = self.memories.iter().map(|memory| memory.cache.len()).sum();
            if all + bytes <= POOL_BYTES && self.memories.len() < POOL_LIMIT {
                return true;
            }
            let Some(index) = is_free.iter().position(|is_free| *is_free) else { return false };
            self.memories.remove(index);
            is_free.remove(index);
        }
    }
}

impl MemoryLease {
    /// Makes this rank's pages from a byte on, and its flags, zero again where an earlier file has
    /// used them. Returns whether there were any.
    pub fn clean(&self, from: u64) -> bool {
        let touched = self.memory.touched_bytes.swap(0, Ordering::AcqRel);
        if touched > 0 {
            self.cache().clean(from, touched);
        }
        touched > 0
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
