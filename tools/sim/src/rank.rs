//! A rank: its program, and what the library keeps for it.

use std::collections::{BTreeSet, VecDeque};

use pario_proto::{AccessRange, Call, Interleaved, Mode, Transfer};

use crate::program::Step;
use crate::world::Ticket;

/// A process of the job.
pub struct Rank {
    pub stage: Stage,
    pub program: Vec<Step>,
    pub next: usize,
    /// Calls in which all meet.
    pub rounds: u64,
    /// Calls that are not over, and how many may be.
    pub under_way: usize,
    pub most: usize,
    /// A step after which it waits.
    pub waits_for: Option<usize>,
    /// At a table: a call that has no place yet.
    pub is_arriving: bool,
    pub mode: Mode,
    pub pointer: u64,
    pub records: Interleaved,
    /// Accesses, whose bytes move one after the other.
    pub lane: VecDeque<Access>,
    /// TicketPurpose the word of events was when the first of them fell asleep.
    pub seen: Option<u32>,
    /// How often it has wanted bytes for itself.
    pub ranges: u64,
    pub is_closed: bool,
    /// Whether it has closed it together with the others.
    pub has_met_to_close: bool,
    /// The node has forgotten the file.
    pub has_given_up: bool,
    /// How often it has asked the node together with the others.
    pub asked: u64,
    /// Which connection it has to the node; whether that is broken, and it does not know.
    pub connection: u64,
    pub is_cut_off: bool,
    /// Since when the node knows it: how often that was started.
    pub known_since: Option<u64>,
    /// Questions without answers.
    pub pending: BTreeSet<Ticket>,
}

/// CoordinationKind a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It wants to open the file.
    Away,
    /// It waits until all want to.
    Opening,
    /// It has it open.
    Open,
    /// It was killed.
    Lost,
    /// It has ended by itself.
    Ended,
}

/// An access: a place, and bytes that move.
pub struct Access {
    pub step: usize,
    pub transfer: Transfer,
    pub mode: Mode,
    /// Whether the rank goes on before it is done.
    pub is_started: bool,
    pub placement: AccessRange,
    pub phase: Phase,
    /// If one does it for all: the number of the round.
    pub once: Option<u64>,
    pub buffer: Vec<u8>,
    pub began: u64,
    /// As the model knows it.
    pub write: Option<u64>,
}

/// How far an access has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waits for its place.
    Asked,
    /// Has its place.
    Placed,
    /// Waits until nobody else has the bytes.
    Wanted,
    /// These parts have not moved.
    Moving(Vec<(usize, usize)>),
    /// Reads for all, by way of a table.
    Giving,
    /// Takes what another one does for all, by way of a table.
    Getting,
    /// Has what another one has done for all.
    Given,
    /// Tells that it has done it for all.
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
            seen: None,
            ranges: 0,
            is_closed: false,
            has_met_to_close: false,
            has_given_up: false,
            asked: 0,
            connection: 0,
            is_cut_off: false,
            known_since: None,
            pending: BTreeSet::new(),
        }
    }

    /// It has the file open, and begins with its program.
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
                Some(Step::Close | Step::Meet(Call::Close)) => is_quiet,
                Some(Step::Meet(Call::SetMode(mode))) => {
                    let is_atomic = *mode == Mode::Unix || self.mode == Mode::Unix;
                    is_quiet || is_hasty && !is_atomic
                }
                Some(_) => true,
            }
    }

    /// Whether it has done all that it wanted with the file.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Open && self.next == self.program.len() && self.under_way == 0
    }

    /// Does nothing more with the file.
    pub fn give_up(&mut self) {
        self.program.truncate(self.next);
        self.has_given_up = true;
    }

    /// There is nobody to meet any more: it closes, if it does not do so already.
    pub fn close_soon(&mut self) {
        let is_closing = self.waits_for.is_some_and(|step| self.is_close(step));
        if !is_closing && !self.has_given_up {
            self.program.truncate(self.next);
            self.program.push(Step::Close);
        }
    }

    pub fn is_close(&self, step: usize) -> bool {
        matches!(self.program[step], Step::Close | Step::Meet(Call::Close))
    }

    /// A step is over.
    pub fn finish(&mut self, step: usize) {
        self.under_way -= 1;
        if self.waits_for == Some(step) {
            self.waits_for = None;
        }
    }
}
