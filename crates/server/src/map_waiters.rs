//! Map waiters: steps that need a node which this one does not know yet. They wait until the
//! membership task has refreshed the cluster map, and run in its thread, because opening a link can
//! take long.

use parking_lot::Mutex;

type WaitingStep = Box<dyn FnOnce() + Send>;

/// The steps that wait for a newer map.
#[derive(Default)]
pub struct MapWaiters {
    waiting: Mutex<Vec<WaitingStep>>,
}

impl MapWaiters {
    /// Runs `resume` after the next refresh of the map, also if the interface node does not answer.
    pub fn wait_for_map(&self, resume: impl FnOnce() + Send + 'static) {
        self.waiting.lock().push(Box::new(resume));
    }

    /// Takes all waiting steps.
    pub fn take(&self) -> Vec<WaitingStep> {
        std::mem::take(&mut self.waiting.lock())
    }
}
