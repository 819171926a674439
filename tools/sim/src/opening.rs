//! One opening of the file by all ranks: where they meet, and what the model says of it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use anyhow::{Context, Result, ensure};
use pario_proto::{AssemblyId, Call, Mode, Outcome, Placement, SharedCall, Trouble};

use crate::at_table::AtTable;
use crate::model::{Expected, Pointers};
use crate::program::{Plan, Step};
use crate::world::Ticket;

/// A file that all ranks have opened together.
pub struct Opening {
    pub id: AssemblyId,
    /// The how manieth it is.
    pub index: usize,
    pub plan: Plan,
    pub place: Place,
    pub pointers: Pointers,
    /// Rounds that one rank does for all.
    pub performances: HashMap<u64, Performance>,
    pub is_measuring: bool,
    /// The node was started again: it knows nothing of it.
    pub is_orphan: bool,
    /// Who has died with the lock of the table.
    pub lock_died: Option<u32>,
    /// Who has left it, as the node or the table must know.
    pub left: BTreeSet<u32>,
    /// What calls must give that are decided and not answered.
    expected: HashMap<Key, Expected>,
    /// Calls of rounds that are not decided.
    rounds: BTreeMap<u64, BTreeMap<u32, (Call, usize)>>,
    first_round: u64,
    round_of: HashMap<Key, u64>,
    /// What has arrived and waits for what is before it.
    line: VecDeque<Waiting>,
}

/// A rank and its step.
type Key = (u32, usize);

/// Where the ranks meet.
pub enum Place {
    /// At the node, by messages.
    Node,
    /// In common memory.
    Table(AtTable),
}

/// What one rank does for all.
pub struct Performance {
    pub rank: u32,
    /// The bytes that it has read.
    pub read: Option<Vec<u8>>,
    pub has_failed: bool,
}

enum Waiting {
    One(Key, Step),
    Round(u64),
}

impl Opening {
    pub fn new(id: AssemblyId, index: usize, plan: Plan, place: Place) -> Self {
        let pointers = Pointers::new(plan.mode, 0, plan.programs.len());
        Self {
            id,
            index,
            plan,
            place,
            pointers,
            performances: HashMap::new(),
            is_measuring: false,
            is_orphan: false,
            lock_died: None,
            left: BTreeSet::new(),
            expected: HashMap::new(),
            rounds: BTreeMap::new(),
            first_round: 0,
            round_of: HashMap::new(),
            line: VecDeque::new(),
        }
    }

    /// Whether a rank was the last at the table to hear that all have closed the file.
    pub fn is_last_out(&self, rank: u32) -> bool {
        matches!(&self.place, Place::Table(table) if table.is_last_out(rank))
    }

    pub fn is_at_table(&self) -> bool {
        matches!(self.place, Place::Table(_))
    }

    /// The model hears of a call that was made.
    pub fn hear(&mut self, ticket: &Ticket, call: &SharedCall) {
        let key = ticket.key();
        match call {
            SharedCall::Transfer(transfer) => {
                self.line.push_back(Waiting::One(key, Step::Transfer(*transfer)));
            }
            SharedCall::Seek(seek) => self.line.push_back(Waiting::One(key, Step::Seek(*seek))),
            SharedCall::Close => {
                self.expected.insert(key, Expected::Done);
                self.left.insert(ticket.rank);
            }
            SharedCall::Leave => {
                self.left.insert(ticket.rank);
            }
            SharedCall::Meet { number, call } if !self.is_at_table() => {
                self.counted(ticket, *number, call.clone());
            }
            _ => {}
        }
    }

    /// A call in which all meet counts.
    pub fn counted(&mut self, ticket: &Ticket, number: u64, call: Call) {
        let size = self.plan.programs.len();
        self.round_of.insert(ticket.key(), number);
        self.rounds.entry(number).or_default().insert(ticket.rank, (call, ticket.step));
        while self.rounds.get(&self.first_round).is_some_and(|calls| calls.len() == size) {
            self.line.push_back(Waiting::Round(self.first_round));
            self.first_round += 1;
        }
    }

    /// At a table nothing waits in line.
    pub fn catch_up(&mut self) {
        while self.is_at_table() && !self.line.is_empty() {
            self.decide();
        }
    }

