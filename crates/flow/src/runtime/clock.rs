//! Time, the same for all processes of a machine.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine was started.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
