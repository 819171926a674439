//! Ranks of a team: threads, each with a mapping and a connection of its own.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};

use pario::team::Team;

/// A name that no other team of this machine has.
pub fn new_job() -> String {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    let number = JOBS.fetch_add(1, Ordering::Relaxed);
    format!("record test {} of process {}", number, std::process::id())
}

/// Lets each rank of a new team do something; what comes of it, by rank.
pub fn together<T: Send>(size: u32, work: impl Fn(Team) -> T + Sync) -> Vec<T> {
    let (job, work) = (&new_job(), &work);
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|rank| scope.spawn(move || work(Team::meet(job, size, rank).unwrap())))
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// So many bytes from a place on.
pub fn bytes(start: u64, len: usize) -> RangeInclusive<u64> {
    match len {
        0 => RangeInclusive::new(start + 1, start),
        len => RangeInclusive::new(start, start + len as u64 - 1),
    }
}
