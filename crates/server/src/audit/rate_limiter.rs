//! A rate limiter that delays and counts repeated events: a state machine without I/O, with time
//! passed in.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{AuditEvent, AuditKind};

/// The most keys with their own limit; events beyond share one key per kind.
pub(super) const KEYS: usize = 1024;
/// The lines that a key may write at once; each [`PERIOD`] adds one. A repeated refusal says nothing
/// new, so one line is enough.
const REFUSED_BURST: u32 = 1;
const BURST: u32 = 64;
/// The time after which a key may write one more line.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// Events that share a limit: their kind, the user and the reason.
pub(super) type EventKey = (AuditKind, Option<u32>, &'static str);

/// Delays events that come too often.
#[derive(Debug, Default)]
pub struct RateLimiter {
    pub(super) keys: BTreeMap<EventKey, TokenBucket>,
}

#[derive(Debug)]
pub(super) struct TokenBucket {
    /// Lines that may be written at once.
    lines: u32,
    /// When the last line was added.
    since: Instant,
    /// The last delayed event, and the number of delayed events.
    held: Option<(AuditEvent, u64)>,
}

impl RateLimiter {
    /// Takes an event. Returns it if it is to be written now, with the number of events that it
    /// stands for.
    pub fn take(&mut self, event: AuditEvent, now: Instant) -> Option<(AuditEvent, u64)> {
        let mut key = (event.kind, event.uid, event.reason);
        if self.keys.len() >= KEYS && !self.keys.contains_key(&key) {
            key = (event.kind, None, "others");
        }
        let burst = burst(event.kind);
        let fresh = || TokenBucket { lines: burst, since: now, held: None };
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

    /// Returns the delayed events that are to be written now, and forgets keys without recent events.
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

    /// Returns all delayed events.
    pub fn rest(self) -> impl Iterator<Item = (AuditEvent, u64)> {
        self.keys.into_values().filter_map(|bucket| bucket.held)
    }
}

impl TokenBucket {
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
