//! The interface of the engines that perform the I/O of a queue.
//!
//! The queue submits each operation under a slot. The engine returns each slot once, in any order,
//! with the buffer of the operation. Dropping an engine waits for all operations.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::error::StoreError;
use crate::medium::MediumFile;

/// An operation of an engine.
pub(crate) enum Io {
    /// Read the first `len` bytes of the buffer from a position; fewer at the end of the file.
    Read { file: Arc<dyn MediumFile>, position: u64, buffer: Buffer, len: usize },
    /// Write the first `len` bytes of the buffer to a position.
    Write { file: Arc<dyn MediumFile>, position: u64, buffer: Buffer, len: usize },
    /// Run a function that may block.
    Task(Box<dyn FnOnce() -> Result<(), StoreError> + Send>),
}

/// The result of an operation.
pub(crate) enum IoDone {
    /// The number of bytes read or written.
    Moved(io::Result<usize>, Buffer),
    Ran(Result<(), StoreError>),
}

/// Performs operations.
pub(crate) trait Engine {
    /// Takes an operation; starts it at the latest with the next call of another method.
    fn submit(&mut self, slot: usize, io: Io);
    /// Starts all submitted operations.
    fn flush(&mut self);
    /// Collects the finished operations; with `wait`, blocks until there is one or a [`Waker`] wakes it.
    fn collect(&mut self, wait: bool, done: &mut VecDeque<(usize, IoDone)>);
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

/// Performs an operation in the calling thread.
pub(crate) fn run(io: Io) -> IoDone {
    match io {
        Io::Read { file, position, mut buffer, len } => {
            let moved = file.read_at(&mut buffer[..len], position);
            IoDone::Moved(moved, buffer)
        }
        Io::Write { file, position, buffer, len } => {
            let moved = file.write_all_at(&buffer[..len], position).map(|()| len);
            IoDone::Moved(moved, buffer)
        }
        Io::Task(task) => IoDone::Ran(task()),
    }
}
