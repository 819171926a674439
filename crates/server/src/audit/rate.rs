//! Which events become lines of their own, and which are counted: a state machine without I/O, with
//! time passed in.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{AuditEvent, AuditKind};

/// Kinds of events of users that are told apart.
pub(super) const KEYS: usize = 1024;
/// Events of a key pass one by one as long as there are no more than this, and one is added each
/// second. Of equal refusals the first one says all.
const REFUSED_BURST: u32 = 1;
const BURST: u32 = 64;
/// The time for one more line.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

pub(super) type Key = (AuditKind, Option<u32>, &'static str);

/// Holds back events that come too often.
#[derive(Debug, Default)]
pub struct RateLimiter {
    pub(super) keys: BTreeMap<Key, Bucket>,
}

#[derive(Debug)]
pub(super) struct Bucket {
    /// Lines that may be written at once.
    lines: u32,
    /// When the last one was added.
    since: Instant,
    /// Events that were held back: the last one, and how many.
    held: Option<(AuditEvent, u64)>,
}

impl RateLimiter {
    /// An event. It comes back if it is to be written, with the number of those it stands for.
    pub fn take(&mut self, event: AuditEvent, now: Instant) -> Option<(AuditEvent, u64)> {
        let mut key = (event.kind, event.uid, event.reason);
        if self.keys.len() >= KEYS && !self.keys.contains_key(&key) {
            key = (event.kind, None, "others");
        }
        let burst = burst(event.kind);
        let fresh = || Bucket { lines: burst, since: now, held: None };
        let bucket = self.keys.entry(key).or_insert_with(fresh);
        bucket.refill(burst, now);
        let count = bucket.held.take().map_or(0, |(_, count)| count) + 1;
        if bucket.lines == 0 {
            bucket.held = Some((event, count));
            return None;
        }
        bucket.lines -= 1;
        Some((event, count))
    }

    /// Events that were held back and are to be written now. Keys that have been silent go.
    pub fn due(&mut self, now: Instant) -> Vec<(AuditEvent, u64)> {
        let mut due = Vec::new();
        self.keys.retain(|(kind, ..), bucket| {
            bucket.refill(burst(*kind), now);
            if bucket.lines > 0
                && let Some(held) = bucket.held.take()
            {
                bucket.lines -= 1;
                due.push(held);
            }
            bucket.held.is_some() || bucket.lines < burst(*kind)
        });
        due
    }

    /// All events that are held back.
    pub fn rest(self) -> impl Iterator<Item = (AuditEvent, u64)> {
        self.keys.into_values().filter_map(|bucket| bucket.held)
    }
}

impl Bucket {
    fn refill(&mut self, burst: u32, now: Instant) {
        let periods = now.saturating_duration_since(self.since).as_secs() / PERIOD.as_secs();
        if periods > 0 {
            let added = u32::try_from(periods).unwrap_or(u32::MAX);
            self.lines = self.lines.saturating_add(added).min(burst);
            self.since += PERIOD.saturating_mul(added);
        }
    }
}

fn burst(kind: AuditKind) -> u32 {
    match kind {
        AuditKind::Refused => REFUSED_BURST,
        AuditKind::Administration | AuditKind::Rights => BURST,
    }
}
