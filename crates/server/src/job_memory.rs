//! Memory in which the processes of a job meet, if they are on this machine: a table for the job, and
//! one for each file that it has open. They do the rest by themselves; the node only makes it, hands
//! it out and says in it who is gone.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use pario_net::{CommonMemory, MemoryPart, MemoryShape, machine_ms};
use pario_proto::{CoordinationTable, JobMemoryId, Mode, RecordedCall, TableLocation, TableWait};
use parking_lot::Mutex;

use crate::coordination::RankWait;

/// The memory of a job.
#[derive(Debug)]
pub struct JobMemory {
    id: JobMemoryId,
    memory: Arc<CommonMemory>,
    size: u32,
    /// The tables that no file has.
    free: Vec<u32>,
}

/// A table in the memory of a job.
#[derive(Clone, Debug)]
pub struct JobTable(MemoryPart);

/// The memory of all jobs of a node, for those who may have it.
#[derive(Debug, Default)]
pub struct JobMemories {
    known: Mutex<HashMap<JobMemoryId, (u32, Weak<CommonMemory>)>>,
}

impl JobMemory {
    /// Memory for so many ranks. None if there are too many of them, or there is no memory.
    pub fn new(id: JobMemoryId, size: u32) -> Option<Self> {
        if size > CoordinationTable::RANKS_LIMIT {
            return None;
        }
        let (words, bytes) = (CoordinationTable::word_count(size), CoordinationTable::BUFFER_BYTES);
        let shape = MemoryShape { parts: CoordinationTable::TABLES_PER_JOB as usize, words, bytes };
        let memory = match CommonMemory::new(shape) {
            Ok(memory) => Arc::new(memory),
            Err(error) => {
                tracing::warn!(%error, "no memory for processes to meet in; they meet by messages");
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

    /// Which one it is.
    pub fn id(&self) -> JobMemoryId {
        self.id
    }

    /// The memory itself, to hand it out.
    pub fn memory(&self) -> &Arc<CommonMemory> {
        &self.memory
    }

    /// The table of the job.
    pub fn job_table(&self) -> JobTable {
        JobTable(self.memory.part(0))
    }

    /// A table for a file that was opened in a mode, and has so many bytes, if that is known. None
    /// if too many files are open.
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

    /// Nobody uses a table any more, and nobody ever will who had it.
    pub fn free_table(&mut self, place: TableLocation) {
        if place.memory == self.id {
            self.free.push(place.number);
        }
    }
}

impl JobTable {
    /// The process of a rank is gone: the others are told at once.
    pub fn mark_lost(&self, rank: u32) {
        self.update_and_wake(|table| table.mark_lost(rank));
    }

    /// All registry are over: everybody is told at once.
    pub fn reset(&self) {
        self.update_and_wake(|table| table.reset());
    }

    /// Whether all have left, as they say.
    pub fn is_over(&self) -> bool {
        CoordinationTable::attach(self.0.words()).is_some_and(|table| table.is_over())
    }

    fn update_and_wake(&self, what: impl FnOnce(&CoordinationTable<'_>)) {
        if let Some(table) = CoordinationTable::attach(self.0.words()) {
            what(&table);
            self.0.raise(CoordinationTable::EVENT_WORD);
            self.0.wake(CoordinationTable::LOCK_WORD, i32::MAX.unsigned_abs());
        }
    }

    /// Who waits for whom, by the clock of the node.
    pub fn waits(&self, now_ms: u64) -> Vec<RankWait> {
        let machine_ms = machine_ms();
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

    /// What a rank has called last, at which time by the clock of the node.
    pub fn last_call(&self, rank: u32, now_ms: u64) -> Option<RecordedCall> {
        let table =
            CoordinationTable::attach(self.0.words()).filter(|table| rank < table.size())?;
        let mut recorded = table.last_call(rank)?;
        recorded.at_ms = now_ms.saturating_sub(machine_ms().saturating_sub(recorded.at_ms));
        Some(recorded)
    }

    /// The mode, and where the shared pointer is, if there is one.
    pub fn position(&self) -> (Mode, Option<u64>) {
        let table = CoordinationTable::attach(self.0.words());
        table.map(|table| (table.mode(), table.shared_offset())).unwrap_or_default()
    }
}

impl JobMemories {
    /// Memory can be had by its user from now on, as long as it is used.
    pub fn add(&self, id: JobMemoryId, uid: u32, memory: &Arc<CommonMemory>) {
        let mut known = self.known.lock();
        known.retain(|_, (_, memory)| memory.strong_count() > 0);
        known.insert(id, (uid, Arc::downgrade(memory)));
    }

    /// How many job_memories a user has, and all users have.
    pub(crate) fn count(&self, uid: u32) -> (u64, u64) {
        let known = self.known.lock();
        let live = || known.values().filter(|(_, memory)| memory.strong_count() > 0);
        (live().filter(|(of, _)| *of == uid).count() as u64, live().count() as u64)
    }

    /// The descriptor of memory, for its user or the administrator.
    pub fn share(&self, id: JobMemoryId, uid: u32) -> io::Result<OwnedFd> {
        let known = self.known.lock().get(&id).cloned();
        let of_user = known.filter(|(of, _)| *of == uid || uid == 0);
        match of_user.and_then(|(_, memory)| memory.upgrade()) {
            Some(memory) => memory.descriptor().try_clone_to_owned(),
            None => Err(io::Error::other("no processes of this user meet there")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_was_given_back_is_as_new() {
        let mut memory = JobMemory::new(JobMemoryId(1), 2).unwrap();
        let (place, table) = memory.allocate_table(Mode::Log, Some(5)).unwrap();
        table.mark_lost(1);
        assert_eq!(table.position(), (Mode::Log, Some(0)));
        memory.free_table(place);
        let (again, table) = memory.allocate_table(Mode::Sync, None).unwrap();
        assert_eq!((again, table.position()), (place, (Mode::Sync, Some(0))));
        assert!(!CoordinationTable::attach(table.0.words()).unwrap().is_lost(1));
    }

    #[test]
    fn there_are_only_so_many_tables() {
        let mut memory = JobMemory::new(JobMemoryId(1), 1).unwrap();
        let mut numbers: Vec<u32> = std::iter::from_fn(|| memory.allocate_table(Mode::Unix, None))
            .map(|(place, _)| place.number)
            .collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..CoordinationTable::TABLES_PER_JOB));
    }
}
