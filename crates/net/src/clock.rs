//! The monotonic clock of the machine. All processes of the machine read the same values, so that
//! they can compare times that one of them has written to shared memory or sent to another.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Returns the nanoseconds since the machine booted.
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Returns the milliseconds since the machine booted.
pub fn monotonic_ms() -> u64 {
    monotonic_ns() / 1_000_000
}

/// Returns the processor time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_and_nanoseconds_are_of_one_clock() {
        let before_ms = monotonic_ns() / 1_000_000;
        let now_ms = monotonic_ms();
        let after_ms = monotonic_ns() / 1_000_000;
        assert!(before_ms <= now_ms && now_ms <= after_ms);
    }

    #[test]
    fn a_thread_uses_no_more_processor_time_than_passes() {
        let (began_ns, began_cpu_ns) = (monotonic_ns(), thread_cpu_ns());
        let used_ns = thread_cpu_ns() - began_cpu_ns;
        assert!(used_ns <= monotonic_ns() - began_ns);
    }
}
