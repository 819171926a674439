//! The traffic of the short cut. Each client on this machine has a table of counters in memory that
//! it shares with the node ([`pario_proto::Traffic`]): the client adds, the node reads.
//!
//! *The node trusts no table.* A counter that falls adds nothing, and neither does its rise back to
//! the earlier value. Between two reads a client adds at most [`MOST_BYTES`] and [`MOST_CALLS`] per
//! second. So a client can only raise its own figures, within bounds.
//!
//! *A client that ends is counted to the end, once.* The node locks the open file description that
//! it passes to the client (`flock`). The lock lasts while a process has the descriptor open or the
//! memory mapped. When the node can lock its own description, no process can add any more: the node
//! reads the table for the last time and drops it.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_proto::{Failure, TRAFFIC_DISKS_LIMIT, TRAFFIC_LANES, Traffic};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;

use crate::limits::{QuotaShare, Resource, UserAccount};

/// The limit of bytes that one client moves in a second, each way: beyond the memory bandwidth of
/// any machine.
const MOST_BYTES: u64 = 4 << 40;
/// The limit of calls that one client makes in a second.
const MOST_CALLS: u64 = 1 << 30;

/// The traffic tables of all clients of a node.
#[derive(Debug)]
pub struct ShortCutTraffic {
    disks: usize,
    state: Mutex<TrafficTables>,
}

#[derive(Debug)]
struct TrafficTables {
    /// The traffic of all clients so far, by number of the disk.
    totals: Vec<Traffic>,
    tables: Vec<ClientTable>,
}

/// The table of one client.
#[derive(Debug)]
struct ClientTable {
    memory: OwnedFd,
    /// The largest value of each counter so far.
    seen: Vec<u64>,
    read_at: Instant,
    _share: QuotaShare,
}

impl ShortCutTraffic {
    /// Creates the tables of a node with a number of disks.
    pub fn new(disks: usize) -> Self {
        let disks = disks.min(TRAFFIC_DISKS_LIMIT);
        let state = TrafficTables { totals: vec![Traffic::default(); disks], tables: Vec::new() };
        Self { disks, state: Mutex::new(state) }
    }

    /// Returns the number of disks in a table.
    pub fn disks(&self) -> usize {
        self.disks
    }

    /// Creates a table for a client of a user. Fails if the user has too many, or if there is no
    /// memory.
    pub fn add(&self, account: &Arc<UserAccount>, now: Instant) -> Result<OwnedFd, Failure> {
        let share = match account.take(Resource::TrafficTables, 1) {
            Ok(share) => share,
            Err(_) => {
                // Clients may have ended since the last read.
                self.collect(now);
                account.take(Resource::TrafficTables, 1)?
            }
        };
        let len = Traffic::table_len(self.disks);
        let (memory, handed) = create_memory(len as u64 * 8).map_err(|error| {
            Failure::Invalid(format!("there is no memory to count the short cut in: {error}"))
        })?;
        let table = ClientTable { memory, seen: vec![0; len], read_at: now, _share: share };
        self.state.lock().tables.push(table);
        Ok(handed)
    }

    /// Reads all tables, and drops those of clients that have ended. Returns the traffic so far, by
    /// number of the disk.
    pub fn collect(&self, now: Instant) -> Vec<Traffic> {
        let mut state = self.state.lock();
        let TrafficTables { totals, tables } = &mut *state;
        let disks = self.disks;
        tables.retain_mut(|table| {
            // In this order, so that the last read includes everything that the client has added.
            let has_ended = table.has_ended();
            table.read(disks, totals, now).is_ok() && !has_ended
        });
        totals.clone()
    }
}

/// Creates memory of a fixed size. Returns the descriptor of the node, and that of the client,
/// whose file description is locked.
fn create_memory(bytes: u64) -> Result<(OwnedFd, OwnedFd), Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("pario-traffic", flags)?;
    rustix::fs::ftruncate(&memory, bytes)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&memory, seals)?;
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let handed = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::fs::flock(&handed, FlockOperation::NonBlockingLockExclusive)?;
    Ok((memory, handed))
}

impl ClientTable {
    fn has_ended(&self) -> bool {
        let locked = rustix::fs::flock(&self.memory, FlockOperation::NonBlockingLockExclusive);
        locked != Err(Errno::WOULDBLOCK)
    }

    /// Adds the traffic since the last read.
    fn read(&mut self, disks: usize, totals: &mut [Traffic], now: Instant) -> io::Result<()> {
        let mut bytes = vec![0; self.seen.len() * 8];
        if rustix::io::pread(&self.memory, &mut bytes, 0)? < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let since = now.saturating_duration_since(self.read_at);
        self.read_at = now;
        let mut rise = |place: usize| {
            let eight = bytes[place * 8..].first_chunk().copied().unwrap_or_default();
            let (counter, seen) = (u64::from_ne_bytes(eight), &mut self.seen[place]);
            let rise = counter.saturating_sub(*seen);
            *seen = counter.max(*seen);
            rise
        };
        for (disk, total) in totals.iter_mut().enumerate() {
            let mut risen = Traffic::default();
            for lane in 0..TRAFFIC_LANES {
                let cell = Traffic::cell(disks, lane, disk);
                let (reads, writes) = (cell + Traffic::READS, cell + Traffic::WRITES);
                add(&mut risen.reads, rise(reads));
                add(&mut risen.read_bytes, rise(reads + 1));
                add(&mut risen.writes, rise(writes));
                add(&mut risen.written_bytes, rise(writes + 1));
            }
            let (calls, bytes) = (most(MOST_CALLS, since), most(MOST_BYTES, since));
            add(&mut total.reads, risen.reads.min(calls));
            add(&mut total.read_bytes, risen.read_bytes.min(bytes));
            add(&mut total.writes, risen.writes.min(calls));
            add(&mut total.written_bytes, risen.written_bytes.min(bytes));
        }
        Ok(())
    }
}

