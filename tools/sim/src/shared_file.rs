//! The file while all ranks have it open: its coordination, and the expectations of the model.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use anyhow::{Context, Result, ensure};
use pario_proto::{
    AccessRange, Call, CallOutcome, CollectiveError, Mode, SharedCall, SharedFileId,
};

use crate::model::{Expected, Pointers};
use crate::program::{Plan, Step, reason_of};
use crate::table_members::TableMembers;
use crate::world::Ticket;

/// The file while all ranks have it open.
pub struct OpenedFile {
    pub id: SharedFileId,
    /// The number of opens before this one.
    pub index: usize,
    pub plan: Plan,
    pub coordination: CoordinationState,
    pub pointers: Pointers,
    /// Accesses that one rank performs for all, by the number of the round.
    pub performances: HashMap<u64, Performance>,
    pub is_measuring: bool,
    /// Whether the node was restarted and has forgotten the file.
    pub is_orphan: bool,
    /// The rank that has died with the lock of the table.
    pub lock_died: Option<u32>,
    /// The ranks that have left, as the node or the table must know.
    pub left: BTreeSet<u32>,
    /// Expected outcomes of calls that are decided and not answered.
    expected: HashMap<StepKey, Expected>,
    /// Calls of rounds that are not decided.
    rounds: BTreeMap<u64, BTreeMap<u32, (Call, usize)>>,
    first_round: u64,
    round_of: HashMap<StepKey, u64>,
    /// Calls that wait for earlier ones.
    line: VecDeque<QueuedCall>,
}

/// A rank and its step.
type StepKey = (u32, usize);

/// Where the ranks coordinate.
pub enum CoordinationState {
    /// At the node, by messages.
    Node,
    /// In the job memory.
    Table(TableMembers),
}

/// An access that one rank performs for all.
pub struct Performance {
    pub rank: u32,
    /// The bytes that it has read.
    pub read: Option<Vec<u8>>,
    pub has_failed: bool,
}

enum QueuedCall {
    One(StepKey, Step),
    Round(u64),
}

