//! A shared file whose ranks meet in common memory, driven like one whose ranks meet at a node: calls
//! go in, answers come out. Who takes the lock, sleeps and wakes does it as the library does; a rank
//! that sleeps sees nothing before somebody says that something has happened.

use std::cell::Cell;

use anyhow::{Result, bail};
use fastrand::Rng;
use pario_net::SharedMemoryPart;
use pario_proto::{Arrival, BytesUse, Call, Chunk, Outcome, SharedCall, Table, Trouble};

use crate::home::Said;
use crate::world::Ticket;

/// The memory, and who sleeps.
pub struct AtTable {
    memory: SharedMemoryPart,
    sleepers: Vec<Sleeper>,
    /// Who was the last to hear that all have closed the file.
    last_out: Cell<Option<u32>>,
}

/// A rank that waits for others.
struct Sleeper {
    ticket: Ticket,
    what: Awaited,
    /// What the word of events was when it last looked.
    seen: Option<u32>,
}

enum Awaited {
    /// Room for a round.
    Room(u64, Call),
    /// What came of a round.
    Outcome(u64),
    /// Bytes for itself.
    Range,
}

/// What became of a call.
#[derive(PartialEq, Eq)]
pub enum Turn {
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

impl AtTable {
    pub fn new(memory: SharedMemoryPart) -> Self {
        Self { memory, sleepers: Vec::new(), last_out: Cell::new(None) }
    }

    /// Whether a rank was the last to hear that all have closed the file.
    pub fn is_last_out(&self, rank: u32) -> bool {
        self.last_out.get() == Some(rank)
    }

    fn table(&self) -> Table<'_> {
        Table::of(self.memory.words()).expect("the node has made it")
    }

    /// How often something has happened.
    pub fn events(&self) -> u32 {
        self.table().events()
    }

    /// A rank takes the lock and dies with it.
    pub fn die_with_lock(&self, rank: u32) -> bool {
        self.table().try_lock(rank, false)
    }

