//! A process: its stage, and the state that the library keeps for it.

use pario_team::simulation::Board;

use super::plan::{PlannedProcess, RoundCall};

/// A process of the job.
pub struct SimulatedProcess {
    pub spec: PlannedProcess,
    pub stage: ProcessStage,
    /// The board of its machine, as it sees it.
    pub board: Option<Board>,
    pub program: Vec<RoundCall>,
    pub next: usize,
    /// How many times it calls again after a failed call.
    pub retries: u32,
    /// Where it stalls until nothing else can happen.
    pub stall: Option<Stall>,
    /// Whether its leader is gone, and it has not noticed.
    pub is_orphan: bool,
}

/// The stage of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessStage {
    /// It was not started.
    NotStarted,
    /// The leader asks the coordinator whether it may join.
    Joining,
    /// It may join, and is not on the board yet.
    Admitted,
    /// It waits until all ranks have come.
    Gathering,
    /// It is between two calls.
    Ready,
    /// It has written its call of a round.
    Written(u32),
    /// It has come to a round.
    Waiting(u32),
    /// The round is over; it has read the slots of this many ranks.
    Reading(u32, u32),
    /// It has left.
    Left,
    /// It was killed.
    Killed,
    /// It was never admitted.
    Refused,
}

/// Where a process stalls, while all others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    Start,
    Call(usize),
}

impl SimulatedProcess {
    pub fn new(spec: PlannedProcess, program: Vec<RoundCall>) -> Self {
        Self {
            spec,
            stage: ProcessStage::NotStarted,
            board: None,
            program,
            next: 0,
            retries: 0,
            stall: None,
            is_orphan: false,
        }
    }

    /// Whether it has started, and has not ended.
    pub fn is_alive(&self) -> bool {
        !matches!(
            self.stage,
            ProcessStage::NotStarted
                | ProcessStage::Left
                | ProcessStage::Killed
                | ProcessStage::Refused
        )
    }

    /// Whether it stalls now.
    pub fn is_stalled(&self) -> bool {
        match self.stall {
            Some(Stall::Start) => self.stage == ProcessStage::NotStarted,
            Some(Stall::Call(next)) => self.stage == ProcessStage::Ready && self.next == next,
            None => false,
        }
    }
}
