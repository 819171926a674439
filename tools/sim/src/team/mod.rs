//! The protocols of a team on several machines under a seeded scheduler.
//!
//! A run is one to four machines with one to four ranks each: the real boards in shared memory, the
//! real team coordinator, the real machine reporters and news feeds. Links between the machine
//! leaders and the coordinator keep the order in each direction, and otherwise take any time. Ranks
//! join, send bytes in rounds, take locks, sometimes disagree, and leave, some of them early. Ranks,
//! leaders and the coordinator are killed, links are cut, processes claim ranks that others have, and
//! some start after the time limit of the others. A model that uses none of this code checks each
//! event. When nothing is under way any more, a rank may wait only for a rank that has not come and
//! still can.

mod machine;
mod model;
mod plan;
mod process;
mod world;

use std::fmt;
use std::ops::AddAssign;

use anyhow::Result;

/// The statistics of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TeamRun {
    /// Events that happened.
    pub steps: u64,
    /// Completed rounds, counted for each rank.
    pub rounds: u64,
    /// Waits that failed as expected.
    pub failures: u64,
    /// Ranks that were killed alone.
    pub ranks_lost: u64,
    /// Machines that were lost with their leader.
    pub machines_lost: u64,
    /// Coordinators that were killed.
    pub coordinators_lost: u64,
    /// Links that were cut.
    pub cuts: u64,
    /// Processes that were refused.
    pub refused: u64,
    /// Locks that were taken.
    pub locks: u64,
    /// Waits for locks of killed processes.
    pub lock_failures: u64,
}

/// Runs a seed to its end. Fails if a team does something that it must not, or does not do something
/// that it must.
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
        self.coordinators_lost += other.coordinators_lost;
        self.cuts += other.cuts;
        self.refused += other.refused;
        self.locks += other.locks;
        self.lock_failures += other.lock_failures;
    }
}

impl fmt::Display for TeamRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, rounds, failures, .. } = self;
        let Self { ranks_lost, machines_lost, coordinators_lost, cuts, refused, .. } = self;
        let Self { locks, lock_failures, .. } = self;
        write!(
            f,
            "{steps} steps, {rounds} rounds passed, {failures} waits with an expected failure, \
             {ranks_lost} ranks, {machines_lost} machines and {coordinators_lost} coordinators \
             lost, {cuts} links cut, {refused} processes refused, {locks} locks taken, \
             {lock_failures} waits for locks of killed processes"
        )
    }
}
