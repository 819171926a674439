//! Job memory: the shared-memory object of a job whose ranks all run on this machine. It has a
//! coordination table for the job and one for each shared file. The ranks coordinate in it by
//! themselves; the node only creates it, passes it to them, and marks lost ranks.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use pario_net::clock::monotonic_ms;
use pario_net::{ChangeWord, OwnerLock, SharedMemory, SharedMemoryPart, SharedMemoryShape};
use pario_proto::{
    CoordinationTable, JobMemoryId, Mode, RecordedCall, RecordedRequest, ShownRank,
    StartedRequestStatus, TableLocation, TableWait,
};
use parking_lot::Mutex;

use crate::coordination::RankWait;

/// The memory of a job.
#[derive(Debug)]
pub struct JobMemory {
    id: JobMemoryId,
    memory: Arc<SharedMemory>,
    size: u32,
    /// The tables that no file uses.
    free: Vec<u32>,
}

/// A coordination table in the memory of a job, as the node uses it.
#[derive(Clone, Debug)]
pub struct JobTable(SharedMemoryPart);

/// The memories of all jobs of a node, for the processes of their users.
#[derive(Debug, Default)]
pub struct JobMemories {
    memories: Mutex<HashMap<JobMemoryId, (u32, Weak<SharedMemory>)>>,
}

impl JobMemory {
    /// Creates the memory for `size` ranks; `None` if there are too many, or if the machine has no
    /// memory for it.
    pub fn new(id: JobMemoryId, size: u32) -> Option<Self> {
        if size > CoordinationTable::RANKS_LIMIT {
            return None;
        }
        let (words, bytes) = (CoordinationTable::word_count(size), CoordinationTable::BUFFER_BYTES);
        let shape =
            SharedMemoryShape { parts: CoordinationTable::TABLES_PER_JOB as usize, words, bytes };
        let memory = match SharedMemory::new(shape) {
            Ok(memory) => Arc::new(memory),
            Err(error) => {
                tracing::warn!(%error, "cannot create the memory of a job; its ranks coordinate by messages");
                return None;
            }
        };
        CoordinationTable::new(memory.part(0).words(), size, Mode::Unix, None)?;
        Some(Self {
            id,
            memory,
            size,
            free: (1..CoordinationTable::TABLES_PER_JOB).rev().collect(),
        })
    }

    /// Returns its id.
    pub fn id(&self) -> JobMemoryId {
        self.id
    }

    /// Returns the shared-memory object.
    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.memory
    }

    /// Returns the table of the job.
    pub fn job_table(&self) -> JobTable {
        JobTable(self.memory.part(0))
    }

    /// Allocates a table for a file in a mode and with a length, if that is known; `None` if all
    /// tables are in use.
    pub fn allocate_table(
        &mut self,
        mode: Mode,
        len: Option<u64>,
    ) -> Option<(TableLocation, JobTable)> {
        let number = self.free.pop()?;
        let part = self.memory.part(number as usize);
        for word in part.words() {
            word.store(0, Ordering::Relaxed);
        }
        CoordinationTable::new(part.words(), self.size, mode, len)?;
        Some((TableLocation { memory: self.id, number }, JobTable(part)))
    }

    /// Frees a table that no rank uses any more.
    pub fn free_table(&mut self, location: TableLocation) {
        if location.memory == self.id {
            self.free.push(location.number);
        }
    }
}

impl JobTable {
    /// Marks a rank as lost, and wakes the others.
    pub fn mark_lost(&self, rank: u32) {
        self.update_and_wake(|table| table.mark_lost(rank));
    }

    /// Ends all calls at the table, and wakes all ranks.
    pub fn reset(&self) {
        self.update_and_wake(|table| table.reset());
    }

    /// Returns whether all ranks have left, according to the table.
    pub fn is_over(&self) -> bool {
        CoordinationTable::attach(self.0.words()).is_some_and(|table| table.is_over())
    }

