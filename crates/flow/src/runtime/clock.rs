//! The clock that all processes of a machine share.

use rustix::time::{ClockId, clock_gettime};

/// Returns the nanoseconds since the machine booted.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
