//! A shared file whose ranks coordinate in shared memory, driven like one at a node: calls go in,
//! replies come out. Locking, sleeping and waking follow the library; a rank that sleeps sees
//! nothing before an event is signalled.

use std::cell::Cell;

use anyhow::{Result, bail};
use fastrand::Rng;
use pario_net::SharedMemoryPart;
use pario_proto::{
    BroadcastChunk, BytesUse, Call, CallArrival, CallOutcome, CollectiveError, CoordinationTable,
    SharedCall,
};

use crate::home_node::FileOutput;
use crate::world::Ticket;

/// The table, and the ranks that sleep.
pub struct TableMembers {
    memory: SharedMemoryPart,
    sleepers: Vec<Sleeper>,
    /// The rank that was the last to see that all ranks have closed the file.
    last_to_close: Cell<Option<u32>>,
}

/// A rank that waits for others.
struct Sleeper {
    ticket: Ticket,
    what: AwaitedEvent,
    /// The event count when it last looked.
    seen: Option<u32>,
}

enum AwaitedEvent {
    /// A slot for a round.
    Slot(u64, Call),
    /// The outcome of a round.
    Outcome(u64),
    /// Claimed bytes.
    Range,
}

/// The result of an attempt to make a call.
#[derive(PartialEq, Eq)]
pub enum CallAttempt {
    /// The call was made.
    Made,
    /// Another rank holds the lock.
    Locked,
}

/// The progress of an access that one rank performs for all.
pub enum Progress {
    /// It must wait for an event.
    Sleeps,
    /// A part is done.
    Part,
    /// All is done: the number of bytes.
    All(u64),
}

impl TableMembers {
    pub fn new(memory: SharedMemoryPart) -> Self {
        Self { memory, sleepers: Vec::new(), last_to_close: Cell::new(None) }
    }

    /// Whether a rank was the last to see that all ranks have closed the file.
    pub fn is_last_to_close(&self, rank: u32) -> bool {
        self.last_to_close.get() == Some(rank)
    }

