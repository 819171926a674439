//! The counters of the requests that a node has answered, by kind, with their durations.
//!
//! A request counts when its reply is sent. Its duration begins when the node has received it, and
//! includes its waits: for a disk, for other ranks, for a lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

/// Upper bounds of the histogram's buckets, in microseconds. One more bucket holds the rest.
pub const DURATION_BOUNDS_US: [u64; 8] =
    [50, 200, 1_000, 5_000, 20_000, 100_000, 1_000_000, 10_000_000];

const BUCKETS: usize = DURATION_BOUNDS_US.len() + 1;

/// The counters of all kinds of requests.
#[derive(Debug, Default)]
pub struct RequestMeter {
    kinds: RwLock<BTreeMap<&'static str, Arc<KindMeter>>>,
}

/// The counters of one kind.
#[derive(Debug, Default)]
pub struct KindMeter {
    failed: AtomicU64,
    total_ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// The requests of one kind at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestCounts {
    /// The kind, such as `read` or `make directory`.
    pub kind: &'static str,
    /// Requests whose reply was a failure.
    pub failed: u64,
    /// The sum of all durations.
    pub total_time: Duration,
    /// Requests by duration: up to each of [`DURATION_BOUNDS_US`], then the rest.
    pub by_duration: [u64; BUCKETS],
}

impl RequestCounts {
    /// Returns the number of answered requests of the kind.
    pub fn answered(&self) -> u64 {
        self.by_duration.iter().sum()
    }
}

impl RequestMeter {
    /// Returns the counters of a kind, which begin at zero.
    pub fn of(&self, kind: &'static str) -> Arc<KindMeter> {
        if let Some(known) = self.kinds.read().get(kind) {
            return known.clone();
        }
        self.kinds.write().entry(kind).or_default().clone()
    }

    /// Returns the counters of all kinds that were requested so far, by name.
    pub fn counts(&self) -> Vec<RequestCounts> {
        let kinds = self.kinds.read();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = |(kind, meter): (&&'static str, &Arc<KindMeter>)| RequestCounts {
            kind,
            failed: load(&meter.failed),
            total_time: Duration::from_nanos(load(&meter.total_ns)),
            by_duration: std::array::from_fn(|number| load(&meter.buckets[number])),
        };
        kinds.iter().map(counts).collect()
    }
}

impl KindMeter {
    /// Counts a request that was answered.
    pub fn count(&self, duration: Duration, is_failure: bool) {
        let within = |bound: &u64| duration <= Duration::from_micros(*bound);
        let bucket = DURATION_BOUNDS_US.iter().position(within).unwrap_or(BUCKETS - 1);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.total_ns.fetch_add(nanoseconds, Ordering::Relaxed);
        if is_failure {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_by_kind_and_duration() {
        let meter = RequestMeter::default();
        assert_eq!(meter.counts(), []);
        let read = meter.of("read");
        read.count(Duration::from_micros(50), false);
        read.count(Duration::from_micros(51), true);
        meter.of("read").count(Duration::from_secs(60), false);
        meter.of("open").count(Duration::from_millis(5), false);
        let counts = meter.counts();
        let kinds: Vec<_> = counts.iter().map(|counts| counts.kind).collect();
        assert_eq!(kinds, ["open", "read"]);
        assert_eq!(counts[0].by_duration, [0, 0, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(counts[1].by_duration, [1, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((counts[1].answered(), counts[1].failed), (3, 1));
        assert_eq!(counts[1].total_time, Duration::from_micros(60_000_101));
    }
}
