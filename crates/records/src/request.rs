//! Started accesses: the tasks they wait for, and the memory they use.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::deferred::{DeferredTask, hasten_all};
use super::error::RecordError;

/// An access that was started, with the memory that it uses. The memory comes back from
/// [`wait`](Self::wait). Whoever drops the request lets the access go on, and learns no more of it.
#[must_use = "whether it has worked is told by `wait`"]
#[derive(Debug)]
pub struct Request<M> {
    progress: Arc<Progress>,
    memory: Arc<Mutex<Option<M>>>,
}

impl<M> Request<M> {
    pub(super) fn new(progress: Arc<Progress>, memory: Arc<Mutex<Option<M>>>) -> Self {
        Self { progress, memory }
    }

    /// Whether it is over: then [`wait`](Self::wait) does not wait.
    pub fn is_done(&self) -> bool {
        self.progress.is_over() || {
            // Who looks does not wait.
            self.progress.hasten();
            false
        }
    }

    /// Waits until it is over, and gives the memory back. What was read is in it.
    pub fn wait(self) -> Result<M, RecordError> {
        self.progress.wait()?;
        let memory = self.memory.lock().take();
        memory.ok_or_else(|| RecordError::Invalid("the memory was given back before".to_owned()))
    }
}

/// How many tasks of an access are left, and what went wrong first.
#[derive(Debug, Default)]
pub struct Progress {
    state: Mutex<(usize, Option<RecordError>)>,
    is_over: Condvar,
    /// Tasks that whoever waits does itself.
    later: Mutex<Vec<Arc<DeferredTask>>>,
}

/// A task that is not over; it is when this is dropped.
pub struct Task {
    progress: Arc<Progress>,
    is_told: bool,
}

impl Progress {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// One more task. Those who start them hold one themselves until all are started.
    pub fn task(self: &Arc<Self>) -> Task {
        self.state.lock().0 += 1;
        Task { progress: self.clone(), is_told: false }
    }

    /// Whether something has failed: nothing more needs to be tried.
    pub fn has_failed(&self) -> bool {
        self.state.lock().1.is_some()
    }

    pub fn is_over(&self) -> bool {
        self.state.lock().0 == 0
    }

    /// A task was begun that is left to whoever waits.
    pub fn leave(&self, later: Arc<DeferredTask>) {
        self.later.lock().push(later);
    }

    /// Lets threads do what was left.
    fn hasten(&self) {
        let later = std::mem::take(&mut *self.later.lock());
        later.iter().for_each(|later| later.hasten());
    }

    /// Waits until no task is left; what went wrong first.
    pub fn wait(&self) -> Result<(), RecordError> {
        let later = std::mem::take(&mut *self.later.lock());
        later.iter().for_each(|later| later.run());
        let mut state = self.state.lock();
        while state.0 > 0 {
            self.is_over.wait(&mut state);
        }
        state.1.clone().map_or(Ok(()), Err)
    }
}

impl Task {
    /// It is over, with this result.
    pub fn over(mut self, result: Result<(), RecordError>) {
        self.is_told = true;
        if let Err(error) = result {
            self.progress.state.lock().1.get_or_insert(error);
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let mut state = self.progress.state.lock();
        if !self.is_told {
            let text = "the library failed inside; please report this".to_owned();
            state.1.get_or_insert(RecordError::Broken(text));
        }
        state.0 -= 1;
        if state.0 == 0 {
            self.progress.is_over.notify_all();
        }
    }
}

/// How many accesses are under way: who removes something waits until none is.
#[derive(Debug, Default)]
pub struct AccessCounter {
    count: Mutex<usize>,
    is_empty: Condvar,
}

/// An access that is under way.
#[derive(Debug)]
pub struct AccessGuard(Arc<AccessCounter>);

impl AccessCounter {
    pub fn enter(self: &Arc<Self>) -> AccessGuard {
        *self.count.lock() += 1;
        AccessGuard(self.clone())
    }

    /// Waits until nobody is inside.
    pub fn wait_until_empty(&self) {
        let mut count = self.count.lock();
        if *count > 0 {
            MutexGuard::unlocked(&mut count, hasten_all);
        }
        while *count > 0 {
            self.is_empty.wait(&mut count);
        }
    }
}

impl Drop for AccessGuard {
    fn drop(&mut self) {
        let mut count = self.0.count.lock();
        *count -= 1;
        if *count == 0 {
            self.0.is_empty.notify_all();
        }
    }
}
