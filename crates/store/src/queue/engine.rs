//! The interface of the engines that perform the I/O of a queue.
//!
//! The queue submits each operation under a slot. The engine returns each slot once, in any order,
//! with the buffer of the operation. Dropping an engine waits for all operations.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::Reply;
use crate::buffer::Buffer;
use crate::error::StoreError;
use crate::extents::Reservation;
use crate::medium::MediumFile;
use crate::task_threads::{TaskLane, TaskThreads};

/// An operation of an engine.
pub(crate) enum Io {
    /// Read `len` bytes from a position into the buffer, from `start` on; fewer at the end of the
    /// file.
    Read { file: Arc<dyn MediumFile>, position: u64, buffer: Buffer, start: usize, len: usize },
    /// Write the first `len` bytes of the buffer to a position.
    Write { file: Arc<dyn MediumFile>, position: u64, buffer: Buffer, len: usize },
    /// Run a function that may block.
    Task(Box<dyn FnOnce() -> Result<TaskOutcome, StoreError> + Send>),
}

/// The outcome of a task.
pub(crate) enum TaskOutcome {
    /// The request can try its last step again.
    Ready,
    /// A write has its place.
    Reserved(Reservation),
    /// The request is finished.
    Replied(Reply),
}

/// The result of an operation.
pub(crate) enum IoDone {
    /// The number of bytes read or written.
    Moved(io::Result<usize>, Buffer),
    Ran(Result<TaskOutcome, StoreError>),
    /// The operation panicked.
    Panicked,
}

/// Performs operations.
pub(crate) trait Engine {
    /// Takes an operation on a disk; starts it at the latest with the next call of another method.
    fn submit(&mut self, slot: usize, disk: u64, io: Io);
    /// Starts all submitted operations.
    fn flush(&mut self);
    /// Collects the finished operations; with `wait`, blocks until there is one or a [`Waker`] wakes it.
    /// Returns whether a waker has.
    fn collect(&mut self, wait: bool, done: &mut VecDeque<(usize, IoDone)>) -> bool;
    /// A handle that interrupts a blocked `collect` from another thread.
    fn waker(&self) -> Waker;
    /// The name of the engine.
    fn name(&self) -> &'static str;
}

/// Interrupts [`crate::Queue::wait`] from any thread.
#[derive(Clone)]
pub struct Waker {
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Waker {
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { wake: Arc::new(wake) }
    }

    /// Makes the current or the next wait return.
    pub fn wake(&self) {
        (self.wake)();
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

/// The lanes of an engine: one for each disk, for the operations that block.
pub(crate) struct DiskLanes {
    threads: TaskThreads,
    /// The operations of a disk that block at once.
    limit: usize,
    lanes: HashMap<u64, TaskLane>,
}

impl DiskLanes {
    pub(crate) fn new(threads: TaskThreads, limit: usize) -> Self {
        Self { threads, limit, lanes: HashMap::new() }
    }

    /// Performs an operation on a thread, and passes its result to `then`.
    pub(crate) fn run(&mut self, disk: u64, io: Io, then: impl FnOnce(IoDone) + Send + 'static) {
        let lane = self.lanes.entry(disk).or_insert_with(|| self.threads.lane(self.limit));
        lane.run(move || then(run(io)));
    }
}

/// Performs an operation in the calling thread.
pub(crate) fn run(io: Io) -> IoDone {
    let run = || match io {
        Io::Read { file, position, mut buffer, start, len } => {
            let moved = file.read_at(&mut buffer[start..start + len], position);
            IoDone::Moved(moved, buffer)
        }
        Io::Write { file, position, buffer, len } => {
            let moved = file.write_all_at(&buffer[..len], position).map(|()| len);
            IoDone::Moved(moved, buffer)
        }
        Io::Task(task) => IoDone::Ran(task()),
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(IoDone::Panicked)
}
