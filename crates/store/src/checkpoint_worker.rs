//! The checkpoint worker of a disk: it maintains the extent subfiles of the disk. It makes the syncs
//! that free space, the checkpoints, and the compactions of subfiles that waste space.
//!
//! It takes a thread when there is something to do, and returns it afterwards. It compacts one
//! subfile at a time, a step at a time, and serves one request between two steps, so that a long
//! compaction does not delay the syncs and checkpoints of other subfiles.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};

use crate::extents::{CompactionCursor, OpenExtentFile};
use crate::task_threads::TaskThreads;

/// A handle of the worker. Clones address the same worker.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointWorker {
    /// `None` if the callers maintain the subfiles themselves.
    shared: Option<Arc<SharedWorker>>,
}

#[derive(Debug)]
struct SharedWorker {
    threads: TaskThreads,
    state: Mutex<WorkerState>,
    stopped: Condvar,
}

#[derive(Debug, Default)]
struct WorkerState {
    /// The subfiles to maintain.
    requested: VecDeque<Weak<OpenExtentFile>>,
    /// The compactions to do; the first one is in progress.
    compactions: VecDeque<PendingCompaction>,
    /// Whether a thread does the work.
    is_running: bool,
    is_stopped: bool,
}

#[derive(Debug)]
struct PendingCompaction {
    subfile: Weak<OpenExtentFile>,
    cursor: Option<CompactionCursor>,
}

/// Stops a worker, and waits for its thread, when it is dropped. From then on the threads that
/// change a subfile sync it and write its checkpoints.
#[derive(Debug)]
pub(crate) struct CheckpointWorkerOwner(Arc<SharedWorker>);

/// The next work of the worker's thread.
enum WorkerTask {
    Maintain(Weak<OpenExtentFile>),
    Compact(PendingCompaction),
}

impl CheckpointWorker {
    /// A worker that takes its thread from `threads`.
    pub(crate) fn start(threads: TaskThreads) -> (Self, CheckpointWorkerOwner) {
        let (state, stopped) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(SharedWorker { threads, state, stopped });
        (Self { shared: Some(shared.clone()) }, CheckpointWorkerOwner(shared))
    }

    /// A worker without a thread: callers maintain subfiles themselves, in a repeatable order.
    pub(crate) fn inline() -> Self {
        Self { shared: None }
    }

    /// Whether the worker never has a thread.
    pub(crate) fn is_inline(&self) -> bool {
        self.shared.is_none()
    }

    /// Asks the worker to maintain a subfile; `false` if the caller has to do it.
    pub(crate) fn request(&self, subfile: &Arc<OpenExtentFile>) -> bool {
        let Some(shared) = &self.shared else { return false };
        let mut state = shared.state.lock();
        if state.is_stopped {
            return false;
        }
        if !subfile.maintenance_requested.swap(true, Ordering::AcqRel) {
            state.requested.push_back(Arc::downgrade(subfile));
        }
        if !state.is_running {
            state.is_running = true;
            drop(state);
            let worker = shared.clone();
            shared.threads.run(move || worker.run());
        }
        true
    }
}

impl Drop for CheckpointWorkerOwner {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_stopped = true;
        while state.is_running {
            self.0.stopped.wait(&mut state);
        }
    }
}

/// Notes that the worker has returned its thread, also after a panic.
struct RunningWorker<'w>(&'w SharedWorker);

impl Drop for RunningWorker<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_running = false;
        self.0.stopped.notify_all();
    }
}

impl SharedWorker {
    /// Works until nothing is left to do. A request arrives either before the last look of this
    /// loop, or starts the next one.
    fn run(&self) {
        let running = RunningWorker(self);
        let mut is_compaction_next = false;
        loop {
            let task = {
                let mut state = self.state.lock();
                match state.next(is_compaction_next) {
                    Some(task) => task,
                    None => {
                        state.is_running = false;
                        self.stopped.notify_all();
                        std::mem::forget(running);
                        return;
                    }
                }
            };
            is_compaction_next = match task {
                WorkerTask::Maintain(subfile) => {
                    self.maintain(&subfile);
                    true
                }
                WorkerTask::Compact(pending) => {
                    self.compact_step(pending);
                    false
                }
            };
        }
    }

    fn maintain(&self, subfile: &Weak<OpenExtentFile>) {
        // The journal of a subfile that is closed by now holds all its changes.
        let Some(open) = subfile.upgrade() else { return };
        open.maintenance_requested.store(false, Ordering::Release);
        if open.maintain() {
            let compactions = &mut self.state.lock().compactions;
            if !compactions.iter().any(|pending| pending.subfile.ptr_eq(subfile)) {
                compactions.push_back(PendingCompaction { subfile: subfile.clone(), cursor: None });
            }
        }
    }

    /// Runs one step of a compaction.
    fn compact_step(&self, pending: PendingCompaction) {
        let Some(subfile) = pending.subfile.upgrade() else { return };
        match subfile.compact_step(pending.cursor) {
            Ok(step) if step.next.is_some() => {
                let pending = PendingCompaction { cursor: step.next, ..pending };
                self.state.lock().compactions.push_front(pending);
            }
            Ok(_) => {}
            Err(_) => subfile.give_up_compaction(),
        }
    }
}

impl WorkerState {
    /// The next task. A stopped worker serves the requests that it has accepted, and compacts no
    /// more.
    fn next(&mut self, is_compaction_next: bool) -> Option<WorkerTask> {
        if self.is_stopped {
            self.compactions.clear();
        }
        if is_compaction_next && let Some(pending) = self.compactions.pop_front() {
            return Some(WorkerTask::Compact(pending));
        }
        let requested = self.requested.pop_front().map(WorkerTask::Maintain);
        requested.or_else(|| self.compactions.pop_front().map(WorkerTask::Compact))
    }
}
