//! Many requests under way, from one thread, on any number of disks.

mod engine;
mod operation;
mod seeded;
mod threads;
mod uring;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::marker::PhantomData;

pub use engine::Waker;
use engine::{Engine, IoDone};
use operation::{Operation, Step};

use crate::buffer::Buffer;
use crate::error::StoreError;
use crate::extents::{Caching, Extent, ExtentBuffer, ExtentFile};
use crate::flat::FlatFile;

/// What carries the I/O out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// io_uring where the kernel allows it, threads otherwise.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// Threads that wait.
    Threads,
    /// The calling thread, in an order drawn from this seed: for simulation.
    Seeded(u64),
}

/// How a [`Queue`] works.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// Requests under way on each disk at once; further ones wait for their turn. A single SSD is
    /// busy with 16 to 32, a hard disk with 2 to 4.
    pub depth_per_disk: usize,
    /// What carries the I/O out.
    pub engine: EngineChoice,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { depth_per_disk: 16, engine: EngineChoice::Auto }
    }
}

/// What a disk is asked to do.
#[derive(Debug)]
pub enum Request {
    /// Read an extent.
    ReadExtent {
        /// The subfile.
        file: ExtentFile,
        /// The extent.
        index: u64,
        /// Whether the cache may be used.
        caching: Caching,
    },
    /// Write an extent.
    WriteExtent {
        /// The subfile.
        file: ExtentFile,
        /// The extent.
        index: u64,
        /// Header and body.
        extent: ExtentBuffer,
        /// Whether the cache may be used.
        caching: Caching,
    },
    /// Delete an extent.
    DeleteExtent {
        /// The subfile.
        file: ExtentFile,
        /// The extent.
        index: u64,
    },
    /// Make everything of a subfile durable that was acknowledged before.
    SyncExtents {
        /// The subfile.
        file: ExtentFile,
    },
    /// Read bytes of a flat subfile.
    ReadFlat {
        /// The subfile.
        file: FlatFile,
        /// The first byte.
        offset: u64,
        /// Where the bytes go.
        buffer: Buffer,
        /// How many; at most as many as the buffer has.
        len: usize,
    },
    /// Write bytes of a flat subfile.
    WriteFlat {
        /// The subfile.
        file: FlatFile,
        /// The first byte.
        offset: u64,
        /// Where the bytes are.
        buffer: Buffer,
        /// How many; at most as many as the buffer has.
        len: usize,
    },
    /// Make everything of a subfile durable that was acknowledged before.
    SyncFlat {
        /// The subfile.
        file: FlatFile,
    },
}

impl Request {
    /// The disk it concerns.
    fn disk(&self) -> u64 {
        match self {
            Self::ReadExtent { file, .. }
            | Self::WriteExtent { file, .. }
            | Self::DeleteExtent { file, .. }
            | Self::SyncExtents { file } => file.shared.place.disk.number,
            Self::ReadFlat { file, .. }
            | Self::WriteFlat { file, .. }
            | Self::SyncFlat { file } => file.shared.place.disk.number,
        }
    }
}

/// What a request brought.
#[derive(Debug)]
pub enum Answer {
    /// The extent, if it is there.
    Extent(Option<Extent>),
    /// It is written.
    Written,
    /// It is gone; the answer says whether it was there.
    Deleted(bool),
    /// Bytes of a flat subfile; fewer than asked for only at its end.
    Read {
        /// Where they are.
        buffer: Buffer,
        /// How many.
        len: usize,
    },
    /// It is durable.
    Synced,
}

/// A finished request.
#[derive(Debug)]
pub struct Completion {
    /// The tag it was submitted with.
    pub tag: u64,
    /// What it brought.
    pub answer: Result<Answer, StoreError>,
}

/// Many requests under way, from one thread, on any number of disks. Answers come in any order
/// and carry the tag of their request.
///
/// Dropping a queue waits for everything under way; what has not begun is forgotten.
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
/// while let Some(Completion { tag, answer }) = queue.wait() {
///     assert!(matches!(answer?, Answer::Written), "request {tag}");
/// }
/// assert_eq!(tiles.stat()?.extents, 100);
/// # Ok(())
/// # }
/// ```
pub struct Queue {
    engine: Box<dyn Engine>,
    depth_per_disk: usize,
    lanes: HashMap<u64, Lane>,
    operations: Vec<Option<UnderWay>>,
    free_slots: Vec<usize>,
    /// Steps that the engine has not answered.
    in_engine: usize,
    /// Its answers that have not been looked at.
    arrived: VecDeque<(usize, IoDone)>,
    completions: VecDeque<Completion>,
    /// io_uring binds a ring to the thread that made it.
    _one_thread: PhantomData<*const ()>,
}

/// The requests of one disk.
#[derive(Default)]
struct Lane {
    under_way: usize,
    waiting: VecDeque<(u64, Request)>,
}

struct UnderWay {
    tag: u64,
    disk: u64,
    operation: Operation,
}

