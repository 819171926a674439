//! Mutexes shared by all ranks.

use std::collections::BTreeMap;
use std::sync::Arc;

use pario_net::SharedMemoryShape;

use crate::call::CollectiveCall;
use crate::error::TeamError;
use crate::machine_memory::{MACHINE_MEMORY_WORDS, MachineMemory};
use crate::remote::message::DataRequest;
use crate::team::Team;

/// The most mutexes of a rank.
const MUTEX_LIMIT: u32 = 1 << 20;

/// The mutexes of all ranks; each belongs to a rank and has a number there. Clones are the same.
///
/// ```
/// # let team = pario_team::Team::meet("mutexes", 1, 0)?;
/// let mutexes = team.mutexes(2)?; // collective; each rank may give another number
/// let unlock = mutexes.lock(0, 1)?; // the second one of rank 0
/// drop(unlock);
/// # Ok::<(), pario_team::TeamError>(())
/// ```
#[derive(Clone)]
pub struct Mutexes {
    shared: Arc<SharedMutexes>,
}

struct SharedMutexes {
    team: Team,
    number: u64,
    near: Arc<MachineMemory>,
    /// Where the mutexes of each rank begin in the memory of its machine, and their number.
    places: Vec<(usize, u32)>,
}

/// A mutex held by this process; dropping it releases it.
#[must_use = "a mutex that is dropped at once protects nothing"]
pub struct TeamMutexGuard<'a> {
    mutexes: &'a Mutexes,
    rank: u32,
    number: u32,
}

impl Team {
    /// Creates mutexes, together with all ranks: this many of this rank.
    pub fn mutexes(&self, count: u32) -> Result<Mutexes, TeamError> {
        let met = self.call(CollectiveCall::Mutexes, &count.to_le_bytes())?;
        let mut places = Vec::new();
        // Each machine counts its own.
        let mut ends: BTreeMap<u32, usize> = BTreeMap::new();
        for rank in 0..self.size() {
            let mut told = [0; 4];
            told.copy_from_slice(&met.of(rank, 4));
            let count = u32::from_le_bytes(told);
            if count > MUTEX_LIMIT {
                let what = format!("rank {rank} wants {count} mutexes; {MUTEX_LIMIT} is the limit");
                return Err(TeamError::Invalid(what));
            }
            let end = ends.entry(self.leader_of(rank)).or_insert(MACHINE_MEMORY_WORDS);
            places.push((*end, count));
            *end += count as usize;
        }
        let words = ends.get(&self.leader_of(self.rank())).copied().unwrap_or(MACHINE_MEMORY_WORDS);
        let shape = SharedMemoryShape { parts: 1, words, bytes: 0 };
        let (number, near) = self.allocate_shared(met, shape, Vec::new())?;
        let shared = SharedMutexes { team: self.clone(), number, near, places };
        Ok(Mutexes { shared: Arc::new(shared) })
    }
}

impl Mutexes {
    /// Waits for a mutex and takes it. If the process that holds it is gone, the error names its
    /// rank.
    pub fn lock(&self, rank: u32, number: u32) -> Result<TeamMutexGuard<'_>, TeamError> {
        let word = self.word(rank, number)?;
        let SharedMutexes { team, near, .. } = &*self.shared;
        if team.is_near(rank) {
            let lock = team.shared.board.lock_in(near.part(), word);
            lock.lock().map_err(|missing| team.shared.error(missing))?;
        } else {
            let (memory, by) = (self.shared.number, team.rank());
            team.request_data(rank, DataRequest::Lock { memory, number: word, by })?;
        }
        Ok(TeamMutexGuard { mutexes: self, rank, number })
    }

    /// Releases a mutex that was kept with [`TeamMutexGuard::keep`].
    pub fn unlock(&self, rank: u32, number: u32) -> Result<(), TeamError> {
        let word = self.word(rank, number)?;
        let SharedMutexes { team, near, .. } = &*self.shared;
        let is_unlocked = if team.is_near(rank) {
            team.shared.board.lock_in(near.part(), word).unlock()
        } else {
            let (memory, by) = (self.shared.number, team.rank());
            match team.request_data(rank, DataRequest::Unlock { memory, number: word, by }) {
                Ok(_) => true,
                Err(TeamError::Invalid(_)) => false,
                Err(error) => return Err(error),
            }
        };
        if is_unlocked {
            return Ok(());
        }
        let what = format!("mutex {number} of rank {rank} is not locked by this process");
        Err(TeamError::Invalid(what))
    }

    fn word(&self, rank: u32, number: u32) -> Result<usize, TeamError> {
        let (start, count) = self.shared.places.get(rank as usize).copied().unwrap_or_default();
        if number >= count {
            return Err(TeamError::Invalid(format!(
                "rank {rank} has given {count} mutexes, and so no mutex {number}"
            )));
        }
        Ok(start + number as usize)
    }
}

impl Drop for SharedMutexes {
    fn drop(&mut self) {
        self.team.release(self.number, &self.near);
    }
}

impl TeamMutexGuard<'_> {
    /// Keeps the mutex until [`Mutexes::unlock`] is called.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for TeamMutexGuard<'_> {
    fn drop(&mut self) {
        // It can only have been released before, by number.
        let _ = self.mutexes.unlock(self.rank, self.number);
    }
}
