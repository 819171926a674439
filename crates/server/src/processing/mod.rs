//! Processing calls of clients at this node (docs/processing.md).

mod extent_queue;
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

pub use extent_queue::ExtentQueue;
pub use outbox::UPDATE_PERIOD;
pub use running_call::{BATCH_EXTENTS, OpenSubfile, RunningCall};
pub use timeline::Awaited;

/// The limit of concurrent calls of one client.
const CALLS_LIMIT: usize = 256;

/// All calls that have not ended, or whose end the client does not know yet.
#[derive(Default)]
pub struct RunningCalls {
    by_client: Mutex<HashMap<SpaceId, HashMap<u64, Arc<RunningCall>>>>,
}

impl RunningCalls {
    /// Registers a call of a client.
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

    /// Handles a client's request for further results of a call.
    pub fn request_more(&self, space: SpaceId, call: u64, reply: ReplySender) {
        match self.find(space, call) {
            Some(running) => running.request_more(reply),
            None => {
                let why = format!("there is no call {call}, or it has ended");
                reply.send(ReplyMessage { result: Err(Failure::Invalid(why)), data: Vec::new() });
            }
        }
    }

    /// Cancels a call for its client.
    pub fn cancel(&self, space: SpaceId, call: u64) {
        if let Some(running) = self.remove(space, call) {
            running.cancel();
        }
    }

    /// Cancels the calls of a lost client.
    pub fn remove_client(&self, space: SpaceId) {
        let lost = self.by_client.lock().remove(&space);
        for running in lost.into_iter().flat_map(HashMap::into_values) {
            running.cancel();
        }
    }

    /// Removes a call.
    pub fn remove(&self, space: SpaceId, call: u64) -> Option<Arc<RunningCall>> {
        let mut clients = self.by_client.lock();
        let calls = clients.get_mut(&space)?;
        let running = calls.remove(&call);
        if calls.is_empty() {
            clients.remove(&space);
        }
        running
    }

    /// Sends progress updates to the clients that have waited for one update period.
    pub fn send_due_updates(&self, now: Instant) {
        let clients = self.by_client.lock();
        let all: Vec<_> = clients.values().flat_map(HashMap::values).cloned().collect();
        drop(clients);
        for running in all {
            running.send_due_update(now);
        }
    }

    /// Cancels all calls, because the node stops.
    pub fn cancel_all(&self) {
        let spaces: Vec<SpaceId> = self.by_client.lock().keys().copied().collect();
        for space in spaces {
            self.remove_client(space);
        }
    }

    fn find(&self, space: SpaceId, call: u64) -> Option<Arc<RunningCall>> {
        self.by_client.lock().get(&space)?.get(&call).cloned()
    }
}
