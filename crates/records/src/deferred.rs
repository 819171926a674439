//! Deferred tasks: the rest of a started access, which only has to wait for replies.
//!
//! A started access to another machine has sent all its requests when the call returns; what is left
//! is to receive the replies. The thread that waits for the access does that itself and reads them
//! from the socket, so that no other thread has to be woken. If no thread has waited after
//! [`CLAIM_TIMEOUT`], a pool thread takes over, so that the access goes on while its starter computes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::worker_pool::{PoolTask, WorkerPool};

/// The time after which a pool thread takes a deferred task.
const CLAIM_TIMEOUT: Duration = Duration::from_millis(5);

/// A task that runs once, in the first thread that takes it.
pub struct DeferredTask(Mutex<Option<PoolTask>>);

/// The deferred tasks with their times; also those that were taken since, until the watcher looks.
struct DeferredQueue {
    queue: Mutex<VecDeque<(Instant, Arc<DeferredTask>)>>,
    is_more: Condvar,
    /// Whether the watcher runs; set when it is first needed.
    is_watched: OnceLock<bool>,
}

static DEFERRED: DeferredQueue = DeferredQueue {
    queue: Mutex::new(VecDeque::new()),
    is_more: Condvar::new(),
    is_watched: OnceLock::new(),
};

impl DeferredTask {
    /// Defers a task.
    pub fn new(task: impl FnOnce() + Send + 'static) -> Arc<Self> {
        let later = Arc::new(Self(Mutex::new(Some(Box::new(task)))));
        if !is_watched() {
            later.hasten();
            return later;
        }
        let mut queue = DEFERRED.queue.lock();
        // Otherwise the watcher wakes up by itself.
        if queue.is_empty() {
            DEFERRED.is_more.notify_one();
        }
        queue.push_back((Instant::now(), later.clone()));
        later
    }

    /// Runs the task in this thread, unless another thread has taken it.
    pub fn run(&self) {
        let task = self.0.lock().take();
        if let Some(task) = task {
            task();
        }
    }

    /// Lets a pool thread run the task now, unless another thread has taken it.
    pub fn hasten(&self) {
        let task = self.0.lock().take();
        if let Some(task) = task {
            WorkerPool::RemoteAccess.submit(task);
        }
    }

    fn is_taken(&self) -> bool {
        self.0.lock().is_none()
    }
}

/// Lets pool threads run all deferred tasks.
pub fn hasten_all() {
    let left = std::mem::take(&mut *DEFERRED.queue.lock());
    left.iter().for_each(|(_, later)| later.hasten());
}

/// Starts the watcher unless it runs; returns whether it runs.
pub fn is_watched() -> bool {
    *DEFERRED.is_watched.get_or_init(|| {
        let thread = std::thread::Builder::new().name("records-deferred".to_owned());
        thread.spawn(watch).is_ok()
    })
}

/// The watcher: lets pool threads run tasks that no thread has taken in time.
fn watch() {
    let mut queue = DEFERRED.queue.lock();
    loop {
        let Some((since, later)) = queue.front() else {
            DEFERRED.is_more.wait(&mut queue);
            continue;
        };
        let until = *since + CLAIM_TIMEOUT;
        if later.is_taken() {
            queue.pop_front();
        } else if Instant::now() < until {
            DEFERRED.is_more.wait_until(&mut queue, until);
        } else if let Some((_, later)) = queue.pop_front() {
            // The pool may be full, so the queue is unlocked.
            MutexGuard::unlocked(&mut queue, || later.hasten());
        }
    }
}

impl fmt::Debug for DeferredTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_taken() { "DeferredTask(taken)" } else { "DeferredTask" })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::{self, ThreadId};

    use super::super::request::Progress;
    use super::*;

    const TIME_LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn a_task_runs_once() {
        for _ in 0..100 {
            let (done, times) = channel();
            let later = DeferredTask::new(move || done.send(()).unwrap());
            thread::scope(|scope| {
                scope.spawn(|| later.run());
                scope.spawn(|| later.hasten());
                scope.spawn(hasten_all);
            });
            assert_eq!(times.iter().count(), 1);
        }
    }

    #[test]
    fn the_waiting_thread_runs_the_task() {
        // Now and then this thread is delayed so long that a pool thread comes first.
        assert!((0..100).any(|_| {
            let (done, by) = channel();
            let progress = Progress::new();
            let task = progress.task();
            progress.leave(DeferredTask::new(move || {
                done.send(thread::current().id()).unwrap();
                task.over(Ok(()));
            }));
            progress.wait().unwrap();
            by.recv().unwrap() == thread::current().id()
        }));
    }

    #[test]
    fn a_pool_thread_runs_a_task_that_is_hastened_or_not_waited_for() {
        let ways: [fn(&DeferredTask); 3] = [|_| {}, DeferredTask::hasten, |_| hasten_all()];
        for way in ways.into_iter().cycle().take(30) {
            let (done, by) = channel::<ThreadId>();
            let later = DeferredTask::new(move || done.send(thread::current().id()).unwrap());
            way(&later);
            assert_ne!(by.recv_timeout(TIME_LIMIT).unwrap(), thread::current().id());
            assert!(later.is_taken());
            // The watcher also drops tasks that were taken.
            DeferredTask::new(|| {}).run();
        }
    }
}
