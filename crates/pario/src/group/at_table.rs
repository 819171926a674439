//! This process at a table: memory that all ranks of a group have in common, because all of them are
//! on one machine. What is decided there is in `pario_proto::Table`; here is who takes its lock,
//! sleeps and wakes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pario_net::{SharedMemory, SharedMemoryPart, SharedMemoryShape, machine_ms};
use pario_proto::{
    Arrival, BytesUse, Call, DescriptorRequest, MemoryId, OPENING_LIMIT_BYTES, Outcome, Placement,
    Seek, Table, Transfer, Trouble,
};

use super::Group;
use crate::connection::Watch;

/// How long to look again and again before sleeping: whoever is waited for is mostly about to come.
const PATIENCE: Duration = Duration::from_micros(100);
/// How long to sleep at most before looking whether the node is still there, at first and later.
const FIRST_SLEEP: Duration = Duration::from_millis(10);
const LONGEST_SLEEP: Duration = Duration::from_millis(200);

/// Memory that this process has in common with the others of its job.
pub(super) struct Seated {
    id: MemoryId,
    memory: Arc<SharedMemory>,
    /// The node says in the memory who is gone; if it is gone itself, nobody does.
    node: Watch,
}

/// This process at a table in that memory.
pub(super) struct AtTable {
    memory: SharedMemoryPart,
    rank: u32,
    seated: Arc<Seated>,
}

/// Bytes that this rank has, or wants.
struct Range<'t>(&'t AtTable);

/// The lock of the table, held.
struct Locked<'t> {
    of: &'t AtTable,
    table: Table<'t>,
}

impl Seated {
    /// Has the node give the memory of a job to this process.
    pub fn sit_down(group: &Group, id: MemoryId) -> Result<Self, String> {
        let cluster = &group.cluster.shared;
        let request = DescriptorRequest::Memory(id);
        let request = postcard::to_allocvec(&request).unwrap_or_default();
        let given = cluster.descriptors(cluster.interface_number(), &request);
        let memory = given.and_then(|(_, descriptors)| descriptors.into_iter().next());
        let failed = |why: &str| format!("the node gives no memory to meet the others in: {why}");
        let memory = memory
            .ok_or_else(|| failed("it stops, was started again or reset: open the file again"))?;
        let (words, bytes) = (Table::words_of(group.size()), Table::ROOM_BYTES);
        let shape = SharedMemoryShape { parts: Table::COUNT as usize, words, bytes };
        let memory = SharedMemory::from_descriptor(memory, shape)
            .map_err(|error| failed(&error.to_string()))?;
        let node = cluster.interface().watch().map_err(|error| error.to_string())?;
        let memory = Arc::new(memory);
        match Table::of(memory.part(0).words()) {
            Some(table) if table.size() == group.size() => Ok(Self { id, memory, node }),
            _ => Err(failed("it is made for others")),
        }
    }

    /// Whether it is this memory.
    pub fn is(&self, id: MemoryId) -> bool {
        self.id == id
    }
}

impl AtTable {
    /// A rank at one of the tables: that of the job is the first.
    pub fn new(seated: Arc<Seated>, number: u32, rank: u32) -> Result<Self, String> {
        if number >= Table::COUNT {
            return Err("the node speaks of memory that is not there".to_owned());
        }
        Ok(Self { memory: seated.memory.part(number as usize), rank, seated })
    }

    fn node_is_there(&self) -> bool {
        self.seated.node.is_open()
    }

