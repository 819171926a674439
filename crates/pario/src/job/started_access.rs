//! Started accesses to a shared file.
//!
//! They are placed when they are started. A thread of the file performs them, one after the other.
//!
//! *Ownership.* A queued access keeps the file, so that it is performed even if the caller has
//! dropped the file. The thread ends when the file is gone and the queue is empty.
//!
//! *No deadlock.* A thread that waits for an access sleeps until the access thread has performed
//! it. If the access thread itself has to wait (a task that it woke may run on it), it performs the
//! queued accesses in place instead of sleeping.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::{JoinHandle, ThreadId};

use bytes::Bytes;
use pario_net::StartedRequest;
use parking_lot::{Condvar, Mutex};

use super::SharedFile;
use super::read_into::BorrowedBuffer;
use super::shared_file::{AccessTarget, Inner};
use crate::error::Error;
use crate::pending::Pending;

/// An access on its way to the thread that performs it.
pub(super) enum StartedAccess {
    Read { target: AccessTarget, len: usize, slot: AccessSlot<Bytes> },
    ReadInto { target: AccessTarget, memory: BorrowedBuffer, slot: AccessSlot<usize> },
    Write { target: AccessTarget, bytes: Bytes, slot: AccessSlot<()> },
}

/// The thread that performs started accesses. Dropping it waits until all of them are done.
pub(super) struct AccessWorker {
    queue: Arc<AccessQueue>,
    thread: Option<JoinHandle<()>>,
}

struct AccessQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    accesses: VecDeque<(Arc<Inner>, StartedAccess)>,
    /// The thread that performs the accesses; known once it runs.
    thread: Option<ThreadId>,
    is_closed: bool,
}

/// Where the result of an access goes. An access that is dropped leaves an error.
pub(super) struct AccessSlot<T>(Arc<SlotShared<T>>);

struct SlotShared<T> {
    state: Mutex<SlotState<T>>,
    done: Condvar,
}

struct SlotState<T> {
    result: Option<Result<T, Error>>,
    is_done: bool,
    waker: Option<Waker>,
}

/// The caller's side of a started access.
struct PendingAccess<T> {
    slot: Arc<SlotShared<T>>,
    queue: Arc<AccessQueue>,
}

impl SharedFile {
    /// Starts a read of `len` bytes at the pointer of the mode. The read is placed now. Its result
    /// has fewer bytes only at the end of the file.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # let files = pario::Job::new("job", 1, 0)?.files(&cluster);
    /// use pario::Mode;
    /// use std::io::SeekFrom;
    ///
    /// let state = files.create("/state", Mode::Record)?;
    /// let pending = state.start_write(vec![7; 1 << 20])?; // the disks work ...
    /// let next: u64 = (0..1000).sum(); // ... while we compute
    /// pending.wait()?;
    /// state.seek(SeekFrom::Start(0))?;
    /// let (first, second) = (state.start_read(5)?, state.start_read(5)?);
    /// assert_eq!(&second.wait()?[..], &[7; 5]);
    /// # assert_eq!(next, 499_500);
    /// # first.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_read(&self, len: usize) -> Result<Pending<Bytes>, Error> {
        let target = self.inner.place_access(pario_proto::Transfer::read(len as u64))?;
        self.submit(|slot| StartedAccess::Read { target, len, slot })
    }

    /// Starts a write at the pointer of the mode. The write is placed now. If the mode makes it
    /// collective, it is over when all ranks have made it. An append in M_UNIX or M_ASYNC is over
    /// when this returns: other processes may append right after it.
    pub fn start_write(&self, bytes: impl Into<Bytes>) -> Result<Pending<()>, Error> {
        let bytes = bytes.into();
        if let Some(appended) = self.inner.append_private(&bytes) {
            return appended.map(|()| Pending::ready(Ok(())));
        }
        let target = self.inner.place_access(self.inner.write_of(bytes.len()))?;
        self.submit(|slot| StartedAccess::Write { target, bytes, slot })
    }

    pub(super) fn submit<T: Send + 'static>(
        &self,
        access: impl FnOnce(AccessSlot<T>) -> StartedAccess,
    ) -> Result<Pending<T>, Error> {
        let queue = {
            let mut worker = self.inner.worker.lock();
            if worker.is_none() {
                *worker = Some(AccessWorker::start()?);
            }
            worker.as_ref().map(|worker| worker.queue.clone()).ok_or_else(ended)?
        };
        let slot = Arc::new(SlotShared {
            state: Mutex::new(SlotState { result: None, is_done: false, waker: None }),
            done: Condvar::new(),
        });
        let access = access(AccessSlot(slot.clone()));
        queue.state.lock().accesses.push_back((self.inner.clone(), access));
        queue.changed.notify_one();
        Ok(Pending::started(PendingAccess { slot, queue }))
    }
}