    fn update_and_wake(&self, what: impl FnOnce(&CoordinationTable<'_>)) {
        if let Some(table) = CoordinationTable::attach(self.0.words()) {
            what(&table);
            ChangeWord::new(&self.0, CoordinationTable::CHANGE_WORD).signal();
            // A rank that waits for the lock may wait for the lost one.
            OwnerLock::new(&self.0, CoordinationTable::LOCK_WORD).wake_all();
        }
    }

    /// Returns the ranks that wait, by the clock of the node.
    pub fn waits(&self, now_ms: u64) -> Vec<RankWait> {
        let machine_ms = monotonic_ms();
        let waits = CoordinationTable::attach(self.0.words()).map(|table| table.waits(machine_ms));
        let wait = |wait: TableWait| RankWait {
            number: wait.number,
            arrived: wait.arrived,
            missing: wait.missing,
            since_ms: now_ms.saturating_sub(machine_ms.saturating_sub(wait.since_ms)),
            cause: wait.cause,
        };
        waits.unwrap_or_default().into_iter().map(wait).collect()
    }

    /// Returns the last call of a rank, by the clock of the node.
    pub fn last_call(&self, rank: u32, now_ms: u64) -> Option<RecordedCall> {
        let table =
            CoordinationTable::attach(self.0.words()).filter(|table| rank < table.size())?;
        let mut recorded = table.last_call(rank)?;
        recorded.at_ms = now_ms.saturating_sub(monotonic_ms().saturating_sub(recorded.at_ms));
        Some(recorded)
    }

    /// Returns what a rank shows of itself.
    pub fn shown_rank(&self, rank: u32) -> Option<ShownRank> {
        let table =
            CoordinationTable::attach(self.0.words()).filter(|table| rank < table.size())?;
        let machine_ms = monotonic_ms();
        let request = |request: RecordedRequest| StartedRequestStatus {
            id: request.id,
            is_write: request.is_write,
            len: request.len,
            ago_ms: machine_ms.saturating_sub(request.at_ms),
        };
        let requests = table.shown_requests(rank).into_iter().map(request).collect();
        Some(ShownRank { rank, pointer: table.shown_pointer(rank), requests })
    }

    /// Returns the mode, and the shared pointer if the mode has one.
    pub fn position(&self) -> (Mode, Option<u64>) {
        let table = CoordinationTable::attach(self.0.words());
        table.map(|table| (table.mode(), table.shared_offset())).unwrap_or_default()
    }

    /// Returns the end of the file, if it is known.
    pub fn known_end(&self) -> Option<u64> {
        CoordinationTable::attach(self.0.words())?.known_end()
    }
}

impl JobMemories {
    /// Gives the processes of a user access to a memory, as long as the job exists.
    pub fn add(&self, id: JobMemoryId, uid: u32, memory: &Arc<SharedMemory>) {
        let mut memories = self.memories.lock();
        memories.retain(|_, (_, memory)| memory.strong_count() > 0);
        memories.insert(id, (uid, Arc::downgrade(memory)));
    }

    /// Returns the number of memories of a user, and of all users.
    pub(crate) fn count(&self, uid: u32) -> (u64, u64) {
        let memories = self.memories.lock();
        let live = || memories.values().filter(|(_, memory)| memory.strong_count() > 0);
        (live().filter(|(of, _)| *of == uid).count() as u64, live().count() as u64)
    }

    /// Returns the descriptor of a memory, for its user or root. Fails if there is no such memory.
    pub fn share(&self, id: JobMemoryId, uid: u32) -> io::Result<OwnedFd> {
        let memories = self.memories.lock().get(&id).cloned();
        let of_user = memories.filter(|(of, _)| *of == uid || uid == 0);
        match of_user.and_then(|(_, memory)| memory.upgrade()) {
            Some(memory) => memory.descriptor().try_clone_to_owned(),
            None => Err(io::Error::other("this user has no such job memory")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_table_is_cleared() {
        let mut memory = JobMemory::new(JobMemoryId(1), 2).unwrap();
        let (location, table) = memory.allocate_table(Mode::Log, Some(5)).unwrap();
        table.mark_lost(1);
        assert_eq!(table.position(), (Mode::Log, Some(0)));
        memory.free_table(location);
        let (again, table) = memory.allocate_table(Mode::Sync, None).unwrap();
        assert_eq!((again, table.position()), (location, (Mode::Sync, Some(0))));
        assert!(!CoordinationTable::attach(table.0.words()).unwrap().is_lost(1));
    }

    #[test]
    fn the_number_of_tables_is_limited() {
        let mut memory = JobMemory::new(JobMemoryId(1), 1).unwrap();
        let mut numbers: Vec<u32> = std::iter::from_fn(|| memory.allocate_table(Mode::Unix, None))
            .map(|(location, _)| location.number)
            .collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..CoordinationTable::TABLES_PER_JOB));
    }
}
