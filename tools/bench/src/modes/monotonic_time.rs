//! Times of the monotonic clock, which all processes of the machine share, in nanoseconds.

use std::time::Duration;

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};

const SECOND_NS: u64 = 1_000_000_000;

/// A time of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MonotonicTime {
    ns: u64,
}

impl MonotonicTime {
    /// The current time.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        let part = |value: i64| u64::try_from(value).unwrap_or(0);
        Self { ns: part(now.tv_sec) * SECOND_NS + part(now.tv_nsec) }
    }

    /// The time that another process has sent.
    pub fn of_ns(ns: u64) -> Self {
        Self { ns }
    }

    /// The nanoseconds, to send them.
    pub fn ns(self) -> u64 {
        self.ns
    }

    /// The time after a duration.
    pub fn after(self, wait: Duration) -> Self {
        Self { ns: self.ns + u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX) }
    }

    /// The duration since an earlier time.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }

    /// Sleeps until this time.
    pub fn wait(self) {
        let part = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let until =
            Timespec { tv_sec: part(self.ns / SECOND_NS), tv_nsec: part(self.ns % SECOND_NS) };
        // A signal does not end the wait.
        while clock_nanosleep_absolute(ClockId::Monotonic, &until).is_err() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_at_its_moment() {
        let start = MonotonicTime::now();
        let end = start.after(Duration::from_millis(3));
        end.wait();
        assert!(MonotonicTime::now() >= end);
        assert_eq!(end.since(start), Duration::from_millis(3));
        end.wait();
    }
}
