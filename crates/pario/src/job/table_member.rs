//! This process as a member of a coordination table, in the job memory.
//! `pario_proto::CoordinationTable` has the decisions, `pario_net` the lock and the waits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pario_net::{
    ChangeWord, OwnerLock, SharedMemory, SharedMemoryPart, SharedMemoryShape, WaitLimits,
};
use pario_proto::{
    AccessRange, BytesUse, Call, CallArrival, CallOutcome, CollectiveError, CoordinationTable,
    DescriptorRequest, JobMemoryId, OPEN_REPLY_LIMIT_BYTES, Seek, Transfer,
};

use super::files::JobFiles;

/// How a rank waits at a table. The awaited rank is usually about to call, and may need this core.
/// Between two sleeps a rank checks its connection to the node.
const TABLE_WAIT: WaitLimits = WaitLimits {
    spins: 0,
    yield_time: Duration::from_micros(100),
    first_park: Duration::from_millis(10),
    longest_park: Duration::from_millis(200),
};

/// The memory of a job, mapped by this process.
pub struct JobMemory {
    id: JobMemoryId,
    memory: Arc<SharedMemory>,
    /// Only the node marks lost ranks in the memory, so its connection is watched.
    is_node_connected: Box<dyn Fn() -> bool + Send + Sync>,
}

/// This process as a member of a table in that memory.
#[derive(Debug)]
pub struct TableMember {
    memory: SharedMemoryPart,
    rank: u32,
    job_memory: Arc<JobMemory>,
}

/// A started request that `pario status` shows; dropping this hides it.
#[derive(Debug)]
#[must_use = "the request is hidden at once"]
pub struct ShownRequest {
    memory: SharedMemoryPart,
    rank: u32,
    id: u64,
}

/// Claimed bytes of this rank; released by dropping it.
struct RangeGuard<'t>(&'t TableMember);

/// The lock of the table, held; released by dropping it.
struct TableGuard<'t> {
    member: &'t TableMember,
    table: CoordinationTable<'t>,
}

impl JobMemory {
    /// Asks the node for the memory of a job, and maps it.
    pub(super) fn attach(files: &JobFiles, id: JobMemoryId) -> Result<Self, String> {
        let cluster = &files.cluster.shared;
        let request = DescriptorRequest::Memory(id);
        let request = postcard::to_allocvec(&request).unwrap_or_default();
        let given = cluster.descriptors(cluster.interface_number(), &request);
        let memory = given.and_then(|(_, descriptors)| descriptors.into_iter().next());
        let failed = |why: &str| format!("the node does not pass the memory of the job: {why}");
        let memory = memory
            .ok_or_else(|| failed("it stops, or was restarted or reset; open the file again"))?;
        let (words, bytes) =
            (CoordinationTable::word_count(files.job().size()), CoordinationTable::BUFFER_BYTES);
        let shape =
            SharedMemoryShape { parts: CoordinationTable::TABLES_PER_JOB as usize, words, bytes };
        let memory = SharedMemory::from_descriptor(memory, shape)
            .map_err(|error| failed(&error.to_string()))?;
        let node = cluster.interface().watch().map_err(|error| error.to_string())?;
        let memory = Arc::new(memory);
        match CoordinationTable::attach(memory.part(0).words()) {
            Some(table) if table.size() == files.job().size() => {
                Ok(Self::new(id, memory, move || node.is_open()))
            }
            _ => Err(failed("it belongs to a job of another size")),
        }
    }

    /// The memory of a job. `is_node_connected` returns false when the node does not mark lost ranks
    /// in it any more.
    pub fn new(
        id: JobMemoryId,
        memory: Arc<SharedMemory>,
        is_node_connected: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { id, memory, is_node_connected: Box::new(is_node_connected) }
    }

    /// Whether it has this id.
    pub fn has_id(&self, id: JobMemoryId) -> bool {
        self.id == id
    }
}

impl Drop for ShownRequest {
    fn drop(&mut self) {
        if let Some(table) = CoordinationTable::attach(self.memory.words()) {
            table.hide_request(self.rank, self.id);
        }
    }
}

impl TableMember {
    /// A rank at one of the tables; the first is that of the job.
    pub fn new(job_memory: Arc<JobMemory>, number: u32, rank: u32) -> Result<Self, String> {
        if number >= CoordinationTable::TABLES_PER_JOB {
            return Err("the node names a table that the job memory does not have".to_owned());
        }
        Ok(Self { memory: job_memory.memory.part(number as usize), rank, job_memory })
    }

    fn is_node_connected(&self) -> bool {
        (self.job_memory.is_node_connected)()
    }

