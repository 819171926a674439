//! The assignment of threads to processes.

use super::error::{PlacementError, PlacementProblem};
use super::file::Placement;
use super::pattern::{PatternIndices, ThreadPattern};
use crate::document::nearest;

/// A slot of a program: a thread or a pool, to be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSlot {
    /// The name with its scopes: `Slave`, `Server.Disk`.
    pub name: String,
    /// The number of threads of a pool; `None` for a thread.
    pub pool: Option<usize>,
}

impl ThreadSlot {
    fn threads(&self) -> usize {
        self.pool.unwrap_or(1)
    }
}

impl Placement {
    /// Returns the process number of each thread: for each slot a list with one entry per thread.
    ///
    /// Fails unless every thread is placed exactly once. The pool sizes are those of `slots`; the
    /// caller applies [`Placement::pool_size`] before.
    pub fn assign(&self, slots: &[ThreadSlot]) -> Result<Vec<Vec<usize>>, PlacementError> {
        if self.is_single_process() {
            return Ok(slots.iter().map(|slot| vec![0; slot.threads()]).collect());
        }
        self.check_pools(slots)?;
        // For each thread its process, and the line in the file.
        let mut placed: Vec<Vec<Option<(usize, usize)>>> =
            slots.iter().map(|slot| vec![None; slot.threads()]).collect();
        for entry in &self.threads {
            let failed = |problem| PlacementError::at(&self.source, Some(entry.line), problem);
            let thread = || entry.written.clone();
            let name = &entry.pattern.name;
            let Some(number) = slots.iter().position(|slot| slot.name == *name) else {
                let suggestion = nearest(name, slots.iter().map(|slot| slot.name.as_str()));
                let name = name.clone();
                return Err(failed(PlacementProblem::UnknownThread {
                    thread: thread(),
                    name,
                    suggestion,
                }));
            };
            let range = match (&entry.pattern.indices, slots[number].pool) {
                (PatternIndices::None, None) => 0..1,
                (PatternIndices::All, Some(size)) => 0..size,
                (PatternIndices::Some(range), Some(size)) if range.end <= size => range.clone(),
                (PatternIndices::Some(_), Some(size)) => {
                    let pool = name.clone();
                    return Err(failed(PlacementProblem::BeyondPool {
                        thread: thread(),
                        pool,
                        size,
                    }));
                }
                (PatternIndices::None, Some(size)) => {
                    return Err(failed(PlacementProblem::PoolWithoutIndex {
                        thread: thread(),
                        size,
                    }));
                }
                (PatternIndices::All | PatternIndices::Some(_), None) => {
                    let name = name.clone();
                    return Err(failed(PlacementProblem::NotAPool { thread: thread(), name }));
                }
            };
            for index in range {
                if let Some((_, first)) = placed[number][index] {
                    let which = thread_name(&slots[number], index..index + 1);
                    return Err(failed(PlacementProblem::PlacedTwice {
                        thread: thread(),
                        which,
                        first,
                    }));
                }
                placed[number][index] = Some((entry.process, entry.line));
            }
        }
        slots.iter().zip(placed).map(|(slot, threads)| self.complete(slot, &threads)).collect()
    }

    /// Fails if the file sets the size of a pool that the program does not have.
    fn check_pools(&self, slots: &[ThreadSlot]) -> Result<(), PlacementError> {
        let pools = || slots.iter().filter(|slot| slot.pool.is_some());
        for pool in &self.pools {
            if !pools().any(|slot| slot.name == pool.name) {
                let suggestion = nearest(&pool.name, pools().map(|slot| slot.name.as_str()));
                let problem = PlacementProblem::UnknownPool { pool: pool.name.clone(), suggestion };
                return Err(PlacementError::at(&self.source, Some(pool.line), problem));
            }
        }
        Ok(())
    }

    /// Returns the processes of a slot; fails if a thread is not placed.
    fn complete(
        &self,
        slot: &ThreadSlot,
        threads: &[Option<(usize, usize)>],
    ) -> Result<Vec<usize>, PlacementError> {
        if let Some(start) = threads.iter().position(Option::is_none) {
            let end = threads[start..]
                .iter()
                .position(Option::is_some)
                .map_or(threads.len(), |length| start + length);
            let problem = PlacementProblem::NotPlaced { thread: thread_name(slot, start..end) };
            return Err(PlacementError::at(&self.source, None, problem));
        }
        Ok(threads.iter().flatten().map(|(process, _)| *process).collect())
    }
}

/// Returns threads of a slot in the notation of the file.
fn thread_name(slot: &ThreadSlot, range: std::ops::Range<usize>) -> String {
    let indices = match slot.pool {
        None => PatternIndices::None,
        Some(size) if range == (0..size) && size > 1 => PatternIndices::All,
        Some(_) => PatternIndices::Some(range),
    };
    ThreadPattern { name: slot.name.clone(), indices }.to_string()
}
