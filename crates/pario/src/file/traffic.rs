//! Counters of short-cut accesses, in memory that the node reads: two relaxed additions for each
//! access to a disk, and no system call.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pario_net::{SharedMemory, SharedMemoryPart, SharedMemoryShape};
use pario_proto::{DescriptorRequest, DiskId, Traffic, TrafficAnswer};

use crate::cluster::ClusterState;
use crate::connection::Watch;

/// Accesses by one counter after which this process checks that the node still reads it.
const CHECK_EVERY: u64 = 64;

/// The counters of this process at one node.
pub(crate) struct TrafficTable {
    memory: SharedMemoryPart,
    disks: Vec<DiskId>,
    /// The connection to the node when the table was created; none if the node is in this process.
    node: Option<Watch>,
    is_lost: AtomicBool,
}

/// The counters of one disk.
#[derive(Clone)]
pub(crate) struct DiskTraffic {
    table: Arc<TrafficTable>,
    disk: usize,
}

impl TrafficTable {
    /// Has a node create a table for this process. None if it cannot: then nothing is counted.
    pub fn ask(cluster: &ClusterState, node: usize) -> Option<Arc<Self>> {
        let watch = cluster.watch_node(node)?;
        let request = postcard::to_allocvec(&DescriptorRequest::Traffic).ok()?;
        let (answer, descriptors) = cluster.descriptors(node, &request)?;
        let TrafficAnswer { disks } = postcard::from_bytes(&answer).ok()?;
        let bytes = Traffic::table_len(disks.len()) * 8;
        let shape = SharedMemoryShape { parts: 1, words: 0, bytes };
        let memory = SharedMemory::from_descriptor(descriptors.into_iter().next()?, shape).ok()?;
        let memory = Arc::new(memory).part(0);
        Some(Arc::new(Self { memory, disks, node: watch, is_lost: AtomicBool::new(false) }))
    }

    /// Whether the node that reads it may be gone.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// The counters of a disk.
    pub fn disk(self: &Arc<Self>, disk: DiskId) -> Option<DiskTraffic> {
        let disk = self.disks.iter().position(|known| *known == disk)?;
        Some(DiskTraffic { table: self.clone(), disk })
    }

    #[cold]
    fn check(&self) {
        if self.node.as_ref().is_some_and(|node| !node.is_open()) {
            self.is_lost.store(true, Ordering::Relaxed);
        }
    }
}

impl DiskTraffic {
    /// Counts the bytes that one call has read.
    #[inline]
    pub fn read(&self, bytes: u64) {
        self.add(Traffic::READS, bytes);
    }

    /// Counts the bytes that one call has written.
    #[inline]
    pub fn written(&self, bytes: u64) {
        self.add(Traffic::WRITES, bytes);
    }

    /// Whether the node that reads the counters may be gone.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.table.is_lost()
    }

    #[inline]
    fn add(&self, counter: usize, bytes: u64) {
        let cell = Traffic::cell(self.table.disks.len(), lane(), self.disk) + counter;
        let counters = self.table.memory.counters();
        counters[cell + 1].fetch_add(bytes, Ordering::Relaxed);
        let calls = counters[cell].fetch_add(1, Ordering::Relaxed);
        if calls % CHECK_EVERY == CHECK_EVERY - 1 {
            self.table.check();
        }
    }
}

impl std::fmt::Debug for DiskTraffic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DiskTraffic({})", self.disk)
    }
}

/// The lane of this thread.
#[inline]
fn lane() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static LANE: Cell<Option<usize>> = const { Cell::new(None) };
    }
    LANE.with(|lane| match lane.get() {
        Some(lane) => lane,
        None => {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            lane.set(Some(next));
            next
        }
    })
}
