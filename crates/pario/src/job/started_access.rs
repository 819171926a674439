//! Started accesses to a shared file.
//!
//! They are placed when they are started; a thread of the file moves their bytes, one access after
//! the other.

use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use bytes::Bytes;

use super::SharedFile;
use super::read_into::BorrowedBuffer;
use super::shared_file::{AccessTarget, Inner};
use crate::error::Error;

/// An access on its way to the thread that performs it.
pub(super) enum StartedAccess {
    Read {
        target: AccessTarget,
        len: usize,
        done: mpsc::Sender<Result<Bytes, Error>>,
    },
    ReadInto {
        target: AccessTarget,
        memory: BorrowedBuffer,
        done: mpsc::Sender<Result<usize, Error>>,
    },
    Write {
        target: AccessTarget,
        bytes: Bytes,
        done: mpsc::Sender<Result<(), Error>>,
    },
}

/// The thread that performs started accesses. Dropping it waits until all of them are done.
pub(super) struct AccessWorker {
    started: Option<mpsc::Sender<StartedAccess>>,
    thread: Option<JoinHandle<()>>,
}

/// A started read; made by [`SharedFile::start_read`].
#[must_use = "call `wait` to get the bytes"]
#[derive(Debug)]
pub struct SharedRead(Pending<Bytes>);

/// A started write; made by [`SharedFile::start_write`].
#[must_use = "call `wait` to get the result"]
#[derive(Debug)]
pub struct SharedWrite(Pending<()>);

#[derive(Debug)]
pub(super) struct Pending<T> {
    done: Receiver<Result<T, Error>>,
    result: Option<Result<T, Error>>,
}

impl SharedFile {
    /// Starts a read at the pointer of the mode. The read is placed now.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # let files = pario::Job::new("job", 1, 0)?.files(&cluster);
    /// use pario::{Mode, Seek};
    ///
    /// let state = files.create("/state", Mode::Record)?;
    /// let pending = state.start_write(vec![7; 1 << 20])?; // the disks work ...
    /// let next: u64 = (0..1000).sum(); // ... while we compute
    /// pending.wait()?;
    /// state.seek(Seek::Start(0))?;
    /// let (first, second) = (state.start_read(5)?, state.start_read(5)?);
    /// assert_eq!(&second.wait()?[..], &[7; 5]);
    /// # assert_eq!(next, 499_500);
    /// # first.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_read(&self, len: usize) -> Result<SharedRead, Error> {
        let target = self.inner.place_access(pario_proto::Transfer::read(len as u64))?;
        let (done, pending) = Pending::new();
        self.submit(StartedAccess::Read { target, len, done })?;
        Ok(SharedRead(pending))
    }

    /// Starts a write at the pointer of the mode. The write is placed now.
    pub fn start_write(&self, bytes: impl Into<Bytes>) -> Result<SharedWrite, Error> {
        let bytes = bytes.into();
        let target = self.inner.place_access(self.inner.write_of(bytes.len()))?;
        let (done, pending) = Pending::new();
        self.submit(StartedAccess::Write { target, bytes, done })?;
        Ok(SharedWrite(pending))
    }

    pub(super) fn submit(&self, started: StartedAccess) -> Result<(), Error> {
        let mut worker = self.inner.worker.lock();
        if worker.is_none() {
            let (send, receive) = mpsc::channel();
            let inner = Arc::downgrade(&self.inner);
            let thread = std::thread::Builder::new().name("pario-access".to_owned());
            let thread = thread.spawn(move || run_worker(&inner, &receive)).map_err(|error| {
                Error::other(format!("cannot start the thread of the shared file: {error}"))
            })?;
            *worker = Some(AccessWorker { started: Some(send), thread: Some(thread) });
        }
        let sender = worker.as_ref().and_then(|worker| worker.started.as_ref());
        let is_sent = sender.is_some_and(|sender| sender.send(started).is_ok());
        if is_sent { Ok(()) } else { Err(ended()) }
    }
}

fn run_worker(file: &Weak<Inner>, started: &Receiver<StartedAccess>) {
    for one in started {
        let Some(inner) = file.upgrade() else { return };
        // The caller may have dropped the receiver.
        match one {
            StartedAccess::Read { target, len, done } => {
                let mut bytes = vec![0; len];
                let read = inner.read_placed(target, &mut bytes);
                let _ = done.send(read.map(|count| {
                    bytes.truncate(count);
                    Bytes::from(bytes)
                }));
            }
            StartedAccess::ReadInto { target, mut memory, done } => {
                let _ = done.send(inner.read_placed(target, memory.bytes()));
            }
            StartedAccess::Write { target, bytes, done } => {
                let _ = done.send(inner.write_placed(target, &bytes));
            }
        }
    }
}

impl Drop for AccessWorker {
    fn drop(&mut self) {
        self.started.take();
        // The thread itself may drop the file last.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl<T> Pending<T> {
    /// A pending result, and the sender of it.
    pub(super) fn new() -> (mpsc::Sender<Result<T, Error>>, Self) {
        let (done, receive) = mpsc::channel();
        (done, Self { done: receive, result: None })
    }

    pub(super) fn is_done(&mut self) -> bool {
        if self.result.is_none() {
            match self.done.try_recv() {
                Ok(result) => self.result = Some(result),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => self.result = Some(Err(ended())),
            }
        }
        self.result.is_some()
    }

    pub(super) fn wait(self) -> Result<T, Error> {
        match self.result {
            Some(result) => result,
            None => self.done.recv().unwrap_or_else(|_| Err(ended())),
        }
    }
}

fn ended() -> Error {
    Error::other("the thread of the shared file has ended".to_owned())
}

impl SharedRead {
    /// Whether the read is over, so that `wait` returns at once.
    pub fn is_done(&mut self) -> bool {
        self.0.is_done()
    }

    /// Waits for the bytes; fewer than requested only at the end of the file.
    pub fn wait(self) -> Result<Bytes, Error> {
        self.0.wait()
    }
}

impl SharedWrite {
    /// Whether the write is over, so that `wait` returns at once.
    pub fn is_done(&mut self) -> bool {
        self.0.is_done()
    }

    /// Waits until the write is done.
    pub fn wait(self) -> Result<(), Error> {
        self.0.wait()
    }
}
