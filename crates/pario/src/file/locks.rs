//! Record locks: bytes that processes lock for each other.

use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use pario_net::StartedRequest;
use pario_proto::{
    HeldLock, LOCK_END, LockCall, LockKind, LockOutcome, LockRange, LockRequest, Reply, Request,
};
use parking_lot::Mutex;

use super::File;
use super::started::poll_reply;
use crate::connection::{Waiting, Watch, answered, strange};
use crate::error::Error;
use crate::pending::Pending;

/// A started wait for a lock.
struct LockWait {
    file: File,
    number: u64,
    /// Present until the reply is taken.
    request: Option<(Waiting, Watch)>,
}

/// Whether this process has locked bytes through an open file, and the connection that keeps the
/// locks.
#[derive(Default)]
pub(super) struct Locked {
    is_some: AtomicBool,
    watch: Mutex<Option<Watch>>,
}

impl File {
    /// Locks bytes, and waits until no other process holds a conflicting lock. `..` means all
    /// bytes, including those that the file will get.
    ///
    /// Locks are advisory: reads and writes do not check them. They belong to this process and its
    /// connection to the cluster: locks of its threads, through any [`File`], never conflict with
    /// each other. A new lock replaces the older locks of the process on the same bytes. Locks end
    /// when they are unlocked, when the process has closed the file, and when the process ends.
    ///
    /// A shared lock needs a file that was opened for reading, an exclusive one a file that was
    /// opened for writing. A wait that would close a cycle of waiting processes is an error. If the
    /// connection to the interface node is lost, so are the locks: every later access through this
    /// [`File`] fails with [`Error::LocksLost`], until it is opened again.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # let file = cluster.create("/counter")?;
    /// # file.write_at(&[0; 8], 0)?;
    /// use pario::LockKind;
    ///
    /// // Any number of processes count, and no count is lost.
    /// let file = cluster.options().read(true).write(true).open("/counter")?;
    /// file.lock(0..8, LockKind::Exclusive)?;
    /// let mut count = [0; 8];
    /// file.read_exact_at(&mut count, 0)?;
    /// file.write_at(&(u64::from_le_bytes(count) + 1).to_le_bytes(), 0)?;
    /// file.unlock(0..8)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self, bytes: impl RangeBounds<u64>, kind: LockKind) -> Result<(), Error> {
        self.start_lock(bytes, kind)?.wait()
    }

    /// Locks bytes if no other process holds a conflicting lock. Returns whether they are locked.
    pub fn try_lock(&self, bytes: impl RangeBounds<u64>, kind: LockKind) -> Result<bool, Error> {
        let range = self.lockable(bytes, Some(kind))?;
        let watch = self.state.cluster.shared.interface().watch()?;
        match self.call_lock(LockCall::Try(range, kind))? {
            LockOutcome::Done => {
                self.state.locked.note(watch);
                Ok(true)
            }
            LockOutcome::Held(_) => Ok(false),
            LockOutcome::Withdrawn => Err(strange("interface")),
        }
    }

    /// Releases the locks of this process on these bytes.
    pub fn unlock(&self, bytes: impl RangeBounds<u64>) -> Result<(), Error> {
        let range = self.lockable(bytes, None)?;
        // A lock that another thread takes from now on is noted again.
        let before = if range == LockRange::ALL { self.state.locked.forget() } else { None };
        let unlocked = self.call_lock(LockCall::Unlock(range));
        if let (Err(_), Some(watch)) = (&unlocked, before) {
            self.state.locked.note(watch);
        }
        unlocked.map(|_| ())
    }

    /// Returns the conflicting lock of another process; of several, the one that begins first.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let mut config = pario_server::config::Config::alone(dir.path());
    /// # config.nodes[0].socket = dir.path().join("pario.sock");
    /// # let _node = pario_server::Node::start(&config, "local")?;
    /// # let address = format!("unix:{}", dir.path().join("pario.sock").display());
    /// # let (cluster, other) = (pario::Cluster::connect(&address)?, pario::Cluster::connect(&address)?);
    /// use pario::LockKind;
    ///
    /// let file = cluster.create("/index")?;
    /// let theirs = other.open("/index")?; // as another process has it
    /// theirs.lock(100.., LockKind::Shared)?;
    ///
    /// let held = file.test_lock(.., LockKind::Exclusive)?.expect("it is locked");
    /// assert_eq!((held.range.from, held.kind), (100, LockKind::Shared));
    /// assert!(!file.try_lock(.., LockKind::Exclusive)?);
    /// assert!(file.try_lock(..100, LockKind::Exclusive)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn test_lock(
        &self,
        bytes: impl RangeBounds<u64>,
        kind: LockKind,
    ) -> Result<Option<HeldLock>, Error> {
        let range = self.lockable(bytes, None)?;
        match self.call_lock(LockCall::Test(range, kind))? {
            LockOutcome::Held(held) => Ok(Some(held)),
            LockOutcome::Done => Ok(None),
            LockOutcome::Withdrawn => Err(strange("interface")),
        }
    }

    /// Starts to wait for a lock. The bytes are locked when the request is over. Cancelling or
    /// dropping it withdraws the wait; if the lock was granted just before, the bytes are locked,
    /// and `cancel` says so.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let file = cluster.create("/index")?;
    /// let request = file.start_lock(.., pario::LockKind::Exclusive)?;
    /// if request.cancel()?.is_some() {
    ///     file.unlock(..)?; // the lock was granted before
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_lock(
        &self,
        bytes: impl RangeBounds<u64>,
        kind: LockKind,
    ) -> Result<Pending<()>, Error> {
        let range = self.lockable(bytes, Some(kind))?;
        let shared = &self.state.cluster.shared;
        let number = shared.lock_waits.fetch_add(1, Ordering::Relaxed);
        let watch = shared.interface().watch()?;
        let request = self.lock_request(LockCall::Wait { range, kind, number });
        let waiting = shared.interface().start(request, Vec::new());
        let waiting = waiting.map_err(|error| error.of_file(self.state.path.as_str()))?;
        let request = Some((waiting.without_limit(), watch));
        Ok(Pending::started(LockWait { file: self.share(), number, request }))
    }

    /// Fails if locks that were taken through this file are lost.
    pub(super) fn check_locked(&self) -> Result<(), Error> {
        if self.state.locked.is_lost() {
            return Err(Error::LocksLost { path: self.state.path.to_string() });
        }
        Ok(())
    }

    /// Checks the range of a lock, and that the file was opened for its kind.
    fn lockable(
        &self,
        bytes: impl RangeBounds<u64>,
        kind: Option<LockKind>,
    ) -> Result<LockRange, Error> {
        match kind {
            Some(LockKind::Shared) => self.check_readable()?,
            Some(LockKind::Exclusive) => self.check_writable()?,
            None => {}
        }
        let from = match bytes.start_bound() {
            Bound::Included(&from) => Some(from),
            Bound::Excluded(from) => from.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let to = match bytes.end_bound() {
            Bound::Included(to) => to.checked_add(1),
            Bound::Excluded(&to) => Some(to),
            Bound::Unbounded => Some(LOCK_END),
        };
        let range = from.zip(to).and_then(|(from, to)| LockRange::new(from, to));
        range.ok_or_else(|| {
            Error::invalid(format!(
                "{}: a lock has at least one byte, and ends at byte 2^63 or before",
                self.state.path
            ))
        })
    }

    fn lock_request(&self, call: LockCall) -> Request {
        Request::Lock(LockRequest { handle: self.state.handle, pid: std::process::id(), call })
    }

    fn call_lock(&self, call: LockCall) -> Result<LockOutcome, Error> {
        let reply = self.state.cluster.shared.interface().call(self.lock_request(call));
        outcome(reply).map_err(|error| error.of_file(self.state.path.as_str()))
    }
}

