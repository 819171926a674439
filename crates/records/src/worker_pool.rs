//! The threads that carry out started accesses and requests of other machines, for all record files
//! of a process.

use std::collections::VecDeque;
use std::sync::OnceLock;

use parking_lot::{Condvar, Mutex};

/// Threads per pool.
const THREADS_PER_POOL: usize = 4;
/// Queued tasks per pool of started accesses. To start one more, a caller waits for room.
const QUEUE_LIMIT: usize = 1024;

/// A pool of threads whose tasks wait for the same kind of thing. Tasks that wait for each other run
/// in different pools, so that no pool can be full of tasks that wait for one in its own queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerPool {
    /// Accesses of this process to local parts. They wait for the disk and for mutexes of other
    /// ranks.
    LocalAccess,
    /// Accesses of this process to parts of other machines. They wait for those machines.
    RemoteAccess,
    /// Requests of other machines that wait for the disk only.
    ServeDisk,
    /// Requests of other machines that also wait for mutexes.
    ServeAdd,
}

/// A task of a pool.
pub type PoolTask = Box<dyn FnOnce() + Send>;

/// The queue and the threads of one pool.
struct PoolThreads {
    queue: Mutex<VecDeque<PoolTask>>,
    is_more: Condvar,
    is_room: Condvar,
    /// Whether the pool has threads; set when they are first needed.
    are_started: OnceLock<bool>,
}

static POOLS: [PoolThreads; 4] = [const { PoolThreads::new() }; 4];

/// Starts the threads for accesses unless they run. The first started access does this by itself; a
/// caller that wants the threads to inherit a certain signal mask calls it before.
#[doc(hidden)]
pub fn start_workers() {
    WorkerPool::LocalAccess.threads();
    WorkerPool::RemoteAccess.threads();
    super::deferred::is_watched();
}

impl WorkerPool {
    /// Lets a thread of the pool run a task. Runs it here if the system grants no threads.
    pub fn submit(self, task: impl FnOnce() + Send + 'static) {
        let Some(threads) = self.threads() else { return task() };
        let mut queue = threads.queue.lock();
        // The data server must not wait; the windows of the requesting ranks bound these queues.
        while self.is_limited() && queue.len() >= QUEUE_LIMIT {
            threads.is_room.wait(&mut queue);
        }
        queue.push_back(Box::new(task));
        threads.is_more.notify_one();
    }

    fn is_limited(self) -> bool {
        matches!(self, Self::LocalAccess | Self::RemoteAccess)
    }

    fn threads(self) -> Option<&'static PoolThreads> {
        let (threads, name) = match self {
            Self::LocalAccess => (&POOLS[0], "local"),
            Self::RemoteAccess => (&POOLS[1], "remote"),
            Self::ServeDisk => (&POOLS[2], "serve"),
            Self::ServeAdd => (&POOLS[3], "add"),
        };
        threads.are_started.get_or_init(|| threads.start(name)).then_some(threads)
    }
}

impl PoolThreads {
    const fn new() -> Self {
        Self {
            queue: Mutex::new(VecDeque::new()),
            is_more: Condvar::new(),
            is_room: Condvar::new(),
            are_started: OnceLock::new(),
        }
    }

    fn start(&'static self, name: &str) -> bool {
        let started = (0..THREADS_PER_POOL).filter(|number| {
            let thread = std::thread::Builder::new().name(format!("records-{name}-{number}"));
            thread.spawn(|| self.run()).is_ok()
        });
        started.count() > 0
    }

    fn run(&self) {
        loop {
            let task = {
                let mut queue = self.queue.lock();
                loop {
                    if let Some(task) = queue.pop_front() {
                        break task;
                    }
                    self.is_more.wait(&mut queue);
                }
            };
            self.is_room.notify_one();
            // The panic hook has reported a panic; dropping the task reports it to the waiting caller.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(task));
        }
    }
}
