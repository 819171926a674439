//! The outbox of a call: results that the client has not fetched.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pario_net::Bulk;
use pario_proto::{ExtentPlacement, Failure, OUTBOX_LIMIT_BYTES, TRANSFER_LIMIT_BYTES};

use crate::reply_sender::ReplySender;

/// The outbox replies when it holds this many bytes, even if further results will follow.
const REPLY_BYTES: u64 = 256 << 10;
/// The limit of results in one reply: a token has a limited number of segments.
const RESULTS_LIMIT: usize = 1000;
/// The longest wait of a client before it gets a progress update.
pub const UPDATE_PERIOD: Duration = Duration::from_millis(100);

/// A step that continues when the outbox has room.
type HeldStep = Box<dyn FnOnce() + Send>;

/// Results that the client has not fetched, and its waiting request.
#[derive(Default)]
pub struct ResultOutbox {
    ready: VecDeque<(Option<ExtentPlacement>, Bulk)>,
    ready_bytes: u64,
    held: Vec<HeldStep>,
    waiting: Option<(ReplySender, Instant)>,
    ending: Option<Result<(), Failure>>,
}

/// The content of a reply.
#[derive(Default)]
pub struct UpdateContent {
    /// The extents of the results.
    pub places: Vec<Option<ExtentPlacement>>,
    /// The results.
    pub data: Vec<Bulk>,
    /// Whether these are the last results.
    pub is_over: bool,
}

/// A reply to send, and the steps that continue after it.
pub struct DueUpdate {
    pub to: ReplySender,
    pub content: Result<UpdateContent, Failure>,
    pub held: Vec<HeldStep>,
}

impl ResultOutbox {
    /// Adds a result.
    pub fn add(&mut self, place: Option<ExtentPlacement>, bytes: Bulk) {
        self.ready_bytes += bytes.len() as u64;
        self.ready.push_back((place, bytes));
    }

    /// Keeps `then` until there is room for further results. Returns it if there is room now.
    pub fn hold<T>(&mut self, then: T) -> Option<T>
    where
        T: FnOnce() + Send + 'static,
    {
        if self.ready_bytes <= OUTBOX_LIMIT_BYTES {
            return Some(then);
        }
        self.held.push(Box::new(then));
        None
    }

    /// Sets the result of the call: no result follows.
    pub fn end(&mut self, result: Result<(), Failure>) {
        self.ending.get_or_insert(result);
    }

    /// Takes a request for further results. Returns the request that waited before, if there is
    /// one.
    pub fn set_waiting(&mut self, reply: ReplySender, now: Instant) -> Option<ReplySender> {
        self.waiting.replace((reply, now)).map(|(before, _)| before)
    }

    /// Returns the reply to send now, if one is due.
    pub fn due(&mut self, now: Instant) -> Option<DueUpdate> {
        let (_, since) = self.waiting.as_ref()?;
        let is_enough = self.ready_bytes >= REPLY_BYTES || self.ready.len() >= RESULTS_LIMIT;
        let is_late = now.saturating_duration_since(*since) >= UPDATE_PERIOD;
        if !is_enough && !is_late && self.ending.is_none() {
            return None;
        }
        let (to, _) = self.waiting.take()?;
        if let Some(Err(failure)) = &self.ending {
            let failure = failure.clone();
            return Some(DueUpdate { to, content: Err(failure), held: self.clear() });
        }
        let content = self.take_content();
        let held = match self.ready_bytes <= OUTBOX_LIMIT_BYTES {
            true => std::mem::take(&mut self.held),
            false => Vec::new(),
        };
        Some(DueUpdate { to, content: Ok(content), held })
    }

    /// Drops all results. Returns the steps that wait for room, which must continue.
    pub fn clear(&mut self) -> Vec<HeldStep> {
        self.ready.clear();
        self.ready_bytes = 0;
        std::mem::take(&mut self.held)
    }

    /// Takes the waiting request.
    pub fn take_waiting(&mut self) -> Option<ReplySender> {
        self.waiting.take().map(|(reply, _)| reply)
    }

    fn take_content(&mut self) -> UpdateContent {
        let mut content = UpdateContent::default();
        let mut bytes = 0;
        while let Some((_, next)) = self.ready.front() {
            let next_bytes = next.len() as u64;
            let is_full = bytes + next_bytes > TRANSFER_LIMIT_BYTES && !content.data.is_empty();
            if is_full || content.data.len() >= RESULTS_LIMIT {
                break;
            }
            if let Some((place, result)) = self.ready.pop_front() {
                bytes += next_bytes;
                content.places.push(place);
                content.data.push(result);
            }
        }
        self.ready_bytes -= bytes;
        content.is_over = self.ready.is_empty() && self.ending.is_some();
        content
    }
}