    fn table(&self) -> Result<Table<'_>, Trouble> {
        let table = Table::of(self.memory.words()).filter(|_| self.node_is_there());
        let table = table.ok_or(Trouble::Unknown)?;
        if table.is_reset() { Err(Trouble::Reset) } else { Ok(table) }
    }

    /// Makes a call in which all meet. The last one decides for all.
    pub fn meet(
        &self,
        number: u64,
        call: &Call,
        measure: impl Fn() -> Result<u64, String>,
    ) -> Result<(), Trouble> {
        loop {
            {
                let held = self.lock()?;
                held.table.notice();
                let arrived = held.table.arrive(self.rank, number, call, machine_ms())?;
                if arrived == Arrival::Counted {
                    let mut is_news = false;
                    while held.table.is_complete() {
                        let table = &held.table;
                        table.decide(|| table.measuring(call, machine_ms(), &measure));
                        is_news = true;
                    }
                    drop(held);
                    if is_news {
                        self.tell_all();
                    }
                    return Ok(());
                }
            }
            // The round that has its place must be over first.
            self.wait(|table| match table.broken() {
                Some(trouble) => Some(Err(trouble)),
                None => table.has_room_for(number).then_some(Ok(())),
            })??;
        }
    }

    /// Waits for what came of a call.
    pub fn outcome(&self, number: u64) -> Result<Outcome, Trouble> {
        let outcome = self.wait(|table| table.outcome(self.rank, number))?;
        match outcome {
            // It is taken when it is done.
            Ok(Outcome::Perform { .. } | Outcome::Performed { .. }) => {}
            // It was not decided, and never will be.
            Err(Trouble::Gone { .. } | Trouble::Closed { .. }) => {}
            _ => self.take(number)?,
        }
        outcome
    }

    /// Waits until all have closed the file; whether this rank is the last to hear of it, after which
    /// nobody is at the table any more.
    pub fn closed(&self, number: u64) -> Result<bool, Trouble> {
        match self.wait(|table| table.outcome(self.rank, number))? {
            // Somebody else may be given the table as soon as the last one has heard of it.
            Ok(_) => Ok(self.table()?.take(number)),
            Err(trouble @ (Trouble::Gone { .. } | Trouble::Closed { .. })) => Err(trouble),
            Err(trouble) => {
                self.take(number)?;
                Err(trouble)
            }
        }
    }

    /// Has what it wanted to know of a round.
    fn take(&self, number: u64) -> Result<(), Trouble> {
        if self.table()?.take(number) {
            self.tell_all();
        }
        Ok(())
    }

    /// Notes for people what this rank calls. `path` is that of the file if the table is not the
    /// file's, and empty otherwise.
    pub fn note(&self, call: &Call, path: &str) {
        if let Some(table) = Table::of(self.memory.words()) {
            table.note_call(self.rank, call, path, machine_ms());
        }
    }

    /// A place for an access, first come, first served.
    pub fn transfer(
        &self,
        transfer: Transfer,
        measure: impl FnOnce() -> Result<u64, String>,
    ) -> Result<Placement, Trouble> {
        let (held, call) = (self.lock()?, Call::Transfer(transfer));
        held.table.transfer(transfer, || held.table.measuring(&call, machine_ms(), measure))
    }

    /// Moves the shared pointer.
    pub fn seek(
        &self,
        seek: Seek,
        measure: impl FnOnce() -> Result<u64, String>,
    ) -> Result<u64, Trouble> {
        let (held, call) = (self.lock()?, Call::Seek(seek));
        held.table.seek(seek, || held.table.measuring(&call, machine_ms(), measure))
    }

    /// Where the shared pointer is.
    pub fn offset(&self) -> Result<u64, Trouble> {
        Ok(self.lock()?.table.offset())
    }

    /// Leaves, if nobody has to agree.
    pub fn close(&self) -> Result<(), Trouble> {
        self.lock()?.table.may_close()?;
        self.leave();
        Ok(())
    }

    /// Leaves; whoever waits for this rank is told.
    pub fn leave(&self) {
        if let Ok(held) = self.lock() {
            held.table.leave(self.rank);
            drop(held);
            self.tell_all();
        }
    }

    /// Gives what this rank reads for all to the others, piece by piece. `read` reads a piece, that
    /// begins at this byte of what is read, and says how much there was.
    pub fn give(
        &self,
        number: u64,
        buffer: &mut [u8],
        mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, String>,
    ) -> Result<Result<usize, String>, Trouble> {
        let table = self.table()?;
        let len = buffer.len() as u64;
        let mut done = Ok(0);
        for chunk in table.chunks(number, len) {
            self.wait(|table| table.can_produce(chunk).then_some(()))?;
            let from = usize::try_from(chunk.from).unwrap_or(usize::MAX);
            let piece = &mut buffer[from..from + chunk.len];
            match read(chunk.from, piece) {
                Ok(count) => {
                    self.memory.put(chunk.place, &piece[..count]);
                    done = Ok(from + count);
                }
                Err(why) => {
                    done = Err(why);
                    break;
                }
            }
            table.produced(number);
            table.consumed(self.rank, chunk.number.wrapping_add(1));
            self.tell_all();
            // The file may have become shorter than it was known to be.
            if done != Ok(from + chunk.len) {
                break;
            }
        }
        table.consumed(self.rank, table.chunks_end(number, len));
        self.report(number, &done.clone().map(|count| count as u64))?;
        Ok(done)
    }

    /// Takes what another rank reads for all; how much there was.
    pub fn get(&self, number: u64, buffer: &mut [u8]) -> Result<usize, Trouble> {
        let table = self.table()?;
        let len = buffer.len() as u64;
        let mut got = Ok(0);
        for (index, chunk) in (0..).zip(table.chunks(number, len)) {
            let is_there = self.wait(|table| match table.performed(number) {
                _ if table.produced_of(number) > index => Some(Ok(true)),
                Some(Ok(_)) => Some(Ok(false)),
                Some(Err(trouble)) => Some(Err(trouble)),
                None => None,
            })?;
            match is_there {
                Ok(true) => {
                    let from = usize::try_from(chunk.from).unwrap_or(usize::MAX);
                    self.memory.get(chunk.place, &mut buffer[from..from + chunk.len]);
                    table.consumed(self.rank, chunk.number.wrapping_add(1));
                    self.tell_all();
                }
                Ok(false) => break,
                Err(trouble) => {
                    got = Err(trouble);
                    break;
                }
            }
        }
        if got.is_ok() {
            got = self.wait(|table| table.performed(number))?;
        }
        table.consumed(self.rank, table.chunks_end(number, len));
        self.take(number)?;
        got.map(|count| usize::try_from(count).unwrap_or(usize::MAX).min(buffer.len()))
    }

    /// Tells the others of what this rank has opened for all, or why it could not.
    pub fn tell_opening(&self, number: u64, told: &Result<Vec<u8>, String>) -> Result<(), Trouble> {
        let table = self.table()?;
        if let (Ok(told), Some(chunk)) = (told, table.chunks(number, OPENING_LIMIT_BYTES).next()) {
            self.wait(|table| table.can_produce(chunk).then_some(()))?;
            self.memory.put(chunk.place, told);
        }
        table.consumed(self.rank, table.chunks_end(number, OPENING_LIMIT_BYTES));
        self.report(number, &told.as_ref().map(|told| told.len() as u64).map_err(String::clone))
    }

    /// What another rank tells of what it has opened for all.
    pub fn hear_of_opening(&self, number: u64) -> Result<Vec<u8>, Trouble> {
        let performed = self.wait(|table| table.performed(number))?;
        let table = self.table()?;
        let told = performed.map(|len| {
            let len = len.min(OPENING_LIMIT_BYTES);
            let mut told = vec![0; usize::try_from(len).unwrap_or(0)];
            if let Some(chunk) = table.chunks(number, OPENING_LIMIT_BYTES).next() {
                self.memory.get(chunk.place, &mut told);
            }
            told
        });
        table.consumed(self.rank, table.chunks_end(number, OPENING_LIMIT_BYTES));
        self.take(number)?;
        told
    }

    /// Tells what came of what this rank did for all.
    pub fn report(&self, number: u64, done: &Result<u64, String>) -> Result<(), Trouble> {
        self.table()?.perform(number, done);
        self.tell_all();
        self.take(number)
    }

    /// Waits for what another rank does for all.
    pub fn performed(&self, number: u64) -> Result<u64, Trouble> {
        let performed = self.wait(|table| table.performed(number))?;
        self.take(number)?;
        performed
    }

    /// Does something while nobody writes some bytes, or while nobody uses them at all. One at a
    /// time of this rank.
    pub fn with_range<R>(&self, bytes: BytesUse, what: impl FnOnce() -> R) -> Result<R, Trouble> {
        let has_it = {
            let held = self.lock()?;
            held.table.want_range(self.rank, bytes, machine_ms());
            held.table.has_range(self.rank)
        };
        let _until_then = Range(self);
        if !has_it {
            let mut seen = None;
            self.wait(|table| {
                // Only a change can have freed it.
                let now = table.events();
                if seen.replace(now) == Some(now) {
                    return None;
                }
                match self.lock() {
                    Ok(held) => held.table.has_range(self.rank).then_some(Ok(())),
                    Err(trouble) => Some(Err(trouble)),
                }
            })??;
        }
        Ok(what())
    }

    /// Waits until something is there, or the node is gone.
    fn wait<R>(&self, mut ready: impl FnMut(&Table<'_>) -> Option<R>) -> Result<R, Trouble> {
        let table = self.table()?;
        let began = Instant::now();
        let mut longest = FIRST_SLEEP;
        loop {
            if let Some(ready) = ready(&table) {
                return Ok(ready);
            }
            if began.elapsed() < PATIENCE {
                // Whoever is waited for may need this very core.
                std::thread::yield_now();
                continue;
            }
            let words = self.memory.words();
            words[Table::SLEEPERS].fetch_add(1, Ordering::SeqCst);
            let seen = words[Table::EVENT].load(Ordering::SeqCst);
            let is_ready = ready(&table);
            if is_ready.is_none() && !table.has_news() {
                self.memory.sleep(Table::EVENT, seen, longest);
            }
            words[Table::SLEEPERS].fetch_sub(1, Ordering::SeqCst);
            if let Some(ready) = is_ready {
                return Ok(ready);
            }
            longest = (longest * 2).min(LONGEST_SLEEP);
            if table.is_reset() {
                return Err(Trouble::Reset);
            }
            if table.has_news() {
                self.lock()?.table.notice();
                // Those who sleep because of bytes that somebody had.
                self.tell_all();
            } else if !self.node_is_there() {
                return Err(Trouble::Unknown);
            }
        }
    }

    fn lock(&self) -> Result<Locked<'_>, Trouble> {
        let table = self.table()?;
        let held = || Locked { of: self, table };
        if table.try_lock(self.rank, false) {
            return Ok(held());
        }
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            std::thread::yield_now();
            if table.try_lock(self.rank, false) {
                return Ok(held());
            }
        }
        loop {
            if let Some(seen) = table.want_lock() {
                table.bury()?;
                self.memory.sleep(Table::LOCK, seen, LONGEST_SLEEP);
            }
            if table.try_lock(self.rank, true) {
                return Ok(held());
            }
            if !self.node_is_there() {
                return Err(Trouble::Unknown);
            }
        }
    }

    /// Says that something has happened.
    fn tell_all(&self) {
        if let Ok(table) = self.table()
            && table.happened()
        {
            self.memory.wake(Table::EVENT, i32::MAX.unsigned_abs());
        }
    }
}

impl Drop for Range<'_> {
    fn drop(&mut self) {
        // Without the lock, or without the node, nobody else gets anything either.
        if let Ok(held) = self.0.lock() {
            held.table.leave_range(self.0.rank);
        }
        self.0.tell_all();
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if self.table.unlock() {
            self.of.memory.wake(Table::LOCK, 1);
        }
    }
}
