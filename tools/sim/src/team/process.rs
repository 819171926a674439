//! A process: how far it has come, and what the library keeps for it.

use pario_team::simulation::Board;

use super::plan::{Place, Said};

/// A process of the job.
pub struct Process {
    pub place: Place,
    pub stage: Stage,
    /// The board of its machine, as it sees it.
    pub board: Option<Board>,
    pub program: Vec<Said>,
    pub next: usize,
    /// How often it calls again when a call has failed.
    pub retries: u32,
    /// It waits before this call, or before it comes, until nothing else can happen.
    pub stall: Option<Stall>,
    /// Its captain is gone, and it has not noticed.
    pub is_orphan: bool,
}

/// Where a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It was not started.
    Away,
    /// The host is asked whether it may come.
    Asking,
    /// It may, and has not said on the board that it is here.
    Invited,
    /// It waits until all are here.
    Gathering,
    /// It is between two calls.
    Ready,
    /// It has written what it calls in a round.
    Written(u32),
    /// It has come to a round.
    Waiting(u32),
    /// The round is over, and it has read what so many ranks have told.
    Reading(u32, u32),
    /// It has left.
    Left,
    /// It was killed.
    Killed,
    /// It was never let in.
    Absent,
}

/// When a process keeps all others waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    Start,
    Call(usize),
}

impl Process {
    pub fn new(place: Place, program: Vec<Said>) -> Self {
        Self {
            place,
            stage: Stage::Away,
            board: None,
            program,
            next: 0,
            retries: 0,
            stall: None,
            is_orphan: false,
        }
    }

    /// Whether it was let in, or asks for it, and has not ended.
    pub fn is_there(&self) -> bool {
        !matches!(self.stage, Stage::Away | Stage::Left | Stage::Killed | Stage::Absent)
    }

    /// Whether it keeps the others waiting.
    pub fn is_stalled(&self) -> bool {
        match self.stall {
            Some(Stall::Start) => self.stage == Stage::Away,
            Some(Stall::Call(next)) => self.stage == Stage::Ready && self.next == next,
            None => false,
        }
    }
}
