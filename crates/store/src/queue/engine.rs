//! What carries the I/O of a queue out.
//!
//! An engine takes operations under slots and hands back each slot once, in any order, with the
//! buffer it was given. It answers all of them before it is dropped.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::error::StoreError;
use crate::medium::MediumFile;

/// One operation.
pub(crate) enum Io {
    /// Read the first `len` bytes of the buffer from a position; fewer at the end of the file.
    Read { file: Arc<dyn MediumFile>, position: u64, buffer: Buffer, len: usize },
    /// Write the first `len` bytes of the buffer to a position.
    Write { file: Arc<dyn MediumFile>, position: u64, buffer: Buffer, len: usize },
    /// Run something that waits by itself.
    Task(Box<dyn FnOnce() -> Result<(), StoreError> + Send>),
}

/// What became of an operation.
pub(crate) enum IoDone {
    /// Bytes read or written.
    Moved(io::Result<usize>, Buffer),
    Ran(Result<(), StoreError>),
}

/// Carries out operations.
pub(crate) trait Engine {
    /// Takes an operation; it begins at the latest with the next call of another method.
    fn submit(&mut self, slot: usize, io: Io);
    /// Begins what was submitted.
    fn flush(&mut self);
    /// Collects what is done; with `wait`, not before something is or a [`Waker`] is used.
    fn collect(&mut self, wait: bool, done: &mut VecDeque<(usize, IoDone)>);
    /// Interrupts a waiting `collect` from another thread.
    fn waker(&self) -> Waker;
    /// What it is called.
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

/// Carries out an operation in the calling thread.
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