fn add(to: &mut u64, what: u64) {
    *to = to.saturating_add(what);
}

/// Returns the limit since the last read; the first second counts in full.
fn most(in_a_second: u64, since: Duration) -> u64 {
    in_a_second.saturating_mul(since.as_secs().saturating_add(1))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use pario_net::{SharedMemory, SharedMemoryPart, SharedMemoryShape};

    use super::*;
    use crate::limits::Quotas;

    fn account() -> Arc<UserAccount> {
        Quotas::new("alpha", 0).account(7)
    }

    /// Returns the memory of a client, which closes the descriptor.
    fn client(traffic: &ShortCutTraffic, now: Instant) -> SharedMemoryPart {
        let handed = traffic.add(&account(), now).unwrap();
        let bytes = Traffic::table_len(traffic.disks()) * 8;
        let shape = SharedMemoryShape { parts: 1, words: 0, bytes };
        Arc::new(SharedMemory::from_descriptor(handed, shape).unwrap()).part(0)
    }

    fn add(client: &SharedMemoryPart, lane: usize, disk: usize, place: usize, bytes: u64) {
        let cell = Traffic::cell(2, lane, disk) + place;
        client.counters()[cell].fetch_add(1, Ordering::Relaxed);
        client.counters()[cell + 1].fetch_add(bytes, Ordering::Relaxed);
    }

    #[test]
    fn clients_and_lanes_add_up_and_ended_clients_count_once() {
        let (traffic, now) = (ShortCutTraffic::new(2), Instant::now());
        let (one, two) = (client(&traffic, now), client(&traffic, now));
        add(&one, 0, 1, Traffic::READS, 100);
        add(&one, 5, 1, Traffic::READS, 20);
        add(&two, 0, 1, Traffic::WRITES, 3);
        let expected = Traffic { reads: 2, read_bytes: 120, writes: 1, written_bytes: 3 };
        assert_eq!(traffic.collect(now), [Traffic::default(), expected]);
        add(&one, 0, 0, Traffic::WRITES, 7);
        drop(one);
        for _ in 0..2 {
            let totals = traffic.collect(now);
            assert_eq!((totals[0].writes, totals[0].written_bytes), (1, 7));
            assert_eq!(totals[1], expected);
            assert_eq!(traffic.state.lock().tables.len(), 1);
        }
        drop(two);
        traffic.collect(now);
        assert!(traffic.state.lock().tables.is_empty());
    }

    #[test]
    fn a_client_that_lies_stays_within_the_limits() {
        let (traffic, now) = (ShortCutTraffic::new(2), Instant::now());
        let liar = client(&traffic, now);
        let read_bytes = &liar.counters()[Traffic::cell(2, 0, 0) + Traffic::READS + 1];
        read_bytes.store(1000, Ordering::Relaxed);
        assert_eq!(traffic.collect(now)[0].read_bytes, 1000);
        read_bytes.store(10, Ordering::Relaxed);
        assert_eq!(traffic.collect(now)[0].read_bytes, 1000, "a count never falls");
        read_bytes.store(1001, Ordering::Relaxed);
        assert_eq!(traffic.collect(now)[0].read_bytes, 1001, "nothing counts twice");
        liar.counters().iter().for_each(|counter| counter.store(u64::MAX, Ordering::Relaxed));
        let totals = traffic.collect(now + Duration::from_secs(2));
        assert_eq!(totals[0].read_bytes, 1001 + 3 * MOST_BYTES);
        assert_eq!(totals[0].writes, 3 * MOST_CALLS);
        let honest = client(&traffic, now);
        add(&honest, 1, 0, Traffic::WRITES, 5);
        assert_eq!(traffic.collect(now)[0].written_bytes, 3 * MOST_BYTES + 5);
    }

    #[test]
    fn the_tables_of_a_user_are_limited_and_those_of_ended_clients_are_free() {
        let (traffic, now) = (ShortCutTraffic::new(1), Instant::now());
        let account = account();
        let limit = Resource::TrafficTables.limit().per_user;
        let handed: Vec<_> = (0..limit).map(|_| traffic.add(&account, now).unwrap()).collect();
        let refused = traffic.add(&account, now).unwrap_err().to_string();
        assert!(refused.contains("clients whose short cut is counted"), "{refused}");
        drop(handed);
        traffic.add(&account, now).unwrap();
        assert_eq!(traffic.state.lock().tables.len(), 1);
    }
}
