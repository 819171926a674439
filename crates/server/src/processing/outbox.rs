//! Results on their way to the caller.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pario_net::Bulk;
use pario_proto::{ExtentPlacement, Failure, OUTBOX_LIMIT_BYTES, TRANSFER_LIMIT_BYTES};

use crate::reply_sender::ReplySender;

/// So much is worth an answer though more will come.
const ENOUGH_BYTES: u64 = 256 << 10;
/// The most results of one answer: a token has a limited number of segments.
const RESULTS_LIMIT: usize = 1000;
/// A caller that waits is told how far its call has come after this time.
pub const UPDATE_PERIOD: Duration = Duration::from_millis(100);

/// What goes on when there is room again.
type HeldStep = Box<dyn FnOnce() + Send>;

/// Results that the caller has not fetched, and the question that waits for them.
#[derive(Default)]
pub struct ResultOutbox {
    ready: VecDeque<(Option<ExtentPlacement>, Bulk)>,
    ready_bytes: u64,
    held: Vec<HeldStep>,
    waiting: Option<(ReplySender, Instant)>,
    ending: Option<Result<(), Failure>>,
}

/// What an answer carries.
#[derive(Default)]
pub struct UpdateContent {
    /// Of which extents the results are.
    pub places: Vec<Option<ExtentPlacement>>,
    /// The results.
    pub data: Vec<Bulk>,
    /// Whether they are the last.
    pub is_over: bool,
}

/// An answer that is due, and what goes on when it has left.
pub struct DueUpdate {
    pub to: ReplySender,
    pub content: Result<UpdateContent, Failure>,
    pub held: Vec<HeldStep>,
}

impl ResultOutbox {
    /// Puts a result in.
    pub fn put(&mut self, place: Option<ExtentPlacement>, bytes: Bulk) {
        self.ready_bytes += bytes.len() as u64;
        self.ready.push_back((place, bytes));
    }

    /// Keeps `then` until there is room for more results. If there is, it is given back, to go on at
    /// once.
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

    /// Nothing more will be put in.
    pub fn end(&mut self, result: Result<(), Failure>) {
        self.ending.get_or_insert(result);
    }

    /// The caller asks for more; the question that waited before, if there is one, is given back.
    pub fn ask(&mut self, responder: ReplySender, now: Instant) -> Option<ReplySender> {
        self.waiting.replace((responder, now)).map(|(before, _)| before)
    }

    /// The answer that should leave now, if one should.
    pub fn due(&mut self, now: Instant) -> Option<DueUpdate> {
        let (_, since) = self.waiting.as_ref()?;
        let is_enough = self.ready_bytes >= ENOUGH_BYTES || self.ready.len() >= RESULTS_LIMIT;
        let is_late = now.saturating_duration_since(*since) >= UPDATE_PERIOD;
        if !is_enough && !is_late && self.ending.is_none() {
            return None;
        }
        let (to, _) = self.waiting.take()?;
        if let Some(Err(failure)) = &self.ending {
            let failure = failure.clone();
            return Some(DueUpdate { to, content: Err(failure), held: self.forget() });
        }
        let content = self.take();
        let held = match self.ready_bytes <= OUTBOX_LIMIT_BYTES {
            true => std::mem::take(&mut self.held),
            false => Vec::new(),
        };
        Some(DueUpdate { to, content: Ok(content), held })
    }

    /// Whoever waits for room goes on, though nobody will fetch anything any more.
    pub fn forget(&mut self) -> Vec<HeldStep> {
        self.ready.clear();
        self.ready_bytes = 0;
        std::mem::take(&mut self.held)
    }

    /// The question that waits.
    pub fn take_question(&mut self) -> Option<ReplySender> {
        self.waiting.take().map(|(responder, _)| responder)
    }

    fn take(&mut self) -> UpdateContent {
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