    /// The lock, for as long as something is done; not if it is taken.
    fn lock(&self, rank: u32) -> Result<Option<Table<'_>>, Trouble> {
        let table = self.table();
        if table.try_lock(rank, false) {
            return Ok(Some(table));
        }
        table.bury().map(|()| None)
    }

    /// A rank calls. The file has so many bytes.
    pub fn call(
        &mut self,
        ticket: Ticket,
        call: SharedCall,
        len: u64,
        said: &mut Vec<Said>,
    ) -> Turn {
        let rank = ticket.rank;
        if let SharedCall::Performed { number, done } = &call {
            // Only one rank does it, so it needs no lock.
            self.table().perform(*number, done);
            self.table().happened();
            self.take(*number);
            said.push(Said::Answer(ticket, Ok(Outcome::Done)));
            return Turn::Made;
        }
        let table = match self.lock(rank) {
            Ok(Some(table)) => table,
            Ok(None) => return Turn::Locked,
            Err(trouble) => {
                said.push(Said::Answer(ticket, Err(trouble)));
                return Turn::Made;
            }
        };
        let mut measured = Vec::new();
        let measure = || {
            measured.push(Said::Measured);
            Ok(len)
        };
        let mut sleeps = None;
        let answer = match call {
            SharedCall::Performed { .. } | SharedCall::CloseForAll => None,
            SharedCall::Meet { number, call } => {
                sleeps = Some(Awaited::Room(number, call));
                None
            }
            SharedCall::Transfer(transfer) => {
                let call = Call::Transfer(transfer);
                let placed = table.transfer(transfer, || table.measuring(&call, 0, measure));
                Some(placed.map(Outcome::Placed))
            }
            SharedCall::Seek(seek) => {
                let call = Call::Seek(seek);
                let sought = table.seek(seek, || table.measuring(&call, 0, measure));
                Some(sought.map(Outcome::At))
            }
            SharedCall::Tell => Some(Ok(Outcome::At(table.offset()))),
            SharedCall::Lock { from, len, is_write, .. } => {
                table.want_range(rank, BytesUse::new(from, len, is_write), 0);
                sleeps = Some(Awaited::Range);
                None
            }
            SharedCall::Unlock { .. } => {
                table.leave_range(rank);
                table.happened();
                Some(Ok(Outcome::Done))
            }
            SharedCall::Close => {
                let closed = table.may_close();
                if closed.is_ok() {
                    table.leave(rank);
                    table.happened();
                }
                Some(closed.map(|()| Outcome::Done))
            }
            SharedCall::Leave => {
                table.leave(rank);
                table.happened();
                Some(Ok(Outcome::Done))
            }
        };
        table.unlock();
        said.append(&mut measured);
        said.extend(answer.map(|answer| Said::Answer(ticket, answer)));
        if let Some(what) = sleeps {
            let mut sleeper = Sleeper { ticket, what, seen: None };
            if !self.look_once(&mut sleeper, len, said) {
                self.sleepers.push(sleeper);
            }
        }
        Turn::Made
    }

    /// Those who were woken look, some of them or all; whether anybody did.
    pub fn look(&mut self, rng: &mut Rng, all: bool, len: u64, said: &mut Vec<Said>) -> bool {
        let mut is_any = false;
        let events = self.events();
        rng.shuffle(&mut self.sleepers);
        for mut sleeper in std::mem::take(&mut self.sleepers) {
            let looks = sleeper.seen != Some(events) && (all || rng.bool());
            is_any |= looks;
            if !looks || !self.look_once(&mut sleeper, len, said) {
                self.sleepers.push(sleeper);
            }
        }
        is_any
    }

    /// A rank looks whether it has what it waits for; if not, it sleeps.
    fn look_once(&self, sleeper: &mut Sleeper, len: u64, said: &mut Vec<Said>) -> bool {
        if let Err(trouble) = self.notice(sleeper.ticket.rank) {
            said.push(Said::Answer(sleeper.ticket, Err(trouble)));
            return true;
        }
        let (seen, mut found) = (self.events(), Vec::new());
        let is_over = self.is_over(sleeper, len, &mut found);
        said.append(&mut found);
        sleeper.seen = Some(seen);
        is_over
    }

    /// Looks who is gone.
    fn notice(&self, rank: u32) -> Result<(), Trouble> {
        if self.table().has_news()
            && let Some(table) = self.lock(rank)?
        {
            table.notice();
            table.unlock();
            table.happened();
        }
        Ok(())
    }

    fn is_over(&self, sleeper: &mut Sleeper, len: u64, said: &mut Vec<Said>) -> bool {
        let Sleeper { ticket, what, .. } = sleeper;
        let (table, rank) = (self.table(), ticket.rank);
        match what {
            Awaited::Room(number, call) => {
                let held = match self.lock(rank) {
                    Ok(Some(held)) => held,
                    Ok(None) => return false,
                    Err(trouble) => {
                        said.push(Said::Answer(*ticket, Err(trouble)));
                        return true;
                    }
                };
                held.notice();
                let arrived = held.arrive(rank, *number, call, 0);
                let mut is_news = false;
                while arrived == Ok(Arrival::Counted) && held.is_complete() {
                    let measure = || {
                        said.push(Said::Measured);
                        Ok(len)
                    };
                    held.decide(|| held.measuring(call, 0, measure));
                    is_news = true;
                }
                held.unlock();
                if is_news {
                    held.happened();
                }
                match arrived {
                    Ok(Arrival::Early) => false,
                    Ok(Arrival::Counted) => {
                        // What was measured was measured for the round.
                        let at = said.iter().position(|said| matches!(said, Said::Measured));
                        let counted = Said::Counted(*ticket, *number, call.clone());
                        said.insert(at.unwrap_or(said.len()), counted);
                        *what = Awaited::Outcome(*number);
                        self.is_over(sleeper, len, said)
                    }
                    Err(trouble) => {
                        said.push(Said::Answer(*ticket, Err(trouble)));
                        true
                    }
                }
            }
            Awaited::Outcome(number) => {
                let Some(outcome) = table.outcome(rank, *number) else { return false };
                match outcome {
                    // It is taken when it is done.
                    Ok(Outcome::Perform { .. } | Outcome::Performed { .. })
                    // It was not decided, and never will be.
                    | Err(Trouble::Gone { .. } | Trouble::Closed { .. }) => {}
                    _ => {
                        if self.take(*number) && table.is_over() {
                            self.last_out.set(Some(rank));
                        }
                    }
                }
                said.push(Said::Answer(*ticket, outcome));
                true
            }
            Awaited::Range => match self.lock(rank) {
                Ok(Some(held)) => {
                    let has_it = held.has_range(rank);
                    held.unlock();
                    if has_it {
                        said.push(Said::Answer(*ticket, Ok(Outcome::Done)));
                    }
                    has_it
                }
                Ok(None) => false,
                Err(trouble) => {
                    said.push(Said::Answer(*ticket, Err(trouble)));
                    true
                }
            },
        }
    }

    /// Has what it wanted to know of a round; whether it was the last to.
    fn take(&self, number: u64) -> bool {
        let table = self.table();
        let is_last = table.take(number);
        if is_last {
            table.happened();
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
            let mut said = Vec::new();
            if self.is_over(&mut sleeper, len, &mut said) {
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
    ) -> Result<Progress, Trouble> {
        self.notice(rank)?;
        let table = self.table();
        let is_next = |chunk: &Chunk| chunk.from == buffer.len() as u64;
        let next = table.chunks(number, wanted).find(is_next);
        let mut is_over = next.is_none();
        if let Some(chunk) = next {
            if !table.can_produce(chunk) {
                return Ok(Progress::Sleeps);
            }
            let piece = read(chunk.from, chunk.len);
            self.memory.put(chunk.place, &piece);
            buffer.extend_from_slice(&piece);
            table.produced(number);
            table.consumed(rank, chunk.number.wrapping_add(1));
            table.happened();
            is_over = piece.len() < chunk.len;
        }
        if !is_over {
            return Ok(Progress::Part);
        }
        table.consumed(rank, table.chunks_end(number, wanted));
        Ok(Progress::All(buffer.len() as u64))
    }

    /// A rank takes the next part of what another one does for all; nothing but its end, if that is
    /// a write.
    pub fn get(
        &self,
        (rank, number): (u32, u64),
        buffer: &mut Vec<u8>,
        wanted: Option<u64>,
    ) -> Result<Progress, Trouble> {
        self.notice(rank)?;
        let table = self.table();
        let is_next = |(_, chunk): &(u32, Chunk)| chunk.from == buffer.len() as u64;
        let next = wanted.and_then(|len| (0..).zip(table.chunks(number, len)).find(is_next));
        if let Some((index, chunk)) = next
            && table.produced_of(number) > index
        {
            let mut piece = vec![0; chunk.len];
            self.memory.get(chunk.place, &mut piece);
            buffer.extend_from_slice(&piece);
            table.consumed(rank, chunk.number.wrapping_add(1));
            table.happened();
            return Ok(Progress::Part);
        }
        let Some(performed) = table.performed(number) else { return Ok(Progress::Sleeps) };
        if let Some(len) = wanted {
            table.consumed(rank, table.chunks_end(number, len));
        }
        self.take(number);
        performed.map(Progress::All)
    }
}