    /// The model decides what comes first.
    fn decide(&mut self) {
        match self.line.pop_front() {
            Some(Waiting::One(key, Step::Transfer(transfer))) => {
                let expected = self.pointers.transfer(key.0, transfer);
                self.expected.insert(key, expected);
            }
            Some(Waiting::One(key, Step::Seek(seek))) => {
                let expected = self.pointers.seek(seek);
                self.expected.insert(key, expected);
            }
            Some(Waiting::Round(number)) => {
                let calls = self.rounds.remove(&number).unwrap_or_default();
                let plain = calls.iter().map(|(rank, (call, _))| (*rank, call.clone())).collect();
                let expected = self.pointers.round(&plain);
                for ((rank, (_, step)), expected) in calls.into_iter().zip(expected) {
                    self.expected.insert((rank, step), expected);
                }
            }
            Some(Waiting::One(..)) | None => {}
        }
    }

    /// An answer goes out: it must be what the model says.
    pub fn check(
        &mut self,
        ticket: &Ticket,
        result: &Result<Outcome, Trouble>,
        is_meeting: bool,
    ) -> Result<()> {
        let rank = ticket.rank;
        match result {
            Err(Trouble::Unknown) => {
                ensure!(self.is_orphan, "rank {rank} is told that it is not known, and it is");
                return Ok(());
            }
            Err(Trouble::Gone { rank: left } | Trouble::Closed { rank: left }) => {
                ensure!(self.left.contains(left), "rank {left} is said to have left, and has not");
                let is_due = is_meeting || self.lock_died == Some(*left);
                ensure!(is_due, "rank {rank} waits for nobody, and is told of rank {left}");
                self.expected.remove(&ticket.key());
                return Ok(());
            }
            _ => {}
        }
        while !self.expected.contains_key(&ticket.key()) {
            ensure!(!self.line.is_empty(), "rank {rank} got {result:?} out of turn");
            self.decide();
        }
        let expected = self.expected.remove(&ticket.key()).context("it was looked for")?;
        let given = self.given(ticket, result, expected)?;
        ensure!(given == expected, "rank {rank} got {given:?} and not {expected:?}");
        Ok(())
    }

    fn given(
        &mut self,
        ticket: &Ticket,
        result: &Result<Outcome, Trouble>,
        expected: Expected,
    ) -> Result<Expected> {
        let rank = ticket.rank;
        let place =
            |placement: &Placement| Expected::Place(placement.offset.into(), placement.len.into());
        Ok(match result {
            Ok(Outcome::Done) => Expected::Done,
            Ok(Outcome::At(offset)) => Expected::At((*offset).into()),
            Ok(Outcome::Placed(placement)) => place(placement),
            Ok(Outcome::Perform { number, placement }) => {
                self.is_round_of(ticket, *number)?;
                let performance = Performance { rank, read: None, has_failed: false };
                let other = self.performances.insert(*number, performance);
                ensure!(other.is_none(), "two ranks do round {number}");
                place(placement)
            }
            Ok(Outcome::Performed { number, placement }) => {
                self.is_round_of(ticket, *number)?;
                let done = self.performances.get(number);
                match done.and_then(|done| done.read.as_ref()).filter(|_| !self.is_at_table()) {
                    // There may have been less to read than was hoped for.
                    Some(read) => {
                        ensure!(placement.len == read.len() as u64, "{placement:?} was not read");
                        let Expected::Place(_, len) = expected else { return Ok(place(placement)) };
                        Expected::Place(placement.offset.into(), len)
                    }
                    None => place(placement),
                }
            }
            Err(Trouble::OutOfRange(_)) => Expected::Refused,
            Err(Trouble::Disagreement(_)) => Expected::Disagree,
            Err(Trouble::WrongMode { .. }) => Expected::NotNow,
            Err(Trouble::NotPerformed { rank: by, .. }) => {
                let number = self.round_of.get(&ticket.key()).context("it is no round")?;
                let failed = self.performances.get(number).filter(|done| done.has_failed);
                ensure!(failed.is_some_and(|done| done.rank == *by), "rank {by} has done it");
                expected
            }
            Err(other) => anyhow::bail!("rank {rank} was told: {other}"),
        })
    }

    fn is_round_of(&self, ticket: &Ticket, number: u64) -> Result<()> {
        let own = self.round_of.get(&ticket.key());
        ensure!(own == Some(&number), "rank {} got round {number} and not {own:?}", ticket.rank);
        Ok(())
    }

    /// The mode, as the model sees it.
    pub fn mode(&self) -> Mode {
        self.pointers.mode
    }
}
