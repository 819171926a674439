//! The request queue: many requests in flight from one thread, on any number of disks.

mod engine;
mod extent_read;
mod extent_write;
mod fair_waiting;
mod flat_read;
mod request_state;
mod seeded;
mod threads;
mod uring;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::time::{Duration, Instant};

pub use engine::Waker;
use engine::{DiskLanes, Engine, IoDone};
use fair_waiting::FairWaiting;
use request_state::{RequestState, Step};

use crate::buffer::Buffer;
use crate::error::{DiskContext, StoreError};
use crate::extents::{Caching, Extent, ExtentBuffer, ExtentFile};
use crate::flat::FlatFile;
use crate::task_threads::TaskThreads;

/// Operations of one disk that block threads at once, beside those that io_uring has.
const BLOCKING_PER_DISK: usize = 4;

/// The engine that performs the I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// io_uring where the kernel allows it, threads otherwise.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// Threads that block, one operation each.
    Threads,
    /// The calling thread, in an order drawn from this seed: for simulations.
    Seeded(u64),
}

/// Options of a [`Queue`].
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// Requests in flight on each disk; further ones wait in the queue. An SSD is busy with 16 to 32,
    /// a hard disk with 2 to 4.
    pub depth_per_disk: usize,
    /// The engine that performs the I/O.
    pub engine: EngineChoice,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { depth_per_disk: 16, engine: EngineChoice::Auto }
    }
}

/// A request to a disk.
#[derive(Debug)]
pub enum Request {
    /// Read an extent.
    ReadExtent {
        /// The subfile.
        file: ExtentFile,
        /// The extent.
        index: u64,
        /// Whether the request uses the cache.
        caching: Caching,
        /// Whether to read the index around the extent ahead: for callers that read many extents.
        prefetch_index: bool,
    },
    /// Write an extent.
    WriteExtent {
        /// The subfile.
        file: ExtentFile,
        /// The extent.
        index: u64,
        /// Header and body.
        extent: ExtentBuffer,
        /// Whether the request uses the cache.
        caching: Caching,
    },
    /// Delete an extent.
    DeleteExtent {
        /// The subfile.
        file: ExtentFile,
        /// The extent.
        index: u64,
    },
    /// Sync a subfile.
    SyncExtents {
        /// The subfile.
        file: ExtentFile,
    },
    /// Read ranges of a flat subfile, each up to the end of the subfile.
    ReadFlat {
        /// The subfile.
        file: FlatFile,
        /// The ranges.
        ranges: Vec<Range<u64>>,
        /// The memory for the bytes of all ranges, one after the other.
        buffer: Buffer,
    },
    /// Write bytes of a flat subfile.
    WriteFlat {
        /// The subfile.
        file: FlatFile,
        /// The first byte.
        offset: u64,
        /// The memory that holds the bytes.
        buffer: Buffer,
        /// The number of bytes; at most the length of the buffer.
        len: usize,
    },
    /// Sync a subfile.
    SyncFlat {
        /// The subfile.
        file: FlatFile,
    },
}

impl Request {
    /// Its disk.
    fn disk(&self) -> &DiskContext {
        match self {
            Self::ReadExtent { file, .. }
            | Self::WriteExtent { file, .. }
            | Self::DeleteExtent { file, .. }
            | Self::SyncExtents { file } => &file.inner.context.disk,
            Self::ReadFlat { file, .. }
            | Self::WriteFlat { file, .. }
            | Self::SyncFlat { file } => &file.inner.context.disk,
        }
    }
}

/// The reply to a request.
#[derive(Debug)]
pub enum Reply {
    /// The extent, if it exists.
    Extent(Option<Extent>),
    /// The data is written.
    Written,
    /// The extent is deleted; the value says whether it existed.
    Deleted(bool),
    /// Bytes of a flat subfile.
    Read {
        /// The memory that holds the bytes of all ranges, one after the other.
        buffer: Buffer,
        /// The number of bytes of each range; fewer than requested only at the end of the subfile.
        lens: Vec<usize>,
    },
    /// The subfile is durable.
    Synced,
}

/// A finished request.
#[derive(Debug)]
pub struct Completion {
    /// The tag of the request.
    pub tag: u64,
    /// The reply, or why the request failed.
    pub result: Result<Reply, StoreError>,
    /// The time since the request has left the line of those that wait for its disk.
    pub took: Duration,
}

