//! An engine of threads that block, one operation each.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::engine::{DiskLanes, Engine, Io, IoDone, Waker};

/// Performs each operation on a thread of its own.
pub(crate) struct Threads {
    lanes: DiskLanes,
    finished: Arc<FinishedOperations>,
}

#[derive(Default)]
struct FinishedOperations {
    state: Mutex<FinishedState>,
    changed: Condvar,
}

#[derive(Default)]
struct FinishedState {
    done: VecDeque<(usize, IoDone)>,
    woken: bool,
}

impl Threads {
    pub(crate) fn new(lanes: DiskLanes) -> Self {
        Self { lanes, finished: Arc::default() }
    }
}

impl Engine for Threads {
    fn submit(&mut self, slot: usize, disk: u64, io: Io) {
        let finished = self.finished.clone();
        self.lanes.run(disk, io, move |done| {
            finished.state.lock().done.push_back((slot, done));
            finished.changed.notify_one();
        });
    }

    fn flush(&mut self) {}

    fn collect(&mut self, wait: bool, done: &mut VecDeque<(usize, IoDone)>) -> bool {
        let mut finished = self.finished.state.lock();
        while wait && finished.done.is_empty() && !finished.woken {
            self.finished.changed.wait(&mut finished);
        }
        done.append(&mut finished.done);
        std::mem::take(&mut finished.woken)
    }

    fn waker(&self) -> Waker {
        let finished = self.finished.clone();
        Waker::new(move || {
            finished.state.lock().woken = true;
            finished.changed.notify_one();
        })
    }

    fn name(&self) -> &'static str {
        "threads"
    }
}
