//! Memory in which processes of this machine meet who have a file open together. They do the rest
//! by themselves; the node only makes it, hands it out and says in it who is gone.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use pario_net::{CommonMemory, machine_ms};
use pario_proto::{AssemblyId, Mode, Standing, Table};
use parking_lot::Mutex;

use crate::coordination::Wait;

/// The table of one opening.
#[derive(Clone, Debug)]
pub struct SharedTable(Arc<CommonMemory>);

/// All tables of a node.
#[derive(Debug, Default)]
pub struct Tables {
    known: Mutex<HashMap<AssemblyId, (u32, Weak<CommonMemory>)>>,
}

impl SharedTable {
    /// A table for so many ranks. None if there are too many of them, or there is no memory.
    pub fn new(size: u32, mode: Mode, len: Option<u64>) -> Option<Self> {
        if size > Table::RANKS_LIMIT {
            return None;
        }
        let memory = match CommonMemory::new(Table::words_of(size), Table::ROOM_BYTES) {
            Ok(memory) => memory,
            Err(error) => {
                tracing::warn!(%error, "no memory for processes to meet in; they meet by messages");
                return None;
            }
        };
        Table::new(memory.words(), size, mode, len)?;
        Some(Self(Arc::new(memory)))
    }

    /// The process of a rank is gone: the others are told at once.
    pub fn lose(&self, rank: u32) {
        self.tell_all(|table| table.lose(rank));
    }

    /// All meetings are over: everybody is told at once.
    pub fn reset(&self) {
        self.tell_all(|table| table.reset());
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
        let standings = Table::of(self.0.words()).map(|table| table.standings());
        let machine_ms = machine_ms();
        let wait = |standing: Standing| Wait {
            number: standing.number,
            arrived: standing.arrived,
            missing: standing.missing,
            since_ms: now_ms.saturating_sub(machine_ms.saturating_sub(standing.since_ms)),
            is_performed: standing.is_performed,
        };
        standings.unwrap_or_default().into_iter().map(wait).collect()
    }

    /// The mode, and where the shared pointer is, if there is one.
    pub fn position(&self) -> (Mode, Option<u64>) {
        let table = Table::of(self.0.words());
        table.map(|table| (table.mode(), table.shared_offset())).unwrap_or_default()
    }
}

impl Tables {
    /// A table can be had by its user from now on, as long as it is used.
    pub fn add(&self, id: AssemblyId, uid: u32, table: &SharedTable) {
        let mut known = self.known.lock();
        known.retain(|_, (_, memory)| memory.strong_count() > 0);
        known.insert(id, (uid, Arc::downgrade(&table.0)));
    }

    /// The descriptor of a table, for its user or the administrator.
    pub fn share(&self, id: AssemblyId, uid: u32) -> io::Result<OwnedFd> {
        let known = self.known.lock().get(&id).cloned();
        let of_user = known.filter(|(of, _)| *of == uid || uid == 0);
        match of_user.and_then(|(_, memory)| memory.upgrade()) {
            Some(memory) => memory.descriptor().try_clone_to_owned(),
            None => Err(io::Error::other("no processes of this user meet there")),
        }
    }
}
