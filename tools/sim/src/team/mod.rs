//! The protocols of a team on several machines under a seeded scheduler.
//!
//! A run is one to four machines with one to four ranks each: the real boards in common memory, the
//! real host, the real state machines of captains. Links between captains and the host keep the order
//! of what goes one way, and otherwise take any time. Ranks come, meet in rounds in which they tell
//! bytes and sometimes disagree, and leave, some of them early. Ranks, captains and the host are
//! killed, links are cut, processes say that they are ranks that others are already, and some come
//! so late that the patience of the others ends. A model that knows nothing of the inside says after
//! each event what may have come out; when nothing is under way any more, nobody may wait but for
//! somebody who has not come and still can.

mod machine;
mod model;
mod plan;
mod process;
mod world;

use std::fmt;
use std::ops::AddAssign;

use anyhow::Result;

/// What a run of a team was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TeamRun {
    /// Events that happened.
    pub steps: u64,
    /// Rounds that were over, counted for each rank.
    pub rounds: u64,
    /// Waits that failed, as they had to.
    pub failures: u64,
    /// Ranks that were killed alone.
    pub ranks_lost: u64,
    /// Machines that were lost with their captain.
    pub machines_lost: u64,
    /// How often the captain at the host was killed.
    pub hosts_lost: u64,
    /// Links that were cut.
    pub cuts: u64,
    /// Processes that were refused.
    pub refused: u64,
    /// Locks that were taken.
    pub locks: u64,
    /// Waits for locks of killed processes.
    pub lock_failures: u64,
}

/// Runs a seed to its end; fails when something comes out that must not, or nothing comes where
/// something must.
pub fn run_team(seed: u64) -> Result<TeamRun> {
    world::run(seed)
}

impl AddAssign for TeamRun {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.rounds += other.rounds;
        self.failures += other.failures;
        self.ranks_lost += other.ranks_lost;
        self.machines_lost += other.machines_lost;
        self.hosts_lost += other.hosts_lost;
        self.cuts += other.cuts;
        self.refused += other.refused;
        self.locks += other.locks;
        self.lock_failures += other.lock_failures;
    }
}

impl fmt::Display for TeamRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, rounds, failures, .. } = self;
        let Self { ranks_lost, machines_lost, hosts_lost, cuts, refused, .. } = self;
        let Self { locks, lock_failures, .. } = self;
        write!(
            f,
            "{steps} steps, {rounds} rounds passed, {failures} waits with a failure that had to \
             be, {ranks_lost} ranks, {machines_lost} machines and {hosts_lost} hosts lost, {cuts} \
             links cut, {refused} processes refused, {locks} locks taken, {lock_failures} waits \
             for locks of killed processes"
        )
    }
}
