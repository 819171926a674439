//! A process: how far it has come, and what the library keeps for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_team::simulation::{Board, MissingRank};

use super::plan::{Place, Said};
use crate::sim_thread::{Question, SimThread, ask};

/// Longer than any run.
const FOR_EVER: Duration = Duration::from_secs(1 << 20);

/// A process of the job.
pub struct Process {
    pub place: Place,
    pub stage: Stage,
    /// The board of its machine, as it sees it.
    pub board: Option<Arc<Board>>,
    /// Its thread, while it waits at the board.
    pub thread: Option<SimThread<WaitEnd>>,
    /// How often it takes a lock between two calls.
    pub lock_turns: u32,
    /// It is about to release its lock.
    pub is_unlocking: bool,
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
    /// It waits for a lock of a rank, or has it.
    Locking(LockPlace),
    /// The round is over, and it has read what so many ranks have told.
    Reading(u32, u32),
    /// It has left.
    Left,
    /// It was killed.
    Killed,
    /// It was never let in.
    Absent,
}

/// A lock on the board of a machine: the rank, and the number.
pub type LockPlace = (u32, usize);

/// What came of a wait at the board.
#[derive(Debug)]
pub enum WaitEnd {
    AllHere(Result<(), Vec<usize>>),
    Round(Result<u32, MissingRank>),
    /// It has released the lock, or has not got it.
    Lock(Result<(), MissingRank>),
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
    pub fn take_lock(&mut self, (rank, number): LockPlace) {
        self.wait(move |board| {
            let lock = board.lock_of(rank, number);
            WaitEnd::Lock(lock.lock().map(|()| {
                ask(Question::Hold);
                assert!(lock.unlock(), "it holds the lock");
            }))
        });
    }

    fn wait(&mut self, what: impl FnOnce(&Board) -> WaitEnd + Send + 'static) {
        if let Some(board) = self.board.clone() {
            self.thread = Some(SimThread::new(move || what(&board)));
        }
    }

    /// Whether its thread sleeps.
    pub fn is_asleep(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.sleeps_on().is_some())
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
