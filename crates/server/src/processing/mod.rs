//! NodeTask with extents that clients have asked for, as docs/processing.md tells it.

mod outbox;
mod running_call;
mod timeline;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use pario_net::SpaceId;
use pario_proto::{Failure, ReplyMessage};
use parking_lot::Mutex;

use crate::reply_sender::ReplySender;

pub use outbox::UPDATE_PERIOD;
pub use running_call::{BATCH_EXTENTS, ExtentQueue, OpenSubfile, RunningCall};
pub use timeline::Awaited;

/// The most calls that one client has at once.
const CALLS_LIMIT: usize = 256;

/// All calls that are not over, or have not been told so.
#[derive(Default)]
pub struct RunningCalls {
    by_client: Mutex<HashMap<SpaceId, HashMap<u64, Arc<RunningCall>>>>,
}

impl RunningCalls {
    /// A client begins a call.
    pub fn begin(
        &self,
        space: SpaceId,
        call: u64,
        running: Arc<RunningCall>,
    ) -> Result<(), Failure> {
        let mut clients = self.by_client.lock();
        let calls = clients.entry(space).or_default();
        if calls.contains_key(&call) {
            return Err(Failure::Invalid(format!("call {call} is under way already")));
        }
        if calls.len() >= CALLS_LIMIT {
            let why = format!(
                "a client has at most {CALLS_LIMIT} calls under way at a node: wait for some"
            );
            return Err(Failure::Invalid(why));
        }
        calls.insert(call, running);
        Ok(())
    }

    /// A client asks for more of a call.
    pub fn more(&self, space: SpaceId, call: u64, responder: ReplySender) {
        match self.find(space, call) {
            Some(running) => running.ask(responder),
            None => {
                let why = format!("there is no call {call}, or it is over");
                responder
                    .send(ReplyMessage { result: Err(Failure::Invalid(why)), data: Vec::new() });
            }
        }
    }

    /// A client gives a call up.
    pub fn stop(&self, space: SpaceId, call: u64) {
        if let Some(running) = self.forget(space, call) {
            running.give_up();
        }
    }

    /// A client is gone.
    pub fn lose(&self, space: SpaceId) {
        let lost = self.by_client.lock().remove(&space);
        for running in lost.into_iter().flat_map(HashMap::into_values) {
            running.give_up();
        }
    }

    /// The call is over, and the client has been told.
    pub fn forget(&self, space: SpaceId, call: u64) -> Option<Arc<RunningCall>> {
        let mut clients = self.by_client.lock();
        let calls = clients.get_mut(&space)?;
        let running = calls.remove(&call);
        if calls.is_empty() {
            clients.remove(&space);
        }
        running
    }

    /// Answers those who have been waiting for a moment.
    pub fn send_due_updates(&self, now: Instant) {
        let clients = self.by_client.lock();
        let all: Vec<_> = clients.values().flat_map(HashMap::values).cloned().collect();
        drop(clients);
        for running in all {
            running.send_due_update(now);
        }
    }

    /// Gives everything up: the node stops.
    pub fn stop_all(&self) {
        let spaces: Vec<SpaceId> = self.by_client.lock().keys().copied().collect();
        for space in spaces {
            self.lose(space);
        }
    }

    fn find(&self, space: SpaceId, call: u64) -> Option<Arc<RunningCall>> {
        self.by_client.lock().get(&space)?.get(&call).cloned()
    }
}
