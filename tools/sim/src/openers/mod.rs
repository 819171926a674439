//! Atomic access by processes that have opened a file each for itself, under a seeded scheduler.
//!
//! A run is one to four processes: some alone, some as the ranks of one job. The home node is the
//! real one ([`AtomicOpeners`](pario_server::coordination::AtomicOpeners)), and so are the claims of
//! the processes ([`OpenerClaims`](pario::simulation::OpenerClaims)). Messages keep their order on a
//! connection and otherwise take any time, far less than a lease. Processes read, write, append and
//! measure a file in parts. They are killed, stopped and continued, the home node is restarted, and
//! the openers of a user are reset.
//! A model that knows neither claims nor delegations checks which accesses are under way at the same
//! time, and what they read.

mod model;
mod process;
mod world;

use std::fmt;
use std::ops::AddAssign;

use anyhow::Result;

/// The statistics of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenersRun {
    /// Events that happened.
    pub steps: u64,
    /// Accesses that were completed.
    pub accesses: u64,
    /// Of these, the ones without a message to the home node.
    pub delegated: u64,
    /// Delegations that were given back.
    pub recalls: u64,
    /// Processes that were killed.
    pub killed: u64,
    /// Processes that were stopped.
    pub stopped: u64,
    /// Restarts of the home node.
    pub restarts: u64,
    /// Resets of the openers of a user.
    pub resets: u64,
}

/// Runs a seed to its end. Fails if accesses mix, if an append is lost, or if a process waits longer
/// than it may.
pub fn run_openers(seed: u64) -> Result<OpenersRun> {
    world::run(seed)
}

impl AddAssign for OpenersRun {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.accesses += other.accesses;
        self.delegated += other.delegated;
        self.recalls += other.recalls;
        self.killed += other.killed;
        self.stopped += other.stopped;
        self.restarts += other.restarts;
        self.resets += other.resets;
    }
}

impl fmt::Display for OpenersRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, accesses, delegated, recalls, killed, stopped, restarts, resets } = self;
        write!(
            f,
            "{steps} steps, {accesses} accesses, {delegated} of them without a message, {recalls} \
             delegations given back, {killed} processes killed, {stopped} stopped, {restarts} \
             restarts of the home node, {resets} resets of a user"
        )
    }
}
