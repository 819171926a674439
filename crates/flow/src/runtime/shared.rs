//! What all threads of a process share: the program, the way to every thread, the calls.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pario_net::{OutputPort, SendError, Space};
use parking_lot::Mutex;

use super::balance::Balance;
use super::board::Board;
use super::calls::{Calls, Ended};
use super::ids::{CallId, Position, SpaceNumber, ThreadNumber};
use super::message::{Debt, Envelope, Message, Payload, Plain};
use super::snapshot::{SpaceView, StageView};
use crate::error::CallError;
use crate::place::{Choice, Site};
use crate::schedule::{Node, Operation, Step};
use crate::token::Parcel;
use crate::trace::Trace;

/// How long a port of another process is waited for; they exist before a program begins.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Shared {
    pub(crate) program: String,
    pub(crate) operations: Vec<Arc<Operation>>,
    pub(crate) slots: Vec<PlacedSlot>,
    pub(crate) threads: Vec<PlacedThread>,
    pub(crate) spaces: Vec<PlacedSpace>,
    pub(crate) me: SpaceNumber,
    pub(crate) space: Space,
    pub(crate) calls: Calls,
    pub(crate) ended: Ended,
    /// One for each slot.
    balances: Vec<Balance>,
    /// Which calls have sent tokens to which other process.
    involved: Mutex<HashMap<SpaceNumber, BTreeSet<(u32, u64)>>>,
    lost: Mutex<BTreeSet<SpaceNumber>>,
}

pub(crate) struct PlacedSlot {
    pub(crate) name: String,
    pub(crate) first: u32,
    pub(crate) size: usize,
    pub(crate) is_pool: bool,
}

pub(crate) struct PlacedThread {
    pub(crate) name: String,
    pub(crate) space: SpaceNumber,
    pub(crate) port: OnceLock<OutputPort<Message>>,
    /// For threads of this process.
    pub(crate) board: Option<Arc<Board>>,
}

pub(crate) struct PlacedSpace {
    pub(crate) name: String,
    pub(crate) port: OnceLock<OutputPort<Message>>,
}

impl Shared {
    #[expect(clippy::too_many_arguments, reason = "it is made in one place")]
    pub(crate) fn new(
        program: String,
        operations: Vec<Arc<Operation>>,
        slots: Vec<PlacedSlot>,
        threads: Vec<PlacedThread>,
        spaces: Vec<PlacedSpace>,
        me: SpaceNumber,
        space: Space,
        max_calls: usize,
    ) -> Self {
        let balances = slots
            .iter()
            .map(|slot| {
                Balance::new((0..slot.size).map(|index| {
                    let number = slot.thread(index);
                    let is_near = threads[number.0 as usize].space == me;
                    (number, if is_near { 1 } else { 2 })
                }))
            })
            .collect();
        Self {
            program,
            operations,
            slots,
            threads,
            spaces,
            me,
            space,
            calls: Calls::new(max_calls),
            ended: Ended::default(),
            balances,
            involved: Mutex::default(),
            lost: Mutex::default(),
        }
    }

    pub(crate) fn node(&self, position: Position) -> &Node {
        &self.operations[position.operation as usize].nodes[position.node as usize]
    }

    pub(crate) fn operation_name(&self, position: Position) -> String {
        self.operations[position.operation as usize].name.clone()
    }

    pub(crate) fn thread_name(&self, thread: ThreadNumber) -> &str {
        &self.threads[thread.0 as usize].name
    }

    /// The thread that a site means for a token; nothing if any will do.
    pub(crate) fn resolve(
        &self,
        site: &Site,
        parcel: &Parcel,
        indices: impl FnOnce() -> Vec<u64>,
        position: Position,
    ) -> Result<Option<ThreadNumber>, CallError> {
        let slot = &self.slots[site.slot];
        let index = match &site.choice {
            Choice::Index(index) => *index,
            Choice::Computed(choose) => choose(parcel, &indices()),
            Choice::Any => return Ok(None),
        };
        if index >= slot.size {
            return Err(CallError::NoSuchThread {
                operation: self.operation_name(position),
                step: self.node(position).name.clone(),
                pool: slot.name.clone(),
                index,
                size: slot.size,
            });
        }
        Ok(Some(slot.thread(index)))
    }

    /// Sends a message to a thread, wherever it lives.
    pub(crate) fn send(
        &self,
        to: ThreadNumber,
        call: CallId,
        message: Message,
    ) -> Result<(), CallError> {
        let thread = &self.threads[to.0 as usize];
        if thread.space != self.me {
            self.involve(thread.space, call);
        }
        let port = match thread.port.get() {
            Some(port) => port,
            None => self.open(&thread.port, &thread.name, thread.space, call)?,
        };
        port.send(message).map_err(|error| self.send_error(error, &thread.name, thread.space, call))
    }