impl OpenedFile {
    pub fn new(
        id: SharedFileId,
        index: usize,
        plan: Plan,
        coordination: CoordinationState,
    ) -> Self {
        let pointers = Pointers::new(plan.mode, 0, plan.programs.len());
        Self {
            id,
            index,
            plan,
            coordination,
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

    /// Whether a rank was the last at the table to see that all ranks have closed the file.
    pub fn is_last_to_close(&self, rank: u32) -> bool {
        matches!(&self.coordination, CoordinationState::Table(table) if table.is_last_to_close(rank))
    }

    pub fn has_table(&self) -> bool {
        matches!(self.coordination, CoordinationState::Table(_))
    }

    /// Records a call in the model.
    pub fn record(&mut self, ticket: &Ticket, call: &SharedCall) {
        let key = ticket.key();
        match call {
            SharedCall::Transfer(transfer) => {
                self.line.push_back(QueuedCall::One(key, Step::Transfer(*transfer)));
            }
            SharedCall::Seek(seek) => self.line.push_back(QueuedCall::One(key, Step::Seek(*seek))),
            SharedCall::Close => {
                self.expected.insert(key, Expected::Done);
                self.left.insert(ticket.rank);
            }
            SharedCall::Leave => {
                self.left.insert(ticket.rank);
            }
            SharedCall::Collective { number, call } if !self.has_table() => {
                self.record_round_call(ticket, *number, call.clone());
            }
            _ => {}
        }
    }

    /// Adds a recorded collective call to the model.
    pub fn record_round_call(&mut self, ticket: &Ticket, number: u64, call: Call) {
        let size = self.plan.programs.len();
        self.round_of.insert(ticket.key(), number);
        self.rounds.entry(number).or_default().insert(ticket.rank, (call, ticket.step));
        while self.rounds.get(&self.first_round).is_some_and(|calls| calls.len() == size) {
            self.line.push_back(QueuedCall::Round(self.first_round));
            self.first_round += 1;
        }
    }

    /// Adds bytes that a rank has read for all in a round, or its failure.
    pub fn read_for_all(&mut self, number: u64, bytes: Result<Vec<u8>, String>) -> Result<()> {
        let done = self.performances.get_mut(&number).context("no rank performs this round")?;
        match bytes {
            Ok(bytes) => done.read.get_or_insert_default().extend(bytes),
            Err(_) => done.has_failed = true,
        }
        Ok(())
    }

    /// Decides all queued calls; at a table no call waits in a queue.
    pub fn catch_up(&mut self) {
        while self.has_table() && !self.line.is_empty() {
            self.decide();
        }
    }

    /// Decides the first call in the queue, in the model.
    fn decide(&mut self) {
        match self.line.pop_front() {
            Some(QueuedCall::One(key, Step::Transfer(transfer))) => {
                let expected = self.pointers.transfer(key.0, transfer);
                self.expected.insert(key, expected);
            }
            Some(QueuedCall::One(key, Step::Seek(seek))) => {
                let expected = self.pointers.seek(seek);
                self.expected.insert(key, expected);
            }
            Some(QueuedCall::Round(number)) => {
                let calls = self.rounds.remove(&number).unwrap_or_default();
                let plain = calls.iter().map(|(rank, (call, _))| (*rank, call.clone())).collect();
                let expected = self.pointers.round(&plain);
                for ((rank, (_, step)), expected) in calls.into_iter().zip(expected) {
                    self.expected.insert((rank, step), expected);
                }
            }
            Some(QueuedCall::One(..)) | None => {}
        }
    }

    /// Fails if a reply is not what the model expects.
    pub fn check(
        &mut self,
        ticket: &Ticket,
        result: &Result<CallOutcome, CollectiveError>,
        is_collective: bool,
    ) -> Result<()> {
        let rank = ticket.rank;
        match result {
            Err(CollectiveError::Unknown) => {
                ensure!(
                    self.is_orphan,
                    "rank {rank} gets the error that it is unknown, and it is known"
                );
                return Ok(());
            }
            Err(CollectiveError::Gone { rank: left } | CollectiveError::Closed { rank: left }) => {
                ensure!(
                    self.left.contains(left),
                    "rank {left} is reported to have left, and has not"
                );
                let is_due = is_collective || self.lock_died == Some(*left);
                ensure!(
                    is_due,
                    "rank {rank} does not wait, and gets an error because of rank {left}"
                );
                self.expected.remove(&ticket.key());
                return Ok(());
            }
            _ => {}
        }
        while !self.expected.contains_key(&ticket.key()) {
            ensure!(!self.line.is_empty(), "rank {rank} got {result:?} out of turn");
            self.decide();
        }
        let expected =
            self.expected.remove(&ticket.key()).context("the model expects no outcome")?;
        let given = self.given(ticket, result, expected)?;
        ensure!(given == expected, "rank {rank} got {given:?} and not {expected:?}");
        Ok(())
    }

    fn given(
        &mut self,
        ticket: &Ticket,
        result: &Result<CallOutcome, CollectiveError>,
        expected: Expected,
    ) -> Result<Expected> {
        let rank = ticket.rank;
        let place = |range: &AccessRange| Expected::Range(range.offset.into(), range.len.into());
        Ok(match result {
            Ok(CallOutcome::Done) => Expected::Done,
            Ok(CallOutcome::At(offset)) => Expected::At((*offset).into()),
            Ok(CallOutcome::Placed(range)) => place(range),
            Ok(CallOutcome::Perform { number, range }) => {
                self.is_round_of(ticket, *number)?;
                let performance = Performance { rank, read: None, has_failed: false };
                let other = self.performances.insert(*number, performance);
                ensure!(other.is_none(), "two ranks do round {number}");
                place(range)
            }
            Ok(CallOutcome::Performed { number, range }) => {
                self.is_round_of(ticket, *number)?;
                let done = self.performances.get(number);
                match done.and_then(|done| done.read.as_ref()).filter(|_| !self.has_table()) {
                    // The file may have had fewer bytes than expected.
                    Some(read) => {
                        ensure!(range.len == read.len() as u64, "{range:?} was not read");
                        let Expected::Range(_, len) = expected else {
                            return Ok(place(range));
                        };
                        Expected::Range(range.offset.into(), len)
                    }
                    None => place(range),
                }
            }
            Err(CollectiveError::OutOfRange(_)) => Expected::Refused,
            Err(CollectiveError::Disagreement(_)) => Expected::Disagree,
            Err(CollectiveError::RankFailed { rank, why }) => {
                ensure!(**why == *reason_of(*rank as usize), "rank {rank} did not say {why:?}");
                Expected::Failed(*rank)
            }
            Err(CollectiveError::WrongMode { .. }) => Expected::NotNow,
            Err(CollectiveError::NotPerformed { rank: by, .. }) => {
                let number = self.round_of.get(&ticket.key()).context("it is no round")?;
                let failed = self.performances.get(number).filter(|done| done.has_failed);
                ensure!(failed.is_some_and(|done| done.rank == *by), "rank {by} has done it");
                expected
            }
            Err(other) => anyhow::bail!("rank {rank} got the error: {other}"),
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
