//! Started accesses to a shared file.
//!
//! They are placed when they are started. Threads of the file take them in this order and perform
//! up to [`STARTED_ACCESSES_AT_ONCE`] at the same time; `issued_accesses` keeps conflicting ones in
//! order.
//!
//! *Threads.* The first started access creates the first thread. A thread that takes an access and
//! leaves others in the queue creates the next one, so that all threads have the signal mask with
//! which the first one was created.
//!
//! *Ownership.* A queued access keeps the file, so that it is performed even if the caller has
//! dropped the file. The threads end when the file is gone and the queue is empty.
//!
//! *No deadlock.* A thread that waits for an access sleeps until an access thread has performed it.
//! If an access thread itself has to wait (a task that it woke may run on it), it performs the
//! queued accesses in place instead of sleeping.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::{JoinHandle, ThreadId};

use bytes::Bytes;
use pario_net::StartedRequest;
use pario_proto::CallKind;
use parking_lot::{Condvar, Mutex};

use super::SharedFile;
use super::coordination::PendingRound;
use super::read_into::BorrowedBuffer;
use super::shared_file::{AccessTarget, Inner, StartedRead};
use crate::error::Error;
use crate::pending::Pending;

/// Started accesses of one open file that move bytes at the same time.
const STARTED_ACCESSES_AT_ONCE: usize = 16;

/// An access on its way to the thread that performs it.
pub(super) enum StartedAccess {
    Read {
        started: StartedRead,
        len: usize,
        slot: AccessSlot<Bytes>,
    },
    ReadInto {
        started: StartedRead,
        memory: BorrowedBuffer,
        slot: AccessSlot<usize>,
    },
    Write {
        target: AccessTarget,
        bytes: Bytes,
        slot: AccessSlot<()>,
    },
    /// An access that this rank could not make: only the outcome of its round is taken.
    Failed {
        round: PendingRound,
    },
}

/// The threads that perform started accesses. Dropping them waits until all accesses are done.
pub(super) struct AccessWorkers {
    queue: Arc<AccessQueue>,
}

struct AccessQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    accesses: VecDeque<(Arc<Inner>, StartedAccess)>,
    threads: Vec<JoinHandle<()>>,
    /// The threads that run.
    ids: HashSet<ThreadId>,
    /// The number of threads that wait for an access.
    idle: usize,
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
        let started = self.inner.place_started_read(len)?;
        self.submit(|slot| StartedAccess::Read { started, len, slot })
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

    /// Starts a call of this kind that this rank cannot make, and says why: if the mode makes such
    /// calls collective, it fails on all ranks, with this rank and the reason. Does not wait for them.
    pub fn start_failed_call(&self, kind: CallKind, why: &str) {
        let Some(round) = self.inner.fail_call(kind, why) else { return };
        match self.access_queue() {
            Ok(queue) => queue.push(self.inner.clone(), StartedAccess::Failed { round }),
            // No thread can be created.
            Err(_) => self.inner.wait_failed(round),
        }
    }

    pub(super) fn submit<T: Send + 'static>(
        &self,
        access: impl FnOnce(AccessSlot<T>) -> StartedAccess,
    ) -> Result<Pending<T>, Error> {
        let queue = self.access_queue()?;
        let slot = Arc::new(SlotShared {
            state: Mutex::new(SlotState { result: None, is_done: false, waker: None }),
            done: Condvar::new(),
        });
        queue.push(self.inner.clone(), access(AccessSlot(slot.clone())));
        Ok(Pending::started(PendingAccess { slot, queue }))
    }

    /// Returns the queue of started accesses; the first call starts a thread.
    fn access_queue(&self) -> Result<Arc<AccessQueue>, Error> {
        let mut workers = self.inner.workers.lock();
        match &*workers {
            Some(workers) => Ok(workers.queue.clone()),
            None => Ok(workers.insert(AccessWorkers::start()?).queue.clone()),
        }
    }
}

impl AccessWorkers {
    fn start() -> Result<Self, Error> {
        let state = Mutex::new(QueueState::default());
        let queue = Arc::new(AccessQueue { state, changed: Condvar::new() });
        let thread = queue.clone().new_thread().map_err(|error| {
            Error::other(format!("cannot start the thread of the shared file: {error}"))
        })?;
        queue.state.lock().threads.push(thread);
        Ok(Self { queue })
    }
}

impl Drop for AccessWorkers {
    fn drop(&mut self) {
        self.queue.state.lock().is_closed = true;
        self.queue.changed.notify_all();
        let own = std::thread::current().id();
        if self.queue.is_own_thread() {
            // The last access may drop the file, and a woken task may close it.
            while self.queue.perform_next() {}
        }
        // A thread that performs an access may create another one until the queue is empty.
        while let Some(thread) = self.queue.pop_thread() {
            if thread.thread().id() != own {
                // A panic of the thread was reported when it happened.
                let _ = thread.join();
            }
        }
    }
}

impl AccessQueue {
    fn push(&self, inner: Arc<Inner>, access: StartedAccess) {
        self.state.lock().accesses.push_back((inner, access));
        self.changed.notify_one();
    }

    fn new_thread(self: Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let thread = std::thread::Builder::new().name("pario-access".to_owned());
        thread.spawn(move || self.run())
    }

    /// Performs accesses until the workers are dropped and none is left.
    fn run(self: Arc<Self>) {
        self.state.lock().ids.insert(std::thread::current().id());
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
            state.idle += 1;
            self.changed.wait(&mut state);
            state.idle -= 1;
        }
    }

    /// Performs the oldest access. Returns false if there is none.
    fn perform_next(self: &Arc<Self>) -> bool {
        // The file is dropped last, without the lock.
        let Some((inner, access)) = self.take_next() else { return false };
        match access {
            StartedAccess::Read { started, len, slot } => {
                let mut bytes = vec![0; len];
                let read = inner.read_started(started, &mut bytes);
                slot.fill(read.map(|count| {
                    bytes.truncate(count);
                    Bytes::from(bytes)
                }));
            }
            StartedAccess::ReadInto { started, mut memory, slot } => {
                slot.fill(inner.read_started(started, memory.bytes()));
            }
            StartedAccess::Write { target, bytes, slot } => {
                slot.fill(inner.write_placed(target, &bytes));
            }
            StartedAccess::Failed { round } => inner.wait_failed(round),
        }
        true
    }

    /// Takes the oldest access. If others wait for a thread, creates one.
    fn take_next(self: &Arc<Self>) -> Option<(Arc<Inner>, StartedAccess)> {
        let mut state = self.state.lock();
        let next = state.accesses.pop_front()?;
        let is_needed = state.accesses.len() > state.idle;
        if is_needed && state.threads.len() < STARTED_ACCESSES_AT_ONCE {
            // Without another thread the accesses are performed more slowly.
            state.threads.extend(self.clone().new_thread());
        }
        Some(next)
    }

    fn pop_thread(&self) -> Option<JoinHandle<()>> {
        self.state.lock().threads.pop()
    }

    fn is_own_thread(&self) -> bool {
        self.state.lock().ids.contains(&std::thread::current().id())
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
