//! A rank: its program, and the state that the library keeps for it.

use std::collections::{BTreeSet, VecDeque};

use pario_proto::{AccessRange, Call, Interleaved, Mode, Transfer};

use crate::program::Step;
use crate::world::Ticket;

/// A process of the job.
pub struct Rank {
    pub stage: Stage,
    pub program: Vec<Step>,
    pub next: usize,
    /// The number of its collective calls.
    pub rounds: u64,
    /// Calls that are not over, and their limit.
    pub under_way: usize,
    pub most: usize,
    /// The step that it waits for.
    pub waits_for: Option<usize>,
    /// Whether its call at a table is not recorded yet.
    pub is_arriving: bool,
    pub mode: Mode,
    pub pointer: u64,
    pub records: Interleaved,
    /// Accesses, whose bytes move one after the other.
    pub lane: VecDeque<Access>,
    /// The number of its claims of bytes.
    pub ranges: u64,
    pub is_closed: bool,
    /// Whether it has closed the file collectively.
    pub has_closed_collectively: bool,
    /// Whether the node has forgotten the file.
    pub has_given_up: bool,
    /// The number of collective opens that it has sent to the node.
    pub asked: u64,
    /// The number of its connection; whether that is broken, and the rank has not noticed.
    pub connection: u64,
    pub is_cut_off: bool,
    /// The incarnation of the node that knows it.
    pub known_since: Option<u64>,
    /// Requests without replies.
    pub pending: BTreeSet<Ticket>,
}

/// The stage of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is about to open the file.
    Away,
    /// It waits until all ranks open the file.
    Opening,
    /// It has the file open.
    Open,
    /// It was killed.
    Lost,
    /// It has ended by itself.
    Ended,
}

/// An access: a range, and bytes that move.
pub struct Access {
    pub step: usize,
    pub transfer: Transfer,
    pub mode: Mode,
    /// Whether the rank goes on before the access is done.
    pub is_started: bool,
    pub range: AccessRange,
    pub phase: Phase,
    /// The number of the round, if one rank performs the access for all.
    pub once: Option<u64>,
    /// Whether this rank performs it for all at a table.
    pub is_performer: bool,
    pub buffer: Vec<u8>,
    pub began: u64,
    /// The number of the write in the model.
    pub write: Option<u64>,
}

/// The phase of an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waits for its range.
    Asked,
    /// Has its range.
    Placed,
    /// Waits for its claim of the bytes.
    Wanted,
    /// These parts have not moved yet.
    Moving(Vec<(usize, usize)>),
    /// Reads for all ranks, through a table.
    Giving,
    /// Receives what another rank performs for all, through a table.
    Getting,
    /// A thread at the table reads for all, or receives.
    AtTable,
    /// Has received what another rank has performed for all.
    Given,
    /// Has reported an access that it performed for all.
    Reported,
}

impl Rank {
    pub fn new((rank, size): (u32, u32), most: usize) -> Self {
        Self {
            stage: Stage::Away,
            program: Vec::new(),
            next: 0,
            rounds: 0,
            under_way: 0,
            most,
            waits_for: None,
            is_arriving: false,
            mode: Mode::Unix,
            pointer: 0,
            records: Interleaved::new(0, 0, rank, size),
            lane: VecDeque::new(),
            ranges: 0,
            is_closed: false,
            has_closed_collectively: false,
            has_given_up: false,
            asked: 0,
            connection: 0,
            is_cut_off: false,
            known_since: None,
            pending: BTreeSet::new(),
        }
    }

    /// Begins its program, with the file open.
    pub fn begin(&mut self, (rank, size): (u32, u32), mode: Mode, program: Vec<Step>) {
        let Self { asked, connection, is_cut_off, known_since, most, .. } = *self;
        *self = Self {
            stage: Stage::Open,
            program,
            mode,
            asked,
            connection,
            is_cut_off,
            known_since,
            ..Self::new((rank, size), most)
        };
    }

    pub fn is_alive(&self) -> bool {
        !matches!(self.stage, Stage::Lost | Stage::Ended)
    }

    /// Whether it can take its next step.
    pub fn can_go_on(&self, is_hasty: bool) -> bool {
        let is_free = self.stage == Stage::Open
            && self.waits_for.is_none()
            && !self.is_arriving
            && self.under_way < self.most;
        let is_quiet = self.under_way == 0;
        is_free
            && match self.program.get(self.next) {
                None => false,
                Some(Step::Close | Step::Collective(Call::Close)) => is_quiet,
                Some(Step::Collective(Call::SetMode(mode))) => {
                    let is_atomic = *mode == Mode::Unix || self.mode == Mode::Unix;
                    is_quiet || is_hasty && !is_atomic
                }
                Some(_) => true,
            }
    }

    /// Whether its program is finished.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Open && self.next == self.program.len() && self.under_way == 0
    }

    /// Makes no further steps with the file.
    pub fn give_up(&mut self) {
        self.program.truncate(self.next);
        self.has_given_up = true;
    }

    /// Closes the file next, because no collective call can succeed any more.
    pub fn close_soon(&mut self) {
        let is_closing = self.waits_for.is_some_and(|step| self.is_close(step));
        if !is_closing && !self.has_given_up {
            self.program.truncate(self.next);
            self.program.push(Step::Close);
        }
    }

    pub fn is_close(&self, step: usize) -> bool {
        matches!(self.program[step], Step::Close | Step::Collective(Call::Close))
    }

    /// Ends a step.
    pub fn finish(&mut self, step: usize) {
        self.under_way -= 1;
        if self.waits_for == Some(step) {
            self.waits_for = None;
        }
    }
}