    fn table(&self) -> CoordinationTable<'_> {
        CoordinationTable::attach(self.memory.words()).expect("the node initialised the table")
    }

    /// The number of events so far.
    pub fn event_count(&self) -> u32 {
        self.table().event_count()
    }

    /// Lets a rank take the lock and die with it.
    pub fn die_with_lock(&self, rank: u32) -> bool {
        self.table().try_lock(rank, false)
    }

    /// Takes the lock; `None` if it is taken.
    fn lock(&self, rank: u32) -> Result<Option<CoordinationTable<'_>>, CollectiveError> {
        let table = self.table();
        if table.try_lock(rank, false) {
            return Ok(Some(table));
        }
        table.check_lock_holder().map(|()| None)
    }

    /// Makes a call of a rank. The file has `len` bytes.
    pub fn call(
        &mut self,
        ticket: Ticket,
        call: SharedCall,
        len: u64,
        outputs: &mut Vec<FileOutput>,
    ) -> CallAttempt {
        let rank = ticket.rank;
        if let SharedCall::Performed { number, done } = &call {
            // Only one rank performs the access, so this needs no lock.
            self.table().finish_perform(*number, done);
            self.table().signal_event();
            self.acknowledge(*number);
            outputs.push(FileOutput::Answer(ticket, Ok(CallOutcome::Done)));
            return CallAttempt::Made;
        }
        let table = match self.lock(rank) {
            Ok(Some(table)) => table,
            Ok(None) => return CallAttempt::Locked,
            Err(error) => {
                outputs.push(FileOutput::Answer(ticket, Err(error)));
                return CallAttempt::Made;
            }
        };
        let mut measured = Vec::new();
        let measure = || {
            measured.push(FileOutput::Measured);
            Ok(len)
        };
        let mut sleeps = None;
        let answer = match call {
            SharedCall::Performed { .. } | SharedCall::CloseForAll => None,
            SharedCall::Collective { number, call } => {
                sleeps = Some(AwaitedEvent::Slot(number, call));
                None
            }
            SharedCall::Transfer(transfer) => {
                let call = Call::Transfer(transfer);
                let placed = table.transfer(transfer, || table.measure_for(&call, 0, measure));
                Some(placed.map(CallOutcome::Placed))
            }
            SharedCall::Seek(seek) => {
                let call = Call::Seek(seek);
                let sought = table.seek(seek, || table.measure_for(&call, 0, measure));
                Some(sought.map(CallOutcome::At))
            }
            SharedCall::Tell => Some(Ok(CallOutcome::At(table.offset()))),
            SharedCall::Lock { from, len, is_write, .. } => {
                table.claim_range(rank, BytesUse::new(from, len, is_write), 0);
                sleeps = Some(AwaitedEvent::Range);
                None
            }
            SharedCall::Unlock { .. } => {
                table.release_range(rank);
                table.signal_event();
                Some(Ok(CallOutcome::Done))
            }
            SharedCall::Close => {
                let closed = table.check_close();
                if closed.is_ok() {
                    table.leave(rank);
                    table.signal_event();
                }
                Some(closed.map(|()| CallOutcome::Done))
            }
            SharedCall::Leave => {
                table.leave(rank);
                table.signal_event();
                Some(Ok(CallOutcome::Done))
            }
        };
        table.unlock();
        outputs.append(&mut measured);
        outputs.extend(answer.map(|answer| FileOutput::Answer(ticket, answer)));
        if let Some(what) = sleeps {
            let mut sleeper = Sleeper { ticket, what, seen: None };
            if !self.look_once(&mut sleeper, len, outputs) {
                self.sleepers.push(sleeper);
            }
        }
        CallAttempt::Made
    }

    /// Lets ranks that were woken look, some of them or all. Returns whether any did.
    pub fn look(
        &mut self,
        rng: &mut Rng,
        all: bool,
        len: u64,
        outputs: &mut Vec<FileOutput>,
    ) -> bool {
        let mut is_any = false;
        let events = self.event_count();
        rng.shuffle(&mut self.sleepers);
        for mut sleeper in std::mem::take(&mut self.sleepers) {
            let looks = sleeper.seen != Some(events) && (all || rng.bool());
            is_any |= looks;
            if !looks || !self.look_once(&mut sleeper, len, outputs) {
                self.sleepers.push(sleeper);
            }
        }
        is_any
    }

    /// Lets a rank look for what it waits for. Returns whether its wait is over; otherwise it
    /// sleeps.
    fn look_once(&self, sleeper: &mut Sleeper, len: u64, outputs: &mut Vec<FileOutput>) -> bool {
        if let Err(error) = self.process_losses(sleeper.ticket.rank) {
            outputs.push(FileOutput::Answer(sleeper.ticket, Err(error)));
            return true;
        }
        let (seen, mut found) = (self.event_count(), Vec::new());
        let is_over = self.is_over(sleeper, len, &mut found);
        outputs.append(&mut found);
        sleeper.seen = Some(seen);
        is_over
    }

    /// Processes lost ranks.
    fn process_losses(&self, rank: u32) -> Result<(), CollectiveError> {
        if self.table().has_new_losses()
            && let Some(table) = self.lock(rank)?
        {
            table.process_losses();
            table.unlock();
            table.signal_event();
        }
        Ok(())
    }

    fn is_over(&self, sleeper: &mut Sleeper, len: u64, outputs: &mut Vec<FileOutput>) -> bool {
        let Sleeper { ticket, what, .. } = sleeper;
        let (table, rank) = (self.table(), ticket.rank);
        match what {
            AwaitedEvent::Slot(number, call) => {
                let held = match self.lock(rank) {
                    Ok(Some(held)) => held,
                    Ok(None) => return false,
                    Err(error) => {
                        outputs.push(FileOutput::Answer(*ticket, Err(error)));
                        return true;
                    }
                };
                held.process_losses();
                let arrived = held.add_call(rank, *number, call, 0);
                let mut is_decided = false;
                while arrived == Ok(CallArrival::Recorded) && held.is_round_complete() {
                    let measure = || {
                        outputs.push(FileOutput::Measured);
                        Ok(len)
                    };
                    held.decide_round(|| held.measure_for(call, 0, measure));
                    is_decided = true;
                }
                held.unlock();
                if is_decided {
                    held.signal_event();
                }
                match arrived {
                    Ok(CallArrival::NoSlot) => false,
                    Ok(CallArrival::Recorded) => {
                        // The measurement was made for this round.
                        let at = outputs
                            .iter()
                            .position(|output| matches!(output, FileOutput::Measured));
                        let counted = FileOutput::Recorded(*ticket, *number, call.clone());
                        outputs.insert(at.unwrap_or(outputs.len()), counted);
                        *what = AwaitedEvent::Outcome(*number);
                        self.is_over(sleeper, len, outputs)
                    }
                    Err(error) => {
                        outputs.push(FileOutput::Answer(*ticket, Err(error)));
                        true
                    }
                }
            }
            AwaitedEvent::Outcome(number) => {
                let Some(outcome) = table.outcome(rank, *number) else { return false };
                match outcome {
                    // It is acknowledged when the access is done.
                    Ok(CallOutcome::Perform { .. } | CallOutcome::Performed { .. })
                    // The round was not decided, and never will be.
                    | Err(CollectiveError::Gone { .. } | CollectiveError::Closed { .. }) => {}
                    _ => {
                        if self.acknowledge(*number) && table.is_over() {
                            self.last_to_close.set(Some(rank));
                        }
                    }
                }
                outputs.push(FileOutput::Answer(*ticket, outcome));
                true
            }
            AwaitedEvent::Range => match self.lock(rank) {
                Ok(Some(held)) => {
                    let has_it = held.holds_range(rank);
                    held.unlock();
                    if has_it {
                        outputs.push(FileOutput::Answer(*ticket, Ok(CallOutcome::Done)));
                    }
                    has_it
                }
                Ok(None) => false,
                Err(error) => {
                    outputs.push(FileOutput::Answer(*ticket, Err(error)));
                    true
                }
            },
        }
    }

    /// Acknowledges the outcome of a round. Returns whether this rank was the last.
    fn acknowledge(&self, number: u64) -> bool {
        let table = self.table();
        let is_last = table.acknowledge(number);
        if is_last {
            table.signal_event();
        }
        is_last
    }

    /// Ends the waits of a rank, because it or the node is lost.
    pub fn forget(&mut self, rank: u32) {
        self.sleepers.retain(|sleeper| sleeper.ticket.rank != rank);
    }

    /// Fails if a rank sleeps whose wait is over.
    pub fn check_wake_ups(&mut self, len: u64) -> Result<()> {
        for mut sleeper in std::mem::take(&mut self.sleepers) {
            let mut outputs = Vec::new();
            if self.is_over(&mut sleeper, len, &mut outputs) {
                bail!("rank {} was not woken for {:?}", sleeper.ticket.rank, sleeper.ticket);
            }
            self.sleepers.push(sleeper);
        }
        Ok(())
    }

    /// Broadcasts the next chunk of a read for all; `read` reads it.
    pub fn broadcast(
        &self,
        (rank, number): (u32, u64),
        buffer: &mut Vec<u8>,
        wanted: u64,
        read: impl FnOnce(u64, usize) -> Vec<u8>,
    ) -> Result<Progress, CollectiveError> {
        self.process_losses(rank)?;
        let table = self.table();
        let is_next = |chunk: &BroadcastChunk| chunk.offset == buffer.len() as u64;
        let next = table.chunks(number, wanted).find(is_next);
        let mut is_over = next.is_none();
        if let Some(chunk) = next {
            if !table.can_produce(chunk) {
                return Ok(Progress::Sleeps);
            }
            let piece = read(chunk.offset, chunk.len);
            self.memory.put(chunk.buffer_offset, &piece);
            buffer.extend_from_slice(&piece);
            table.mark_produced(number);
            table.mark_consumed(rank, chunk.number.wrapping_add(1));
            table.signal_event();
            is_over = piece.len() < chunk.len;
        }
        if !is_over {
            return Ok(Progress::Part);
        }
        table.mark_consumed(rank, table.chunks_end(number, wanted));
        Ok(Progress::All(buffer.len() as u64))
    }

    /// Receives the next chunk that another rank reads for all; of a write, only its end.
    pub fn receive(
        &self,
        (rank, number): (u32, u64),
        buffer: &mut Vec<u8>,
        wanted: Option<u64>,
    ) -> Result<Progress, CollectiveError> {
        self.process_losses(rank)?;
        let table = self.table();
        let is_next = |(_, chunk): &(u32, BroadcastChunk)| chunk.offset == buffer.len() as u64;
        let next = wanted.and_then(|len| (0..).zip(table.chunks(number, len)).find(is_next));
        if let Some((index, chunk)) = next
            && table.produced_count(number) > index
        {
            let mut piece = vec![0; chunk.len];
            self.memory.get(chunk.buffer_offset, &mut piece);
            buffer.extend_from_slice(&piece);
            table.mark_consumed(rank, chunk.number.wrapping_add(1));
            table.signal_event();
            return Ok(Progress::Part);
        }
        let Some(performed) = table.performed(number) else { return Ok(Progress::Sleeps) };
        if let Some(len) = wanted {
            table.mark_consumed(rank, table.chunks_end(number, len));
        }
        self.acknowledge(number);
        performed.map(Progress::All)
    }
}
