//! A process: its stage, and the state that the library keeps for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_team::simulation::{Board, DepartedRank};

use super::plan::{PlannedProcess, RoundCall};
use crate::sim_thread::{SimRequest, SimThread, request};

/// A time limit longer than any run.
const FOR_EVER: Duration = Duration::from_secs(1 << 20);

/// A process of the job.
pub struct SimulatedProcess {
    pub spec: PlannedProcess,
    pub stage: ProcessStage,
    /// The board of its machine, as it sees it.
    pub board: Option<Arc<Board>>,
    /// Its thread, while it waits at the board.
    pub thread: Option<SimThread<WaitEnd>>,
    /// The number of locks that it still takes between its calls.
    pub lock_turns: u32,
    /// Whether it releases its lock with its next step.
    pub is_unlocking: bool,
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
    /// It waits for a lock, or holds it.
    Locking(BoardLock),
    /// The round is over; it has read the slots of this many ranks.
    Reading(u32, u32),
    /// It has left.
    Left,
    /// It was killed.
    Killed,
    /// It was never admitted.
    Refused,
}

/// A lock on the board of a machine: its rank and its number.
pub type BoardLock = (u32, usize);

/// The result of a wait at the board.
#[derive(Debug)]
pub enum WaitEnd {
    AllHere(Result<(), Vec<usize>>),
    Round(Result<u32, DepartedRank>),
    /// It has taken and released the lock, or its owner has departed.
    Lock(Result<(), DepartedRank>),
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
            thread: None,
            lock_turns: 0,
            is_unlocking: false,
            program,
            next: 0,
            retries: 0,
            stall: None,
            is_orphan: false,
        }
    }

    /// Begins to wait until all ranks are here.
    pub fn wait_for_all(&mut self) {
        self.wait(|board| WaitEnd::AllHere(board.wait_for_all(Instant::now() + FOR_EVER)));
    }

    /// Begins to arrive at a round and to wait for its end.
    pub fn complete_round(&mut self) {
        self.wait(|board| WaitEnd::Round(board.complete_round()));
    }

    /// Begins to take a lock, hold it and release it.
    pub fn take_lock(&mut self, (rank, number): BoardLock) {
        self.wait(move |board| {
            let lock = board.lock_of(rank, number);
            WaitEnd::Lock(lock.lock().map(|()| {
                request(SimRequest::Hold);
                assert!(lock.unlock(), "it holds the lock");
            }))
        });
    }

    fn wait(&mut self, wait: impl FnOnce(&Board) -> WaitEnd + Send + 'static) {
        if let Some(board) = self.board.clone() {
            self.thread = Some(SimThread::new(move || wait(&board)));
        }
    }

    /// Whether its thread sleeps.
    pub fn is_asleep(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.sleeps_on().is_some())
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