    /// The time that the table shows: milliseconds by the clock of the machine.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.memory.now().as_millis()).unwrap_or(u64::MAX)
    }

    fn changes(&self) -> ChangeWord<'_> {
        ChangeWord::new(&self.memory, CoordinationTable::CHANGE_WORD)
    }

    fn owner_lock(&self) -> OwnerLock<'_> {
        OwnerLock::new(&self.memory, CoordinationTable::LOCK_WORD)
    }

    fn table(&self) -> Result<CoordinationTable<'_>, CollectiveError> {
        let table =
            CoordinationTable::attach(self.memory.words()).filter(|_| self.is_node_connected());
        let table = table.ok_or(CollectiveError::Unknown)?;
        if table.is_reset() { Err(CollectiveError::Reset) } else { Ok(table) }
    }

    /// Makes a collective call. The rank that completes a round decides it for all.
    pub fn call(
        &self,
        number: u64,
        call: &Call,
        measure: impl Fn() -> Result<u64, String>,
    ) -> Result<(), CollectiveError> {
        loop {
            {
                let held = self.lock()?;
                held.table.process_losses();
                let arrived = held.table.add_call(self.rank, number, call, self.now_ms())?;
                if arrived == CallArrival::Recorded {
                    let mut is_decided = false;
                    while held.table.is_round_complete() {
                        let table = &held.table;
                        let mine = (self.rank, call);
                        table.decide_round(|| table.measure_for(mine, self.now_ms(), &measure));
                        is_decided = true;
                    }
                    drop(held);
                    if is_decided {
                        self.signal();
                    }
                    return Ok(());
                }
            }
            // The round that uses this slot must end first.
            self.wait(|table| match table.ended_by() {
                Some(error) => Some(Err(error)),
                None => table.has_slot_for(number).then_some(Ok(())),
            })??;
        }
    }

    /// Waits for the outcome of a call.
    pub fn outcome(&self, number: u64) -> Result<CallOutcome, CollectiveError> {
        let outcome = self.wait(|table| table.outcome(self.rank, number))?;
        match outcome {
            // It is acknowledged when the access is done.
            Ok(CallOutcome::Perform { .. } | CallOutcome::Performed { .. }) => {}
            // The round was not decided, and never will be.
            Err(CollectiveError::Gone { .. } | CollectiveError::Closed { .. }) => {}
            _ => self.acknowledge(number)?,
        }
        outcome
    }

    /// Waits until all ranks have closed the file. Returns true for the last rank to see this; no
    /// rank uses the table after that.
    pub fn wait_closed(&self, number: u64) -> Result<bool, CollectiveError> {
        match self.wait(|table| table.outcome(self.rank, number))? {
            // The node may give the table to another file as soon as the last rank has
            // acknowledged.
            Ok(_) => Ok(self.table()?.acknowledge(number)),
            Err(error @ (CollectiveError::Gone { .. } | CollectiveError::Closed { .. })) => {
                Err(error)
            }
            Err(error) => {
                self.acknowledge(number)?;
                Err(error)
            }
        }
    }

    /// Says that this rank has read the outcome of a round.
    fn acknowledge(&self, number: u64) -> Result<(), CollectiveError> {
        if self.table()?.acknowledge(number) {
            self.signal();
        }
        Ok(())
    }

    /// Records a call of this rank for display. `path` is that of the file, or empty if this is the
    /// table of the file.
    pub fn record_call(&self, call: &Call, path: &str) {
        if let Some(table) = CoordinationTable::attach(self.memory.words()) {
            table.record_call(self.rank, call, path, self.now_ms());
        }
    }

    /// Shows the private pointer of this rank; `None` in a mode with a shared one.
    pub fn show_pointer(&self, pointer: Option<u64>) {
        if let Some(table) = CoordinationTable::attach(self.memory.words()) {
            table.show_pointer(self.rank, pointer);
        }
    }

    /// Shows a started request of this rank, until the result is dropped.
    pub fn show_request(&self, id: u64, is_write: bool, len: u64) -> ShownRequest {
        if let Some(table) = CoordinationTable::attach(self.memory.words()) {
            let at_ms = self.now_ms();
            table
                .show_request(self.rank, pario_proto::RecordedRequest { id, is_write, len, at_ms });
        }
        ShownRequest { memory: self.memory.clone(), rank: self.rank, id }
    }

    /// Places an access, first come, first served.
    pub fn transfer(
        &self,
        transfer: Transfer,
        measure: impl FnOnce() -> Result<u64, String>,
    ) -> Result<AccessRange, CollectiveError> {
        let (held, call) = (self.lock()?, Call::Transfer(transfer));
        let mine = (self.rank, &call);
        held.table.transfer(transfer, || held.table.measure_for(mine, self.now_ms(), measure))
    }

    /// Moves the shared pointer.
    pub fn seek(
        &self,
        seek: Seek,
        measure: impl FnOnce() -> Result<u64, String>,
    ) -> Result<u64, CollectiveError> {
        let (held, call) = (self.lock()?, Call::Seek(seek));
        let mine = (self.rank, &call);
        held.table.seek(seek, || held.table.measure_for(mine, self.now_ms(), measure))
    }

    /// The shared pointer.
    pub fn offset(&self) -> Result<u64, CollectiveError> {
        Ok(self.lock()?.table.offset())
    }

    /// Leaves the table. Fails if the ranks close the file together in this mode.
    pub fn close(&self) -> Result<(), CollectiveError> {
        self.lock()?.table.check_close()?;
        self.leave();
        Ok(())
    }

    /// Leaves the table: collective calls of the other ranks fail.
    pub fn leave(&self) {
        if let Ok(held) = self.lock() {
            held.table.leave(self.rank);
            drop(held);
            self.signal();
        }
    }

    /// Reads for all ranks, and broadcasts the bytes in chunks. `read` reads a chunk at an offset
    /// of the access into a buffer, and returns the number of bytes.
    pub fn broadcast_read(
        &self,
        number: u64,
        buffer: &mut [u8],
        mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, String>,
    ) -> Result<Result<usize, String>, CollectiveError> {
        let table = self.table()?;
        let len = buffer.len() as u64;
        let mut done = Ok(0);
        for chunk in table.chunks(number, len) {
            self.wait(|table| table.can_produce(chunk).then_some(()))?;
            let from = usize::try_from(chunk.offset).unwrap_or(usize::MAX);
            let piece = &mut buffer[from..from + chunk.len];
            match read(chunk.offset, piece) {
                Ok(count) => {
                    self.memory.put(chunk.buffer_offset, &piece[..count]);
                    done = Ok(from + count);
                }
                Err(why) => {
                    done = Err(why);
                    break;
                }
            }
            table.mark_produced(number);
            table.mark_consumed(self.rank, chunk.number.wrapping_add(1));
            self.signal();
            // The file may be shorter than its known end.
            if done != Ok(from + chunk.len) {
                break;
            }
        }
        table.mark_consumed(self.rank, table.chunks_end(number, len));
        self.report_performed(number, &done.clone().map(|count| count as u64))?;
        Ok(done)
    }

    /// Receives the bytes that another rank reads for all. Returns their number.
    pub fn receive_read(&self, number: u64, buffer: &mut [u8]) -> Result<usize, CollectiveError> {
        let table = self.table()?;
        let len = buffer.len() as u64;
        let mut got = Ok(0);
        for (index, chunk) in (0..).zip(table.chunks(number, len)) {
            let is_there = self.wait(|table| match table.performed(number) {
                _ if table.produced_count(number) > index => Some(Ok(true)),
                Some(Ok(_)) => Some(Ok(false)),
                Some(Err(error)) => Some(Err(error)),
                None => None,
            })?;
            match is_there {
                Ok(true) => {
                    let from = usize::try_from(chunk.offset).unwrap_or(usize::MAX);
                    self.memory.get(chunk.buffer_offset, &mut buffer[from..from + chunk.len]);
                    table.mark_consumed(self.rank, chunk.number.wrapping_add(1));
                    self.signal();
                }
                Ok(false) => break,
                Err(error) => {
                    got = Err(error);
                    break;
                }
            }
        }
        if got.is_ok() {
            got = self.wait(|table| table.performed(number))?;
        }
        table.mark_consumed(self.rank, table.chunks_end(number, len));
        self.acknowledge(number)?;
        got.map(|count| usize::try_from(count).unwrap_or(usize::MAX).min(buffer.len()))
    }

    /// Broadcasts the reply to the open that this rank has made for all, or why it failed.
    pub fn broadcast_open(
        &self,
        number: u64,
        reply: &Result<Vec<u8>, String>,
    ) -> Result<(), CollectiveError> {
        let table = self.table()?;
        if let (Ok(reply), Some(chunk)) =
            (reply, table.chunks(number, OPEN_REPLY_LIMIT_BYTES).next())
        {
            self.wait(|table| table.can_produce(chunk).then_some(()))?;
            self.memory.put(chunk.buffer_offset, reply);
        }
        table.mark_consumed(self.rank, table.chunks_end(number, OPEN_REPLY_LIMIT_BYTES));
        self.report_performed(
            number,
            &reply.as_ref().map(|reply| reply.len() as u64).map_err(String::clone),
        )
    }

    /// Receives the reply to the open that another rank has made for all.
    pub fn receive_open(&self, number: u64) -> Result<Vec<u8>, CollectiveError> {
        let performed = self.wait(|table| table.performed(number))?;
        let table = self.table()?;
        let reply = performed.map(|len| {
            let len = len.min(OPEN_REPLY_LIMIT_BYTES);
            let mut reply = vec![0; usize::try_from(len).unwrap_or(0)];
            if let Some(chunk) = table.chunks(number, OPEN_REPLY_LIMIT_BYTES).next() {
                self.memory.get(chunk.buffer_offset, &mut reply);
            }
            reply
        });
        table.mark_consumed(self.rank, table.chunks_end(number, OPEN_REPLY_LIMIT_BYTES));
        self.acknowledge(number)?;
        reply
    }

    /// Reports the result of an access that this rank has performed for all.
    pub fn report_performed(
        &self,
        number: u64,
        done: &Result<u64, String>,
    ) -> Result<(), CollectiveError> {
        self.table()?.finish_perform(number, done);
        self.signal();
        self.acknowledge(number)
    }

    /// Waits for the result of an access that another rank performs for all.
    pub fn wait_performed(&self, number: u64) -> Result<u64, CollectiveError> {
        let performed = self.wait(|table| table.performed(number))?;
        self.acknowledge(number)?;
        performed
    }

    /// Runs `what` while no other rank writes some bytes, or while no other rank uses them. This
    /// rank can do one at a time.
    pub fn with_range<R>(
        &self,
        bytes: BytesUse,
        what: impl FnOnce() -> R,
    ) -> Result<R, CollectiveError> {
        self.claim_range(bytes)?;
        let _guard = RangeGuard(self);
        Ok(what())
    }

    /// Waits until this rank holds some bytes, which it then releases.
    pub fn claim_range(&self, bytes: BytesUse) -> Result<(), CollectiveError> {
        let has_it = {
            let held = self.lock()?;
            held.table.claim_range(self.rank, bytes, self.now_ms());
            held.table.holds_range(self.rank)
        };
        let guard = RangeGuard(self);
        if !has_it {
            let mut seen = None;
            self.wait(|_| {
                // Only a change can have freed the bytes.
                let now = self.changes().count();
                if seen.replace(now) == Some(now) {
                    return None;
                }
                match self.lock() {
                    Ok(held) => held.table.holds_range(self.rank).then_some(Ok(())),
                    Err(error) => Some(Err(error)),
                }
            })??;
        }
        std::mem::forget(guard);
        Ok(())
    }

    /// Makes the range that this rank holds larger. Returns false if another rank uses or has claimed
    /// some of the bytes.
    pub fn widen_range(&self, bytes: BytesUse) -> bool {
        self.lock().is_ok_and(|held| held.table.widen_range(self.rank, bytes))
    }

    /// Releases the range of this rank.
    pub fn release_range(&self) {
        drop(RangeGuard(self));
    }

    /// Waits until `ready` returns a value. Fails if the node is lost.
    fn wait<R>(
        &self,
        mut ready: impl FnMut(&CoordinationTable<'_>) -> Option<R>,
    ) -> Result<R, CollectiveError> {
        let table = self.table()?;
        self.changes().wait(&TABLE_WAIT, || match ready(&table) {
            Some(ready) => Some(Ok(ready)),
            None => self.process_losses(&table).err().map(Err),
        })
    }

    /// Processes ranks that the node has marked as lost. Fails if the node is lost, or has reset the
    /// table.
    fn process_losses(&self, table: &CoordinationTable<'_>) -> Result<(), CollectiveError> {
        if table.is_reset() {
            return Err(CollectiveError::Reset);
        }
        if table.has_new_losses() {
            self.lock()?.table.process_losses();
            // Ranks may wait for bytes that the lost rank held.
            self.signal();
        } else if !self.is_node_connected() {
            return Err(CollectiveError::Unknown);
        }
        Ok(())
    }

    /// Locks the table. Fails if a rank was lost with the lock: the table may be half changed.
    fn lock(&self) -> Result<TableGuard<'_>, CollectiveError> {
        let table = self.table()?;
        self.owner_lock().lock(self.rank, &TABLE_WAIT, |owner| {
            if table.is_reset() {
                return Some(CollectiveError::Reset);
            }
            let gone = table.is_lost(owner).then_some(CollectiveError::Gone { rank: owner });
            gone.or_else(|| (!self.is_node_connected()).then_some(CollectiveError::Unknown))
        })?;
        Ok(TableGuard { member: self, table })
    }

    /// Wakes the ranks that wait for changes.
    fn signal(&self) {
        if self.table().is_ok() {
            self.changes().signal();
        }
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        // If this fails, the lock or the node is lost, and no rank gets bytes any more.
        if let Ok(held) = self.0.lock() {
            held.table.release_range(self.0.rank);
        }
        self.0.signal();
    }
}

impl Drop for TableGuard<'_> {
    fn drop(&mut self) {
        self.member.owner_lock().unlock(self.member.rank);
    }
}

impl fmt::Debug for JobMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobMemory").field("id", &self.id).finish_non_exhaustive()
    }
}
