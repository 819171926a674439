//! Accesses to a shared file that were started and go on by themselves.
//!
//! Their places are taken when they are started; the bytes move in a thread of the file, one access
//! after the other.

use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use bytes::Bytes;

use super::SharedFile;
use super::read_into::BorrowedBuffer;
use super::shared_file::{AccessTarget, Inner};
use crate::error::Error;

/// An access on its way to the thread that does it.
pub(super) enum StartedAccess {
    Read {
        place: AccessTarget,
        len: usize,
        done: mpsc::Sender<Result<Bytes, Error>>,
    },
    ReadInto {
        place: AccessTarget,
        memory: BorrowedBuffer,
        done: mpsc::Sender<Result<usize, Error>>,
    },
    Write {
        place: AccessTarget,
        bytes: Bytes,
        done: mpsc::Sender<Result<(), Error>>,
    },
}

/// The thread that does what was started. Dropping it waits until all is done.
pub(super) struct AccessWorker {
    started: Option<mpsc::Sender<StartedAccess>>,
    thread: Option<JoinHandle<()>>,
}

/// A read that was started; made by [`SharedFile::start_read`].
#[must_use = "the bytes come by waiting"]
#[derive(Debug)]
pub struct SharedRead(Pending<Bytes>);

/// A write that was started; made by [`SharedFile::start_write`].
#[must_use = "whether it worked is known by waiting"]
#[derive(Debug)]
pub struct SharedWrite(Pending<()>);

#[derive(Debug)]
pub(super) struct Pending<T> {
    done: Receiver<Result<T, Error>>,
    result: Option<Result<T, Error>>,
}

impl SharedFile {
    /// Starts to read where the mode says; the place is taken now.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # let group = pario::Group::new(&cluster, "job", 1, 0)?;
    /// use pario::{Mode, Seek};
    ///
    /// let state = group.create("/state", Mode::Record)?;
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
        let place = self.inner.place_access(pario_proto::Transfer::read(len as u64))?;
        let (done, pending) = Pending::new();
        self.submit(StartedAccess::Read { place, len, done })?;
        Ok(SharedRead(pending))
    }

    /// Starts to write bytes where the mode says; the place is taken now.
    pub fn start_write(&self, bytes: impl Into<Bytes>) -> Result<SharedWrite, Error> {
        let bytes = bytes.into();
        let place = self.inner.place_access(self.inner.write_of(bytes.len()))?;
        let (done, pending) = Pending::new();
        self.submit(StartedAccess::Write { place, bytes, done })?;
        Ok(SharedWrite(pending))
    }

    pub(super) fn submit(&self, started: StartedAccess) -> Result<(), Error> {
        let mut worker = self.inner.worker.lock();
        if worker.is_none() {
            let (send, receive) = mpsc::channel();
            let inner = Arc::downgrade(&self.inner);
            let thread = std::thread::Builder::new().name("pario".to_owned());
            let thread = thread
                .spawn(move || run_worker(&inner, &receive))
                .map_err(|error| Error::other(format!("no thread can be started: {error}")))?;
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
        // Nobody has to wait for what was started.
        match one {
            StartedAccess::Read { place, len, done } => {
                let mut bytes = vec![0; len];
                let read = inner.read_placed(place, &mut bytes);
                let _ = done.send(read.map(|count| {
                    bytes.truncate(count);
                    Bytes::from(bytes)
                }));
            }
            StartedAccess::ReadInto { place, mut memory, done } => {
                let _ = done.send(inner.read_placed(place, memory.bytes()));
            }
            StartedAccess::Write { place, bytes, done } => {
                let _ = done.send(inner.write_placed(place, &bytes));
            }
        }
    }
}

impl Drop for AccessWorker {
    fn drop(&mut self) {
        self.started.take();
        // It may be the thread itself that lets go of the file last.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic there was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl<T> Pending<T> {
    /// One that is not over, and by whom it will be.
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
    Error::other("the thread of the file has ended".to_owned())
}

impl SharedRead {
    /// Whether it is over: waiting will not wait.
    pub fn is_done(&mut self) -> bool {
        self.0.is_done()
    }

    /// Waits for the bytes; fewer than asked for only at the end of the file.
    pub fn wait(self) -> Result<Bytes, Error> {
        self.0.wait()
    }
}

impl SharedWrite {
    /// Whether it is over: waiting will not wait.
    pub fn is_done(&mut self) -> bool {
        self.0.is_done()
    }

    /// Waits until it is done.
    pub fn wait(self) -> Result<(), Error> {
        self.0.wait()
    }
}
