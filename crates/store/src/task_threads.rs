//! Threads for work that blocks. They start when work arrives and end when they have had none for a
//! while, so that an idle process has none.
//!
//! Work arrives in *lanes*. A lane runs a limited number of its tasks at once and starts them in the
//! order of their arrival. A disk that does not answer therefore holds as many threads as its lanes
//! allow, and delays no task of another lane.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// A thread without work ends after this time.
const IDLE_TIME: Duration = Duration::from_millis(500);

type Task = Box<dyn FnOnce() + Send>;

/// Threads for work that blocks. Clones are the same threads.
///
/// ```
/// use std::sync::mpsc::channel;
///
/// use pario_store::TaskThreads;
///
/// let threads = TaskThreads::new();
/// let disk = threads.lane(2); // two tasks at once
/// let (send, receive) = channel();
/// for number in 0..10 {
///     let send = send.clone();
///     disk.run(move || send.send(number).unwrap());
/// }
/// drop(send);
/// assert_eq!(receive.iter().count(), 10);
/// ```
#[derive(Clone, Debug)]
pub struct TaskThreads {
    shared: Arc<ThreadsOwner>,
}

/// Ends idle threads when the last handle is dropped.
#[derive(Debug)]
struct ThreadsOwner(Arc<SharedThreads>);

#[derive(Debug, Default)]
struct SharedThreads {
    state: Mutex<ThreadsState>,
    changed: Condvar,
}

#[derive(Default)]
struct ThreadsState {
    /// Tasks for idle threads.
    waiting: VecDeque<Task>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

/// A lane of [`TaskThreads`]. Clones are the same lane.
#[derive(Clone, Debug)]
pub struct TaskLane {
    threads: TaskThreads,
    limit: usize,
    state: Arc<Mutex<LaneState>>,
}

#[derive(Default)]
struct LaneState {
    running: usize,
    waiting: VecDeque<Task>,
}

impl TaskThreads {
    /// No threads yet.
    pub fn new() -> Self {
        Self { shared: Arc::new(ThreadsOwner(Arc::default())) }
    }

    /// A new lane, which runs at most `limit` tasks at once.
    pub fn lane(&self, limit: usize) -> TaskLane {
        TaskLane { threads: self.clone(), limit: limit.max(1), state: Arc::default() }
    }

    /// The number of threads, including idle ones.
    pub fn count(&self) -> usize {
        self.shared.0.state.lock().threads
    }

    /// Runs a task on an idle thread or on a new one. If the system has no thread left, the next
    /// thread that ends its task runs it; without any, the calling thread.
    pub(crate) fn run(&self, task: impl FnOnce() + Send + 'static) {
        let shared = &self.shared.0;
        let mut state = shared.state.lock();
        state.waiting.push_back(Box::new(task));
        if state.idle >= state.waiting.len() {
            shared.changed.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let serving = shared.clone();
        let thread = thread::Builder::new().name("pario-task".into());
        if thread.spawn(move || serving.serve()).is_err() {
            let mut state = shared.state.lock();
            state.threads -= 1;
            let task = if state.threads == 0 { state.waiting.pop_front() } else { None };
            drop(state);
            if let Some(task) = task {
                run_guarded(task);
            }
        }
    }
}

impl Default for TaskThreads {
    fn default() -> Self {
        Self::new()
    }
}

impl TaskLane {
    /// Runs a task; it waits while the lane runs as many as it may.
    pub fn run(&self, task: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        if state.running >= self.limit {
            state.waiting.push_back(Box::new(task));
            return;
        }
        state.running += 1;
        drop(state);
        let lane = self.clone();
        self.threads.run(move || lane.serve(Box::new(task)));
    }

    /// Runs tasks until none waits.
    fn serve(&self, first: Task) {
        let mut next = Some(first);
        while let Some(task) = next {
            run_guarded(task);
            let mut state = self.state.lock();
            next = state.waiting.pop_front();
            if next.is_none() {
                state.running -= 1;
            }
        }
    }
}

impl SharedThreads {
    /// Runs tasks until none has arrived for a while.
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(task) = state.waiting.pop_front() {
                drop(state);
                run_guarded(task);
                state = self.state.lock();
                continue;
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let waited = self.changed.wait_for(&mut state, IDLE_TIME);
            state.idle -= 1;
            if waited.timed_out() && state.waiting.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

impl Drop for ThreadsOwner {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

/// Runs a task; a panic ends only the task. The panic hook has reported it.
fn run_guarded(task: Task) {
    let _ = catch_unwind(AssertUnwindSafe(task));
}

impl std::fmt::Debug for ThreadsState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { waiting, threads, idle, .. } = self;
        write!(f, "{} tasks, {threads} threads, {idle} idle", waiting.len())
    }
}

impl std::fmt::Debug for LaneState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} running, {} waiting", self.running, self.waiting.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A task that says that it has begun and waits until it may end.
    fn blocked_task(began: &Sender<usize>, number: usize) -> (impl FnOnce() + use<>, Sender<()>) {
        let (end, may_end): (Sender<()>, Receiver<()>) = channel();
        let began = began.clone();
        let task = move || {
            began.send(number).unwrap();
            let _ = may_end.recv();
        };
        (task, end)
    }

    #[test]
    fn a_full_lane_delays_no_other() {
        let threads = TaskThreads::new();
        let (stalled, other) = (threads.lane(2), threads.lane(1));
        let (began, begun) = channel();
        let mut ends = Vec::new();
        for number in 0..4 {
            let (task, end) = blocked_task(&began, number);
            stalled.run(task);
            ends.push(end);
        }
        let mut first = [begun.recv().unwrap(), begun.recv().unwrap()];
        first.sort_unstable();
        assert_eq!(first, [0, 1]);
        let began_too = began.clone();
        other.run(move || began_too.send(10).unwrap());
        assert_eq!(begun.recv().unwrap(), 10, "the third task of a lane for two has begun");
        drop(ends.remove(0));
        assert_eq!(begun.recv().unwrap(), 2, "tasks begin in order");
        drop(ends);
        assert_eq!(begun.recv().unwrap(), 3);
    }

    #[test]
    fn idle_threads_run_the_next_tasks_and_end() {
        let threads = TaskThreads::new();
        let lane = threads.lane(1);
        let (send, receive) = channel();
        for _ in 0..100 {
            let send = send.clone();
            lane.run(move || send.send(thread::current().id()).unwrap());
            receive.recv().unwrap();
        }
        assert!(threads.count() <= 2, "each task has started a thread");
        while threads.count() > 0 {
            thread::yield_now();
        }
        lane.run(move || send.send(thread::current().id()).unwrap());
        receive.recv().unwrap();
    }

    #[test]
    fn a_panic_ends_only_its_task() {
        let lane = TaskThreads::new().lane(1);
        let ran = Arc::new(AtomicUsize::new(0));
        let (send, receive) = channel::<()>();
        for number in 0..4 {
            let (ran, send) = (ran.clone(), send.clone());
            lane.run(move || {
                let _send = send;
                if number % 2 == 0 {
                    std::panic::resume_unwind(Box::new("of a test"));
                }
                ran.fetch_add(1, Ordering::SeqCst);
            });
        }
        drop(send);
        assert!(receive.recv().is_err());
        assert_eq!(ran.load(Ordering::SeqCst), 2);
    }
}
