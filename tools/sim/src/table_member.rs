//! A shared file whose ranks meet in common memory, driven like one whose ranks meet at a node: calls
//! go in, answers come out. Who takes the lock, sleeps and wakes does it as the library does; a rank
//! that sleeps sees nothing before somebody says that something has happened.

use std::cell::Cell;

use anyhow::{Result, bail};
use fastrand::Rng;
use pario_net::MemoryPart;
use pario_proto::{
    BroadcastChunk, BytesUse, Call, CallArrival, CallOutcome, CollectiveError, CoordinationTable,
    SharedCall,
};

use crate::home_node::FileOutput;
use crate::world::Ticket;

/// The memory, and who sleeps.
pub struct TableMembers {
    memory: MemoryPart,
    sleepers: Vec<Sleeper>,
    /// Who was the last to hear that all have closed the file.
    last_out: Cell<Option<u32>>,
}

/// A rank that waits for others.
struct Sleeper {
    ticket: Ticket,
    what: AwaitedEvent,
    /// TicketPurpose the word of events was when it last looked.
    seen: Option<u32>,
}

enum AwaitedEvent {
    /// Room for a round.
    Slot(u64, Call),
    /// TicketPurpose came of a round.
    Outcome(u64),
    /// Bytes for itself.
    Range,
}

/// TicketPurpose became of a call.
#[derive(PartialEq, Eq)]
pub enum CallAttempt {
    /// It was made.
    Made,
    /// Somebody has the lock, and will never let go of it.
    Locked,
}

/// How far what one does for all has come.
pub enum Progress {
    /// There is nothing to do before something happens.
    Sleeps,
    /// A part is done.
    Part,
    /// All is done: so many bytes.
    All(u64),
}

impl TableMembers {
    pub fn new(memory: MemoryPart) -> Self {
        Self { memory, sleepers: Vec::new(), last_out: Cell::new(None) }
    }

    /// Whether a rank was the last to hear that all have closed the file.
    pub fn is_last_out(&self, rank: u32) -> bool {
        self.last_out.get() == Some(rank)
    }

    fn table(&self) -> CoordinationTable<'_> {
        CoordinationTable::attach(self.memory.words()).expect("the node has made it")
    }

    /// How often something has happened.
    pub fn event_count(&self) -> u32 {
        self.table().event_count()
    }

    /// A rank takes the lock and dies with it.
    pub fn die_with_lock(&self, rank: u32) -> bool {
        self.table().try_lock(rank, false)
    }

    /// The lock, for as long as something is done; not if it is taken.
    fn lock(&self, rank: u32) -> Result<Option<CoordinationTable<'_>>, CollectiveError> {
        let table = self.table();
        if table.try_lock(rank, false) {
            return Ok(Some(table));
        }
        table.check_lock_holder().map(|()| None)
    }

    /// A rank calls. The file has so many bytes.
    pub fn call(
        &mut self,
        ticket: Ticket,
        call: SharedCall,
        len: u64,
        outputs: &mut Vec<FileOutput>,
    ) -> CallAttempt {
        let rank = ticket.rank;
        if let SharedCall::Performed { number, done } = &call {
            // Only one rank does it, so it needs no lock.
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

    /// Those who were woken look, some of them or all; whether anybody did.
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

    /// A rank looks whether it has what it waits for; if not, it sleeps.
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

    /// Looks who is gone.
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
                let mut is_news = false;
                while arrived == Ok(CallArrival::Recorded) && held.is_round_complete() {
                    let measure = || {
                        outputs.push(FileOutput::Measured);
                        Ok(len)
                    };
                    held.decide_round(|| held.measure_for(call, 0, measure));
                    is_news = true;
                }
                held.unlock();
                if is_news {
                    held.signal_event();
                }
                match arrived {
                    Ok(CallArrival::NoSlot) => false,
                    Ok(CallArrival::Recorded) => {
                        // TicketPurpose was measured was measured for the round.
                        let at = outputs
                            .iter()
                            .position(|outputs| matches!(outputs, FileOutput::Measured));
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
                    // It is taken when it is done.
                    Ok(CallOutcome::Perform { .. } | CallOutcome::Performed { .. })
                    // It was not decided, and never will be.
                    | Err(CollectiveError::Gone { .. } | CollectiveError::Closed { .. }) => {}
                    _ => {
                        if self.acknowledge(*number) && table.is_over() {
                            self.last_out.set(Some(rank));
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

    /// Has what it wanted to know of a round; whether it was the last to.
    fn acknowledge(&self, number: u64) -> bool {
        let table = self.table();
        let is_last = table.acknowledge(number);
        if is_last {
            table.signal_event();
        }
        is_last
    }

    /// A rank waits no more: it is gone, or the node is.
    pub fn forget(&mut self, rank: u32) {
        self.sleepers.retain(|sleeper| sleeper.ticket.rank != rank);
    }

    /// Nobody sleeps who would find what it waits for.
    pub fn check_wake_ups(&mut self, len: u64) -> Result<()> {
        for mut sleeper in std::mem::take(&mut self.sleepers) {
            let mut outputs = Vec::new();
            if self.is_over(&mut sleeper, len, &mut outputs) {
                bail!("nobody has woken rank {} for {:?}", sleeper.ticket.rank, sleeper.ticket);
            }
            self.sleepers.push(sleeper);
        }
        Ok(())
    }

    /// The rank that reads for all gives the next part to the others; `read` is asked for it.
    pub fn give(
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

    /// A rank takes the next part of what another one does for all; nothing but its end, if that is
    /// a write.
    pub fn get(
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