impl AccessWorker {
    fn start() -> Result<Self, Error> {
        let state = Mutex::new(QueueState::default());
        let queue = Arc::new(AccessQueue { state, changed: Condvar::new() });
        let own = queue.clone();
        let thread = std::thread::Builder::new().name("pario-access".to_owned());
        let thread = thread.spawn(move || own.run()).map_err(|error| {
            Error::other(format!("cannot start the thread of the shared file: {error}"))
        })?;
        Ok(Self { queue, thread: Some(thread) })
    }
}

impl Drop for AccessWorker {
    fn drop(&mut self) {
        self.queue.state.lock().is_closed = true;
        self.queue.changed.notify_one();
        let Some(thread) = self.thread.take() else { return };
        if thread.thread().id() == std::thread::current().id() {
            // The last access may drop the file, and a woken task may close it.
            while self.queue.perform_next() {}
            return;
        }
        // A panic of the thread was reported when it happened.
        let _ = thread.join();
    }
}

impl AccessQueue {
    /// Performs accesses until the worker is dropped and none is left.
    fn run(&self) {
        self.state.lock().thread = Some(std::thread::current().id());
        loop {
            // An access that panics leaves an error to its caller; the others go on.
            while catch_unwind(AssertUnwindSafe(|| self.perform_next())).unwrap_or(true) {}
            let mut state = self.state.lock();
            if !state.accesses.is_empty() {
                continue;
            }
            if state.is_closed {
                return;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Performs the oldest access. Returns false if there is none.
    fn perform_next(&self) -> bool {
        // The file is dropped last, without the lock.
        let Some((inner, access)) = self.state.lock().accesses.pop_front() else { return false };
        match access {
            StartedAccess::Read { target, len, slot } => {
                let mut bytes = vec![0; len];
                let read = inner.read_placed(target, &mut bytes);
                slot.fill(read.map(|count| {
                    bytes.truncate(count);
                    Bytes::from(bytes)
                }));
            }
            StartedAccess::ReadInto { target, mut memory, slot } => {
                slot.fill(inner.read_placed(target, memory.bytes()));
            }
            StartedAccess::Write { target, bytes, slot } => {
                slot.fill(inner.write_placed(target, &bytes));
            }
        }
        true
    }

    fn is_own_thread(&self) -> bool {
        self.state.lock().thread == Some(std::thread::current().id())
    }
}

impl<T> AccessSlot<T> {
    fn fill(self, result: Result<T, Error>) {
        self.0.fill(result);
    }
}

impl<T> Drop for AccessSlot<T> {
    fn drop(&mut self) {
        self.0.fill(Err(ended()));
    }
}

impl<T> SlotShared<T> {
    /// Stores the result. Only the first one counts.
    fn fill(&self, result: Result<T, Error>) {
        let waker = {
            let mut state = self.state.lock();
            if state.is_done {
                return;
            }
            (state.result, state.is_done) = (Some(result), true);
            state.waker.take()
        };
        self.done.notify_all();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T: Send> StartedRequest<T, Error> for PendingAccess<T> {
    fn is_done(&self) -> bool {
        self.slot.state.lock().is_done
    }

    fn wait(self: Box<Self>) -> Result<T, Error> {
        if self.queue.is_own_thread() {
            while !self.is_done() && self.queue.perform_next() {}
        }
        let mut state = self.slot.state.lock();
        while !state.is_done {
            self.slot.done.wait(&mut state);
        }
        state.result.take().unwrap_or_else(|| Err(ended()))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T, Error>> {
        let mut state = self.slot.state.lock();
        if !state.is_done {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(state.result.take().unwrap_or_else(|| Err(ended())))
    }
}

fn ended() -> Error {
    Error::other("the thread of the shared file has ended".to_owned())
}