/// A queue of requests from one thread to any number of disks. Completions come in any order and
/// carry the tag of their request.
///
/// Dropping a queue waits for all requests in flight and discards those that have not started.
///
/// ```
/// # fn main() -> Result<(), pario_store::StoreError> {
/// # let dir = tempfile::tempdir().unwrap();
/// use pario_store::*;
///
/// let disk = Disk::create(dir.path(), DiskOptions::default())?;
/// let tiles = disk.create_extents(NewSubfile::new(SubfileId::data(1, 0)))?;
/// let mut queue = Queue::new(QueueOptions::default()).expect("threads, at least");
/// for index in 0..100 {
///     let mut extent = tiles.buffer(0, 1000)?;
///     extent.body_mut().fill(index as u8);
///     let (file, caching) = (tiles.clone(), Caching::Use);
///     queue.submit(index, Request::WriteExtent { file, index, extent, caching });
/// }
/// while let Some(Completion { tag, result, .. }) = queue.wait() {
///     assert!(matches!(result?, Reply::Written), "request {tag}");
/// }
/// assert_eq!(tiles.stat()?.extents, 100);
/// # Ok(())
/// # }
/// ```
pub struct Queue {
    engine: Box<dyn Engine>,
    depth_per_disk: usize,
    lanes: HashMap<u64, DiskLane>,
    operations: Vec<Option<InFlight>>,
    free_slots: Vec<usize>,
    /// Operations that the engine has not returned.
    in_engine: usize,
    /// Finished operations that the queue has not processed.
    arrived: VecDeque<(usize, IoDone)>,
    completions: VecDeque<Completion>,
    /// Whether a waker has woken the queue, and no wait has returned for that.
    is_woken: bool,
    /// io_uring binds a ring to the thread that created it.
    _one_thread: PhantomData<*const ()>,
}

/// The requests of one disk.
#[derive(Default)]
struct DiskLane {
    in_flight: usize,
    waiting: FairWaiting,
}

struct InFlight {
    tag: u64,
    disk: DiskContext,
    state: RequestState,
    begun: Instant,
}

impl Queue {
    /// A queue for the calling thread.
    pub fn new(options: QueueOptions) -> io::Result<Self> {
        Self::with_tasks(options, &TaskThreads::new())
    }

    /// A queue for the calling thread, which performs on `tasks` what would block it.
    pub fn with_tasks(options: QueueOptions, tasks: &TaskThreads) -> io::Result<Self> {
        let depth_per_disk = options.depth_per_disk.max(1);
        let entries = u32::try_from(depth_per_disk).unwrap_or(u32::MAX).saturating_mul(4);
        let lanes = |limit| DiskLanes::new(tasks.clone(), depth_per_disk.min(limit));
        let uring = || uring::Uring::start(entries, lanes(BLOCKING_PER_DISK));
        let threads = || Box::new(threads::Threads::new(lanes(depth_per_disk)));
        let engine: Box<dyn Engine> = match options.engine {
            EngineChoice::Auto => match uring() {
                Ok(uring) => Box::new(uring),
                Err(_) => threads(),
            },
            EngineChoice::Uring => Box::new(uring()?),
            EngineChoice::Threads => threads(),
            EngineChoice::Seeded(seed) => Box::new(seeded::Seeded::new(seed)),
        };
        Ok(Self {
            engine,
            depth_per_disk,
            lanes: HashMap::new(),
            operations: Vec::new(),
            free_slots: Vec::new(),
            in_engine: 0,
            arrived: VecDeque::new(),
            completions: VecDeque::new(),
            is_woken: false,
            _one_thread: PhantomData,
        })
    }

