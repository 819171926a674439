//! Every thread of the program to its process.

use super::error::{PlacementError, Problem, nearest};
use super::file::Placement;
use super::pattern::{Indices, Pattern};

/// A thread of the program, or a pool of threads, that has to be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSlot {
    /// The name, with the names of what it is part of: `Slave`, `ProcessB.ThreadC`.
    pub name: String,
    /// The number of threads if it is a pool.
    pub pool: Option<usize>,
}

impl ThreadSlot {
    fn threads(&self) -> usize {
        self.pool.unwrap_or(1)
    }
}

impl Placement {
    /// The number of the process of each thread: for each slot a list with one entry, or, for a
    /// pool, with one entry for each of its threads.
    ///
    /// Every thread must be placed exactly once. The sizes of pools are those of `slots`, so a
    /// caller who honours [`Placement::pool_size`] does so before.
    pub fn assign(&self, slots: &[ThreadSlot]) -> Result<Vec<Vec<usize>>, PlacementError> {
        if self.is_single_process() {
            return Ok(slots.iter().map(|slot| vec![0; slot.threads()]).collect());
        }
        self.check_pools(slots)?;
        // For each thread its process and the line that said so.
        let mut placed: Vec<Vec<Option<(usize, usize)>>> =
            slots.iter().map(|slot| vec![None; slot.threads()]).collect();
        for entry in &self.threads {
            let failed = |problem| PlacementError::at(&self.source, Some(entry.line), problem);
            let thread = || entry.written.clone();
            let name = &entry.pattern.name;
            let Some(number) = slots.iter().position(|slot| slot.name == *name) else {
                let suggestion = nearest(name, slots.iter().map(|slot| slot.name.as_str()));
                let name = name.clone();
                return Err(failed(Problem::UnknownThread { thread: thread(), name, suggestion }));
            };
            let range = match (&entry.pattern.indices, slots[number].pool) {
                (Indices::None, None) => 0..1,
                (Indices::All, Some(size)) => 0..size,
                (Indices::Some(range), Some(size)) if range.end <= size => range.clone(),
                (Indices::Some(_), Some(size)) => {
                    let pool = name.clone();
                    return Err(failed(Problem::BeyondPool { thread: thread(), pool, size }));
                }
                (Indices::None, Some(size)) => {
                    return Err(failed(Problem::PoolWithoutIndex { thread: thread(), size }));
                }
                (Indices::All | Indices::Some(_), None) => {
                    let name = name.clone();
                    return Err(failed(Problem::NotAPool { thread: thread(), name }));
                }
            };
            for index in range {
                if let Some((_, first)) = placed[number][index] {
                    let which = thread_name(&slots[number], index..index + 1);
                    return Err(failed(Problem::PlacedTwice { thread: thread(), which, first }));
                }
                placed[number][index] = Some((entry.process, entry.line));
            }
        }
        slots.iter().zip(placed).map(|(slot, threads)| self.complete(slot, &threads)).collect()
    }

    /// Every size given in the file is that of a pool of the program.
    fn check_pools(&self, slots: &[ThreadSlot]) -> Result<(), PlacementError> {
        let pools = || slots.iter().filter(|slot| slot.pool.is_some());
        for pool in &self.pools {
            if !pools().any(|slot| slot.name == pool.name) {
                let suggestion = nearest(&pool.name, pools().map(|slot| slot.name.as_str()));
                let problem = Problem::UnknownPool { pool: pool.name.clone(), suggestion };
                return Err(PlacementError::at(&self.source, Some(pool.line), problem));
            }
        }
        Ok(())
    }

    /// The processes of a slot, all of whose threads must be placed.
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
            let problem = Problem::NotPlaced { thread: thread_name(slot, start..end) };
            return Err(PlacementError::at(&self.source, None, problem));
        }
        Ok(threads.iter().flatten().map(|(process, _)| *process).collect())
    }
}

/// Threads of a slot as they would be written in the file.
fn thread_name(slot: &ThreadSlot, range: std::ops::Range<usize>) -> String {
    let indices = match slot.pool {
        None => Indices::None,
        Some(size) if range == (0..size) && size > 1 => Indices::All,
        Some(_) => Indices::Some(range),
    };
    Pattern { name: slot.name.clone(), indices }.to_string()
}