impl Queue {
    /// A queue for the calling thread.
    pub fn new(options: QueueOptions) -> io::Result<Self> {
        let depth_per_disk = options.depth_per_disk.max(1);
        let entries = u32::try_from(depth_per_disk).unwrap_or(u32::MAX).saturating_mul(4);
        let threads = || threads::Threads::start(depth_per_disk.min(64));
        let engine: Box<dyn Engine> = match options.engine {
            EngineChoice::Auto => match uring::Uring::start(entries) {
                Ok(uring) => Box::new(uring),
                Err(_) => Box::new(threads()?),
            },
            EngineChoice::Uring => Box::new(uring::Uring::start(entries)?),
            EngineChoice::Threads => Box::new(threads()?),
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
            _one_thread: PhantomData,
        })
    }

    /// What carries the I/O out: `io_uring`, `threads` or `seeded`.
    pub fn engine(&self) -> &'static str {
        self.engine.name()
    }

    /// Requests whose completion has not been taken yet.
    pub fn len(&self) -> usize {
        let waiting: usize = self.lanes.values().map(|lane| lane.waiting.len()).sum();
        self.in_engine + self.arrived.len() + waiting + self.completions.len()
    }

    /// Whether every request is answered and every answer taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Submits a request. It never waits for a disk.
    pub fn submit(&mut self, tag: u64, request: Request) {
        let disk = request.disk();
        self.lanes.entry(disk).or_default().waiting.push_back((tag, request));
        self.advance(disk);
    }

    /// The next completion. Waits for one if something is under way; `None` if nothing is, or if
    /// a [`Waker`] was used.
    pub fn wait(&mut self) -> Option<Completion> {
        self.next(true, false)
    }

    /// The next completion, if there is one already.
    pub fn poll(&mut self) -> Option<Completion> {
        self.next(false, false)
    }

    /// Waits for a completion or a [`Waker`], also when nothing is under way.
    pub fn wait_or_wake(&mut self) -> Option<Completion> {
        self.next(true, true)
    }

    /// What interrupts a wait from another thread.
    pub fn waker(&self) -> Waker {
        self.engine.waker()
    }

    /// The next completion. What is worked out from an answer of the disk is worked out here, one
    /// at a time, after the next requests have begun: the disk does not wait for us.
    fn next(&mut self, wait: bool, even_if_idle: bool) -> Option<Completion> {
        self.engine.flush();
        let mut may_collect = true;
        loop {
            if let Some(completion) = self.completions.pop_front() {
                return Some(completion);
            }
            if let Some((slot, done)) = self.arrived.pop_front() {
                self.resume(slot, done);
            } else if may_collect && (self.in_engine > 0 || even_if_idle) {
                let any = self.collect(wait);
                may_collect = wait && any;
            } else {
                return None;
            }
        }
    }

    /// Collects what the engine has, and lets the next requests begin; the answer says whether
    /// there was anything.
    fn collect(&mut self, wait: bool) -> bool {
        let before = self.arrived.len();
        self.engine.collect(wait, &mut self.arrived);
        self.in_engine -= self.arrived.len() - before;
        for i in before..self.arrived.len() {
            let slot = self.arrived[i].0;
            let disk = self.operations[slot].as_ref().expect("each slot is answered once").disk;
            self.lanes.get_mut(&disk).expect("a request has a lane").under_way -= 1;
            self.advance(disk);
        }
        self.engine.flush();
        self.arrived.len() > before
    }

    /// Goes on with a request whose step is done.
    fn resume(&mut self, slot: usize, done: IoDone) {
        let mut under_way = self.operations[slot].take().expect("each slot is answered once");
        match under_way.operation.resume(done) {
            Step::Io(io) => {
                self.lanes.entry(under_way.disk).or_default().under_way += 1;
                self.in_engine += 1;
                self.operations[slot] = Some(under_way);
                self.engine.submit(slot, io);
            }
            Step::Done(answer) => {
                self.free_slots.push(slot);
                self.completions.push_back(Completion { tag: under_way.tag, answer });
            }
        }
    }

    /// Begins as many requests of a disk as may be under way.
    fn advance(&mut self, disk: u64) {
        let lane = self.lanes.get_mut(&disk).expect("a request has a lane");
        while lane.under_way < self.depth_per_disk
            && let Some((tag, request)) = lane.waiting.pop_front()
        {
            match Operation::begin(request) {
                (operation, Step::Io(io)) => {
                    let slot = self.free_slots.pop().unwrap_or_else(|| {
                        self.operations.push(None);
                        self.operations.len() - 1
                    });
                    self.operations[slot] = Some(UnderWay { tag, disk, operation });
                    lane.under_way += 1;
                    self.in_engine += 1;
                    self.engine.submit(slot, io);
                }
                (_, Step::Done(answer)) => self.completions.push_back(Completion { tag, answer }),
            }
        }
        if lane.under_way == 0 && lane.waiting.is_empty() {
            self.lanes.remove(&disk);
        }
    }
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