impl LockWait {
    /// Whether the bytes are locked, by the reply.
    fn finish(&self, reply: Result<Reply, Error>, watch: Watch) -> Result<bool, Error> {
        let state = &self.file.state;
        match outcome(reply).map_err(|error| error.of_file(state.path.as_str()))? {
            LockOutcome::Done => {
                state.locked.note(watch);
                Ok(true)
            }
            LockOutcome::Withdrawn => Ok(false),
            LockOutcome::Held(_) => Err(strange("interface")),
        }
    }
}

impl StartedRequest<(), Error> for LockWait {
    fn is_done(&self) -> bool {
        self.request.as_ref().is_none_or(|(waiting, _)| waiting.pending.is_done())
    }

    fn wait(mut self: Box<Self>) -> Result<(), Error> {
        let Some((waiting, watch)) = self.request.take() else { return Err(strange("interface")) };
        let reply = waiting.wait().map(|(reply, _)| reply);
        match self.finish(reply, watch)? {
            true => Ok(()),
            false => Err(strange("interface")),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Some((waiting, _)) = &mut self.request else {
            return Poll::Ready(Err(strange("interface")));
        };
        let reply = std::task::ready!(poll_reply(&mut waiting.pending, context));
        let reply = answered(waiting.node(), reply).map(|(reply, _)| reply);
        match self.request.take() {
            Some((_, watch)) => Poll::Ready(self.finish(reply, watch).map(|_| ())),
            None => Poll::Ready(Err(strange("interface"))),
        }
    }

    fn cancel(mut self: Box<Self>) -> Result<Option<()>, Error> {
        let Some((waiting, watch)) = self.request.take() else { return Ok(Some(())) };
        let withdrawn = self.file.call_lock(LockCall::Withdraw { number: self.number });
        // The node replies to the wait before it replies to the withdrawal.
        let reply = withdrawn.and_then(|_| waiting.wait().map(|(reply, _)| reply));
        Ok(self.finish(reply, watch)?.then_some(()))
    }

    fn abandon(self: Box<Self>) {
        if self.is_done() {
            // A granted lock is noted, so that its loss is reported.
            let _ = self.wait();
            return;
        }
        let request = self.file.lock_request(LockCall::Withdraw { number: self.number });
        self.file.state.cluster.shared.interface().tell(request);
    }
}

impl Locked {
    fn note(&self, watch: Watch) {
        let mut noted = self.watch.lock();
        *noted = Some(watch);
        self.is_some.store(true, Ordering::Release);
    }

    fn forget(&self) -> Option<Watch> {
        let mut watch = self.watch.lock();
        self.is_some.store(false, Ordering::Release);
        watch.take()
    }

    fn is_lost(&self) -> bool {
        let is_lost = || self.watch.lock().as_ref().is_some_and(|watch| !watch.is_open());
        self.is_some.load(Ordering::Acquire) && is_lost()
    }
}

fn outcome(reply: Result<Reply, Error>) -> Result<LockOutcome, Error> {
    match reply? {
        Reply::Lock(outcome) => Ok(outcome),
        _ => Err(strange("interface")),
    }
}
