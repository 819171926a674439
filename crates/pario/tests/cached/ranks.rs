//! Ranks of a team: threads, each with a mapping and a connection of its own.

use std::sync::atomic::{AtomicU32, Ordering};

use pario::team::Team;

/// A name that no other team of this machine has.
pub fn new_job() -> String {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    let number = JOBS.fetch_add(1, Ordering::Relaxed);
    format!("cached {} of process {}", number, std::process::id())
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

/// Bytes that differ by seed and place, and are never zero.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(1..)).take(len).collect()
}
