//! NodeTask that needs a node of which this one has not heard. It waits until the interface node was asked,
//! and goes on in the thread of the membership_task: opening links can take long.

use parking_lot::Mutex;

type GoOn = Box<dyn FnOnce() + Send>;

/// What waits for news of other nodes.
#[derive(Default)]
pub struct MapWaiters {
    waiting: Mutex<Vec<GoOn>>,
}

impl MapWaiters {
    /// Goes on when the interface node has said who has joined, or does not answer.
    pub fn wait_for_map(&self, go_on: impl FnOnce() + Send + 'static) {
        self.waiting.lock().push(Box::new(go_on));
    }

    /// All that waits.
    pub fn take(&self) -> Vec<GoOn> {
        std::mem::take(&mut self.waiting.lock())
    }
}