    /// Sends a message to the steward of a process.
    pub(crate) fn tell(
        &self,
        to: SpaceNumber,
        call: CallId,
        message: Message,
    ) -> Result<(), CallError> {
        let space = &self.spaces[to.0 as usize];
        let port = match space.port.get() {
            Some(port) => port,
            None => self.open(&space.port, &steward_name(&space.name), to, call)?,
        };
        port.send(message).map_err(|error| self.send_error(error, &space.name, to, call))?;
        port.flush();
        Ok(())
    }

    fn open<'a>(
        &self,
        keep: &'a OnceLock<OutputPort<Message>>,
        name: &str,
        space: SpaceNumber,
        call: CallId,
    ) -> Result<&'a OutputPort<Message>, CallError> {
        if self.is_lost(space) {
            return Err(self.space_lost_error(space, call));
        }
        let port = self
            .space
            .output::<Message>(&port_name(&self.program, name), OPEN_TIMEOUT)
            .map_err(|error| CallError::Transfer {
                operation: self.call_name(call),
                from: self.spaces[self.me.0 as usize].name.clone(),
                to: name.to_owned(),
                message: error.to_string(),
            })?;
        Ok(keep.get_or_init(|| port))
    }

    fn send_error(
        &self,
        error: SendError<Message>,
        name: &str,
        space: SpaceNumber,
        call: CallId,
    ) -> CallError {
        match error {
            SendError::Lost { .. } => self.space_lost_error(space, call),
            error => CallError::Transfer {
                operation: self.call_name(call),
                from: self.spaces[self.me.0 as usize].name.clone(),
                to: name.to_owned(),
                message: error.to_string(),
            },
        }
    }

    /// Gives a token to a thread of a pool that is free, or keeps it until one is.
    pub(crate) fn send_to_any(&self, slot: usize, mut envelope: Envelope) -> Result<(), CallError> {
        envelope.debt = Some(Debt {
            to: self.me,
            slot: u32::try_from(slot).expect("programs have fewer pools"),
        });
        match self.balances[slot].send(envelope) {
            Some((thread, envelope)) => {
                let call = envelope.route.call;
                self.send(thread, call, Message::Token(envelope))
            }
            None => Ok(()),
        }
    }

    /// A thread has finished a token that it got by [`send_to_any`](Self::send_to_any).
    pub(crate) fn settle(&self, debt: Debt, thread: ThreadNumber) {
        if debt.to != self.me {
            let settled = Message::Plain(Plain::Settled { slot: debt.slot, thread });
            // If that process is gone, nobody waits for it.
            let nobody = CallId { origin: self.me, number: u64::MAX };
            let _ = self.tell(debt.to, nobody, settled);
            return;
        }
        if let Some(envelope) = self.balances[debt.slot as usize].settled(thread) {
            let call = envelope.route.call;
            if let Err(error) = self.send(thread, call, Message::Token(envelope)) {
                self.fail(call, error);
            }
        }
    }

    /// Ends a call with its result.
    pub(crate) fn finish(&self, call: CallId, position: Position, parcel: Parcel) {
        if call.origin == self.me {
            self.calls.end(call.number, Ok(parcel));
            return;
        }
        let codec = self.node(position).input;
        let result = Message::Result(call, Payload::Here(parcel, codec));
        if self.tell(call.origin, call, result).is_err() {
            self.abort_here(call);
        }
    }

    /// Ends a call with an error: wherever it was made, and everywhere its tokens may be.
    pub(crate) fn fail(&self, call: CallId, error: CallError) {
        if call.origin != self.me {
            self.abort_here(call);
            let failed = Message::Plain(Plain::Failed { call, error });
            // If the process that made the call is gone, nobody is left to be told.
            let _ = self.tell(call.origin, call, failed);
            return;
        }
        if self.calls.operation(call.number).is_none() {
            return;
        }
        self.abort_here(call);
        for space in 0..self.spaces.len() {
            let space = SpaceNumber(u32::try_from(space).expect("there are fewer processes"));
            if space != self.me && !self.is_lost(space) {
                let _ = self.tell(space, call, Message::Plain(Plain::Abort { call }));
            }
        }
        self.calls.end(call.number, Err(error));
    }

    /// Forgets the tokens of a call in this process.
    pub(crate) fn abort_here(&self, call: CallId) {
        self.ended.abort(call.origin, call.number);
        self.purge();
        let threads = (0u32..).zip(&self.threads);
        for (number, _) in threads.filter(|(_, thread)| thread.space == self.me) {
            let _ = self.send(ThreadNumber(number), call, Message::Plain(Plain::Abort { call }));
        }
    }

    fn purge(&self) {
        for balance in &self.balances {
            balance.retain(|envelope| {
                let call = envelope.route.call;
                !self.ended.contains(call.origin, call.number)
            });
        }
    }

    /// Another process is gone: the calls it had a part in fail. Whether this is news.
    pub(crate) fn lose(&self, space: SpaceNumber) -> bool {
        if !self.lost.lock().insert(space) {
            return false;
        }
        self.ended.lose(space);
        self.purge();
        let involved = self.involved.lock().remove(&space).unwrap_or_default();
        for (origin, number) in involved {
            let call = CallId { origin: SpaceNumber(origin), number };
            let is_open = call.origin != self.me || self.calls.operation(number).is_some();
            if call.origin != space && is_open {
                self.fail(call, self.space_lost_error(space, call));
            }
        }
        let is_lost = |thread: ThreadNumber| self.threads[thread.0 as usize].space == space;
        for balance in &self.balances {
            for envelope in balance.lose(is_lost) {
                let call = envelope.route.call;
                self.fail(call, self.space_lost_error(space, call));
            }
        }
        let call = CallId { origin: space, number: u64::MAX };
        self.abort_here(call);
        true
    }

    pub(crate) fn is_lost(&self, space: SpaceNumber) -> bool {
        self.lost.lock().contains(&space)
    }

    pub(crate) fn lost_names(&self) -> Vec<String> {
        let lost = self.lost.lock();
        lost.iter().map(|space| self.spaces[space.0 as usize].name.clone()).collect()
    }

    /// The process of that name.
    pub(crate) fn space_named(&self, name: &str) -> Option<SpaceNumber> {
        let position = self.spaces.iter().position(|space| space.name == name)?;
        u32::try_from(position).ok().map(SpaceNumber)
    }

    /// Notes that a call has sent something to another process.
    fn involve(&self, space: SpaceNumber, call: CallId) {
        let mut involved = self.involved.lock();
        let calls = involved.entry(space).or_default();
        let is_new = calls.insert((call.origin.0, call.number));
        // Calls that have ended are of no interest any more; it is enough to look now and then.
        if is_new && calls.len().is_multiple_of(1024) {
            let oldest = self.calls.oldest();
            calls.retain(|(origin, number)| {
                if *origin == self.me.0 {
                    *number >= oldest
                } else {
                    !self.ended.contains(SpaceNumber(*origin), *number)
                }
            });
        }
    }

    fn space_lost_error(&self, space: SpaceNumber, call: CallId) -> CallError {
        CallError::SpaceLost {
            operation: self.call_name(call),
            space: self.spaces[space.0 as usize].name.clone(),
        }
    }

    /// The operation of a call, as far as it is known here.
    fn call_name(&self, call: CallId) -> String {
        let operation = (call.origin == self.me).then(|| self.calls.operation(call.number));
        match operation.flatten() {
            Some(operation) => self.operations[operation].name.clone(),
            None => format!("of call {}", call.number),
        }
    }

    /// How many messages the threads of this process have dealt with.
    pub(crate) fn moves(&self) -> u64 {
        self.threads
            .iter()
            .filter_map(|thread| thread.board.as_ref())
            .map(|board| board.tokens())
            .sum()
    }

    pub(crate) fn view(&self) -> SpaceView {
        let mut stages = Vec::new();
        for operation in &self.operations {
            for node in &operation.nodes {
                let window = match &node.step {
                    Step::Split(split) => Some(split.window.to_string()),
                    _ => None,
                };
                stages.push(StageView {
                    operation: operation.name.clone(),
                    step: node.name.clone(),
                    tokens_in: 0,
                    tokens_out: 0,
                    busy_share: 0.0,
                    peak: 0,
                    window,
                });
            }
        }
        let space = &self.spaces[self.me.0 as usize].name;
        let counters = self.space.counters();
        let mut threads = Vec::new();
        for thread in &self.threads {
            if let Some(board) = &thread.board {
                let name = port_name(&self.program, &thread.name);
                let port = counters.ports.iter().find(|port| port.name == name);
                let depth = port.map_or(0, |port| port.depth);
                threads.push(board.view(depth, &self.operations, space));
                board.add_to(&mut stages);
            }
        }
        let unassigned = self.slots.iter().zip(&self.balances);
        let unassigned = unassigned
            .filter(|(slot, _)| slot.is_pool)
            .map(|(slot, balance)| (slot.name.clone(), balance.waiting()))
            .collect();
        SpaceView { stages, threads, unassigned }
    }

    /// What the threads of this process have recorded.
    pub(crate) fn trace(&self) -> Trace {
        let space = &self.spaces[self.me.0 as usize].name;
        let boards = self.threads.iter().filter_map(|thread| thread.board.as_ref());
        let traces = boards.filter_map(|board| {
            let recorder = board.recorder.as_ref()?;
            Some(recorder.trace(space, &board.name, &self.operations))
        });
        Trace::merge(traces.collect())
    }
}

impl PlacedSlot {
    pub(crate) fn thread(&self, index: usize) -> ThreadNumber {
        ThreadNumber(self.first + u32::try_from(index).expect("pools are smaller"))
    }
}

/// The name of the port of a thread or of a steward.
pub(crate) fn port_name(program: &str, owner: &str) -> String {
    format!("{program}/{owner}")
}

/// The steward of a process, as the owner of a port.
pub(crate) fn steward_name(space: &str) -> String {
    format!("steward of {space}")
}