    /// The name of the engine: `io_uring`, `threads` or `seeded`.
    pub fn engine(&self) -> &'static str {
        self.engine.name()
    }

    /// The number of requests whose completion the caller has not taken.
    pub fn len(&self) -> usize {
        let waiting: usize = self.lanes.values().map(|lane| lane.waiting.len()).sum();
        self.in_engine + self.arrived.len() + waiting + self.completions.len()
    }

    /// Whether the caller has taken the completions of all requests.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Submits a request. It never blocks on a disk.
    pub fn submit(&mut self, tag: u64, request: Request) {
        self.submit_for(0, tag, request);
    }

    /// Submits a request for a caller. The callers whose requests wait for a disk take turns.
    pub fn submit_for(&mut self, caller: u64, tag: u64, request: Request) {
        let disk = request.disk().number;
        self.lanes.entry(disk).or_default().waiting.push(caller, tag, request);
        self.advance(disk);
    }

    /// The next completion. Blocks while requests are in flight; `None` if none is, or if a [`Waker`]
    /// wakes it.
    pub fn wait(&mut self) -> Option<Completion> {
        self.next(true, false)
    }

    /// The next completion, if there is one; never blocks.
    pub fn poll(&mut self) -> Option<Completion> {
        self.next(false, false)
    }

    /// Waits for a completion or a [`Waker`], also if no request is in flight.
    pub fn wait_or_wake(&mut self) -> Option<Completion> {
        self.next(true, true)
    }

    /// Whether [`poll`](Self::poll) has something to process without a look at the engine.
    pub fn has_finished(&self) -> bool {
        !self.completions.is_empty() || !self.arrived.is_empty()
    }

    /// A handle that interrupts a wait from another thread.
    pub fn waker(&self) -> Waker {
        self.engine.waker()
    }

    /// The next completion. It processes finished operations one at a time, after the next requests
    /// have started, so that the disk stays busy.
    fn next(&mut self, wait: bool, even_if_idle: bool) -> Option<Completion> {
        self.engine.flush();
        let mut may_collect = true;
        loop {
            if let Some(completion) = self.completions.pop_front() {
                return Some(completion);
            }
            if let Some((slot, done)) = self.arrived.pop_front() {
                self.resume(slot, done);
            } else if wait && std::mem::take(&mut self.is_woken) {
                return None;
            } else if may_collect && (self.in_engine > 0 || even_if_idle) {
                let any = self.collect(wait);
                may_collect = wait && any;
            } else {
                return None;
            }
        }
    }

    /// Collects finished operations and starts the next requests; returns whether there were any.
    fn collect(&mut self, wait: bool) -> bool {
        let before = self.arrived.len();
        self.is_woken |= self.engine.collect(wait, &mut self.arrived);
        self.in_engine -= self.arrived.len() - before;
        for i in before..self.arrived.len() {
            let slot = self.arrived[i].0;
            let of = self.operations[slot].as_ref().expect("the engine returns each slot once");
            let disk = of.disk.number;
            self.lanes.get_mut(&disk).expect("a request has a lane").in_flight -= 1;
            self.advance(disk);
        }
        self.engine.flush();
        self.arrived.len() > before
    }

    /// Continues a request whose operation has finished.
    fn resume(&mut self, slot: usize, done: IoDone) {
        let mut in_flight =
            self.operations[slot].take().expect("the engine returns each slot once");
        let step = match done {
            IoDone::Panicked => Step::Done(Err(panicked(&in_flight.disk))),
            done => in_flight.state.resume(done),
        };
        match step {
            Step::Io(io) => {
                let disk = in_flight.disk.number;
                self.lanes.entry(disk).or_default().in_flight += 1;
                self.in_engine += 1;
                self.operations[slot] = Some(in_flight);
                self.engine.submit(slot, disk, io);
            }
            Step::Done(result) => {
                self.free_slots.push(slot);
                let (tag, took) = (in_flight.tag, in_flight.begun.elapsed());
                self.completions.push_back(Completion { tag, result, took });
            }
        }
    }

    /// Starts requests of a disk up to its limit.
    fn advance(&mut self, disk: u64) {
        let lane = self.lanes.get_mut(&disk).expect("a request has a lane");
        while lane.in_flight < self.depth_per_disk
            && let Some((tag, request)) = lane.waiting.pop()
        {
            let (context, begun) = (request.disk().clone(), Instant::now());
            match RequestState::begin(request) {
                (state, Step::Io(io)) => {
                    let slot = self.free_slots.pop().unwrap_or_else(|| {
                        self.operations.push(None);
                        self.operations.len() - 1
                    });
                    self.operations[slot] = Some(InFlight { tag, disk: context, state, begun });
                    lane.in_flight += 1;
                    self.in_engine += 1;
                    self.engine.submit(slot, disk, io);
                }
                (_, Step::Done(result)) => {
                    let took = begun.elapsed();
                    self.completions.push_back(Completion { tag, result, took });
                }
            }
        }
        if lane.in_flight == 0 && lane.waiting.len() == 0 {
            self.lanes.remove(&disk);
        }
    }
}

fn panicked(disk: &DiskContext) -> StoreError {
    let why = io::Error::other("the thread that performed it panicked; standard error says where");
    disk.io(why, "perform a request")
}

impl Drop for Queue {
    fn drop(&mut self) {
        for lane in self.lanes.values_mut() {
            lane.waiting.clear();
        }
        while self.next(true, false).is_some() || self.in_engine > 0 {}
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({}, {} requests)", self.engine(), self.len())
    }
}
