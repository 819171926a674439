//! Memory in which the processes of a job meet, if they are on this machine: a table for the job, and
//! one for each file that it has open. They do the rest by themselves; the node only makes it, hands
//! it out and says in it who is gone.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use pario_net::{SharedMemory, SharedMemoryPart, SharedMemoryShape, machine_ms};
use pario_proto::{MemoryId, Mode, NotedCall, Standing, Table, TablePlace};
use parking_lot::Mutex;

use crate::coordination::Wait;

/// The memory of a job.
#[derive(Debug)]
pub struct JobMemory {
    id: MemoryId,
    memory: Arc<SharedMemory>,
    size: u32,
    /// The tables that no file has.
    free: Vec<u32>,
}

/// A table in the memory of a job.
#[derive(Clone, Debug)]
pub struct SharedTable(SharedMemoryPart);

/// The memory of all jobs of a node, for those who may have it.
#[derive(Debug, Default)]
pub struct Memories {
    known: Mutex<HashMap<MemoryId, (u32, Weak<SharedMemory>)>>,
}

impl JobMemory {
    /// Memory for so many ranks. None if there are too many of them, or there is no memory.
    pub fn new(id: MemoryId, size: u32) -> Option<Self> {
        if size > Table::RANKS_LIMIT {
            return None;
        }
        let (words, bytes) = (Table::words_of(size), Table::ROOM_BYTES);
        let shape = SharedMemoryShape { parts: Table::COUNT as usize, words, bytes };
        let memory = match SharedMemory::new(shape) {
            Ok(memory) => Arc::new(memory),
            Err(error) => {
                tracing::warn!(%error, "no memory for processes to meet in; they meet by messages");
                return None;
            }
        };
        Table::new(memory.part(0).words(), size, Mode::Unix, None)?;
        Some(Self { id, memory, size, free: (1..Table::COUNT).rev().collect() })
    }

    /// Which one it is.
    pub fn id(&self) -> MemoryId {
        self.id
    }

    /// The memory itself, to hand it out.
    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.memory
    }

    /// The table of the job.
    pub fn own(&self) -> SharedTable {
        SharedTable(self.memory.part(0))
    }

    /// A table for a file that was opened in a mode, and has so many bytes, if that is known. None
    /// if too many files are open.
    pub fn take(&mut self, mode: Mode, len: Option<u64>) -> Option<(TablePlace, SharedTable)> {
        let number = self.free.pop()?;
        let part = self.memory.part(number as usize);
        for word in part.words() {
            word.store(0, Ordering::Relaxed);
        }
        Table::new(part.words(), self.size, mode, len)?;
        Some((TablePlace { memory: self.id, number }, SharedTable(part)))
    }

    /// Nobody uses a table any more, and nobody ever will who had it.
    pub fn give_back(&mut self, place: TablePlace) {
        if place.memory == self.id {
            self.free.push(place.number);
        }
    }
}

impl SharedTable {
    /// The process of a rank is gone: the others are told at once.
    pub fn lose(&self, rank: u32) {
        self.tell_all(|table| table.lose(rank));
    }

    /// All meetings are over: everybody is told at once.
    pub fn reset(&self) {
        self.tell_all(|table| table.reset());
    }

    /// Whether all have left, as they say.
    pub fn is_over(&self) -> bool {
        Table::of(self.0.words()).is_some_and(|table| table.is_over())
    }

    fn tell_all(&self, what: impl FnOnce(&Table<'_>)) {
        if let Some(table) = Table::of(self.0.words()) {
            what(&table);
            self.0.raise(Table::EVENT);
            self.0.wake(Table::LOCK, i32::MAX.unsigned_abs());
        }
    }

    /// Who waits for whom, by the clock of the node.
    pub fn waits(&self, now_ms: u64) -> Vec<Wait> {
        let machine_ms = machine_ms();
        let standings = Table::of(self.0.words()).map(|table| table.standings(machine_ms));
        let wait = |standing: Standing| Wait {
            number: standing.number,
            arrived: standing.arrived,
            missing: standing.missing,
            since_ms: now_ms.saturating_sub(machine_ms.saturating_sub(standing.since_ms)),
            cause: standing.cause,
        };
        standings.unwrap_or_default().into_iter().map(wait).collect()
    }

    /// What a rank has called last, at which time by the clock of the node.
    pub fn last_call(&self, rank: u32, now_ms: u64) -> Option<NotedCall> {
        let table = Table::of(self.0.words()).filter(|table| rank < table.size())?;
        let mut noted = table.last_call(rank)?;
        noted.at_ms = now_ms.saturating_sub(machine_ms().saturating_sub(noted.at_ms));
        Some(noted)
    }

    /// The mode, and where the shared pointer is, if there is one.
    pub fn position(&self) -> (Mode, Option<u64>) {
        let table = Table::of(self.0.words());
        table.map(|table| (table.mode(), table.shared_offset())).unwrap_or_default()
    }
}

impl Memories {
    /// Memory can be had by its user from now on, as long as it is used.
    pub fn add(&self, id: MemoryId, uid: u32, memory: &Arc<SharedMemory>) {
        let mut known = self.known.lock();
        known.retain(|_, (_, memory)| memory.strong_count() > 0);
        known.insert(id, (uid, Arc::downgrade(memory)));
    }

    /// How many memories a user has, and all users have.
    pub(crate) fn count(&self, uid: u32) -> (u64, u64) {
        let known = self.known.lock();
        let live = || known.values().filter(|(_, memory)| memory.strong_count() > 0);
        (live().filter(|(of, _)| *of == uid).count() as u64, live().count() as u64)
    }

    /// The descriptor of memory, for its user or the administrator.
    pub fn share(&self, id: MemoryId, uid: u32) -> io::Result<OwnedFd> {
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
        let mut memory = JobMemory::new(MemoryId(1), 2).unwrap();
        let (place, table) = memory.take(Mode::Log, Some(5)).unwrap();
        table.lose(1);
        assert_eq!(table.position(), (Mode::Log, Some(0)));
        memory.give_back(place);
        let (again, table) = memory.take(Mode::Sync, None).unwrap();
        assert_eq!((again, table.position()), (place, (Mode::Sync, Some(0))));
        assert!(!Table::of(table.0.words()).unwrap().is_lost(1));
    }

    #[test]
    fn there_are_only_so_many_tables() {
        let mut memory = JobMemory::new(MemoryId(1), 1).unwrap();
        let mut numbers: Vec<u32> = std::iter::from_fn(|| memory.take(Mode::Unix, None))
            .map(|(place, _)| place.number)
            .collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..Table::COUNT));
    }
}
