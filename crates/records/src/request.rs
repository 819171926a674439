//! Started accesses: the tasks they wait for, and the memory they use.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pario_net::StartedRequest;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::deferred::{DeferredTask, hasten_all};
use super::error::RecordError;

/// A started access to a record file, with the memory that it uses as its result.
///
/// See [`pario_net::Pending`] for what waiting, awaiting and dropping mean.
pub type Pending<T> = pario_net::Pending<T, RecordError>;

/// A started access, with the memory that it uses.
pub(super) struct StartedAccess<M> {
    progress: Arc<Progress>,
    memory: Arc<Mutex<Option<M>>>,
}

impl<M: Send + 'static> StartedAccess<M> {
    /// The access as callers see it.
    pub fn pending(progress: Arc<Progress>, memory: Arc<Mutex<Option<M>>>) -> Pending<M> {
        Pending::started(Self { progress, memory })
    }

    /// The memory, when no task uses it.
    fn memory(&self) -> Result<M, RecordError> {
        let memory = self.memory.lock().take();
        memory.ok_or_else(|| RecordError::Invalid("the memory was given back before".to_owned()))
    }
}

impl<M: Send + 'static> StartedRequest<M, RecordError> for StartedAccess<M> {
    fn is_done(&self) -> bool {
        self.progress.is_over() || {
            // A caller that asks does not wait: threads go on with the access.
            self.progress.hasten();
            false
        }
    }

    fn wait(self: Box<Self>) -> Result<M, RecordError> {
        self.progress.wait()?;
        self.memory()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<M, RecordError>> {
        self.progress.hasten();
        Poll::Ready(std::task::ready!(self.progress.poll(context)).and_then(|()| self.memory()))
    }
}

/// How many tasks of an access are left, and what went wrong first.
#[derive(Debug, Default)]
pub struct Progress {
    state: Mutex<ProgressState>,
    is_over: Condvar,
    /// Tasks that the waiting thread executes itself.
    later: Mutex<Vec<Arc<DeferredTask>>>,
}

#[derive(Debug, Default)]
struct ProgressState {
    tasks: usize,
    failed: Option<RecordError>,
    /// The task that awaits the access.
    waker: Option<Waker>,
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

    /// Adds a task. The thread that starts an access holds one itself until it has started all.
    pub fn task(self: &Arc<Self>) -> Task {
        self.state.lock().tasks += 1;
        Task { progress: self.clone(), is_told: false }
    }

    /// Whether something has failed: nothing more needs to be tried.
    pub fn has_failed(&self) -> bool {
        self.state.lock().failed.is_some()
    }

    pub fn is_over(&self) -> bool {
        self.state.lock().tasks == 0
    }

    /// Adds a task that the waiting thread executes.
    pub fn leave(&self, later: Arc<DeferredTask>) {
        self.later.lock().push(later);
    }

    /// Hands the remaining tasks to other threads.
    fn hasten(&self) {
        let later = std::mem::take(&mut *self.later.lock());
        later.iter().for_each(|later| later.hasten());
    }

    /// Waits until no task is left; what went wrong first.
    pub fn wait(&self) -> Result<(), RecordError> {
        let later = std::mem::take(&mut *self.later.lock());
        later.iter().for_each(|later| later.run());
        let mut state = self.state.lock();
        while state.tasks > 0 {
            self.is_over.wait(&mut state);
        }
        state.failed.clone().map_or(Ok(()), Err)
    }

    /// What went wrong first, if no task is left; otherwise wakes the caller's task then.
    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<(), RecordError>> {
        let mut state = self.state.lock();
        if state.tasks > 0 {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(state.failed.clone().map_or(Ok(()), Err))
    }
}

impl Task {
    /// It is over, with this result.
    pub fn over(mut self, result: Result<(), RecordError>) {
        self.is_told = true;
        if let Err(error) = result {
            self.progress.state.lock().failed.get_or_insert(error);
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let mut state = self.progress.state.lock();
        if !self.is_told {
            let text = "the library failed inside; please report this".to_owned();
            state.failed.get_or_insert(RecordError::Broken(text));
        }
        state.tasks -= 1;
        if state.tasks == 0 {
            self.progress.is_over.notify_all();
            let waker = state.waker.take();
            drop(state);
            // The code of the executor runs without a lock.
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// Counts the accesses under way: a removal waits until none is left.
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

    /// Waits until no access is under way.
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
