//! Mutexes that all ranks have in common.

use std::sync::Arc;

use pario_net::{MemoryPart, MemoryShape};

use crate::call::Call;
use crate::error::TeamError;
use crate::team::Team;

/// Mutexes that a rank may give.
const MUTEX_LIMIT: u32 = 1 << 20;

/// Mutexes that all ranks have given; each belongs to a rank and has a number there. Clones are the
/// same.
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
    team: Team,
    part: MemoryPart,
    /// Where those of each rank begin, and how many it has.
    places: Arc<[(usize, u32)]>,
}

/// A mutex that this process has; dropping it gives it back.
#[must_use = "a mutex that is dropped at once protects nothing"]
pub struct Unlock<'a> {
    mutexes: &'a Mutexes,
    rank: u32,
    number: u32,
}

impl Team {
    /// Makes mutexes, together with all others: so many of this rank.
    pub fn mutexes(&self, count: u32) -> Result<Mutexes, TeamError> {
        let met = self.call(Call::Mutexes, &count.to_le_bytes())?;
        let mut places = Vec::new();
        let mut end = 0;
        for rank in 0..self.size() {
            let mut told = [0; 4];
            told.copy_from_slice(&met.of(rank, 4));
            let count = u32::from_le_bytes(told);
            if count > MUTEX_LIMIT {
                let what = format!("rank {rank} wants {count} mutexes; {MUTEX_LIMIT} is the limit");
                return Err(TeamError::Invalid(what));
            }
            places.push((end, count));
            end += count as usize;
        }
        let memory = self.share(met, MemoryShape { parts: 1, words: end.max(1), bytes: 0 })?;
        Ok(Mutexes { team: self.clone(), part: memory.part(0), places: places.into() })
    }
}

impl Mutexes {
    /// Takes a mutex, and waits until it can be had. If the process that has it is gone, the error
    /// says which one that was.
    pub fn lock(&self, rank: u32, number: u32) -> Result<Unlock<'_>, TeamError> {
        let word = self.word(rank, number)?;
        let shared = &self.team.shared;
        let lock = shared.board.lock_in(&self.part, word);
        lock.lock().map_err(|missing| shared.error(missing))?;
        Ok(Unlock { mutexes: self, rank, number })
    }

    /// Gives a mutex back that was taken and kept with [`Unlock::keep`].
    pub fn unlock(&self, rank: u32, number: u32) -> Result<(), TeamError> {
        let word = self.word(rank, number)?;
        if self.team.shared.board.lock_in(&self.part, word).unlock() {
            return Ok(());
        }
        let what = format!("mutex {number} of rank {rank} is not locked by this process");
        Err(TeamError::Invalid(what))
    }

    fn word(&self, rank: u32, number: u32) -> Result<usize, TeamError> {
        let (start, count) = self.places.get(rank as usize).copied().unwrap_or_default();
        if number >= count {
            return Err(TeamError::Invalid(format!(
                "rank {rank} has given {count} mutexes, and so no mutex {number}"
            )));
        }
        Ok(start + number as usize)
    }
}

impl Unlock<'_> {
    /// Keeps the mutex until [`Mutexes::unlock`] is called.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        // It can only have been given back before, by number.
        let _ = self.mutexes.unlock(self.rank, self.number);
    }
}
