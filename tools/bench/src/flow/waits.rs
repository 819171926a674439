//! Timed waits that end on time.
//!
//! The kernel wakes a sleeper late: by the slack of its timers (50 µs unless a thread asks for
//! less), by the time that a sleeping core needs (40 µs), and by other work on that core. So a wait
//! sleeps until shortly before its end, with the least slack, and spins for the rest.

use std::cell::Cell;
use std::hint;
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use crate::statistics::median;

/// The time before its end at which a wait stops sleeping.
const SPIN: Duration = Duration::from_micros(200);

thread_local! {
    static HAS_LEAST_SLACK: Cell<bool> = const { Cell::new(false) };
}

/// Returns at this time, or at once if it has passed.
pub fn wait_until(end: Instant) {
    if !HAS_LEAST_SLACK.replace(true) {
        // Without it waits still end on time, only less often.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    }
    if let Some(sleep) = end.checked_duration_since(Instant::now() + SPIN) {
        thread::sleep(sleep);
    }
    while Instant::now() < end {
        hint::spin_loop();
    }
}

/// Returns after this duration.
pub fn wait(duration: Duration) {
    wait_until(Instant::now() + duration);
}

/// The lateness of waits, in microseconds: median and maximum. One thread for each duration waits
/// `times` times, all at once.
pub fn lateness_us(durations: &[Duration], times: usize) -> (f64, f64) {
    let late_us = |duration: Duration| -> Vec<f64> {
        let one = |_| {
            let end = Instant::now() + duration;
            wait_until(end);
            end.elapsed().as_secs_f64() * 1e6
        };
        (0..times).map(one).collect()
    };
    let all: Vec<f64> = thread::scope(|scope| {
        let late_us = &late_us;
        let waiting = durations.iter().map(|&duration| scope.spawn(move || late_us(duration)));
        let waiting: Vec<_> = waiting.collect();
        let ended = waiting.into_iter().map(|thread| thread.join().expect("waiting is safe"));
        ended.flatten().collect()
    });
    (median(&all), all.iter().copied().fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_never_too_short() {
        for micros in [0, 50, 300, 2_000] {
            let duration = Duration::from_micros(micros);
            let start = Instant::now();
            wait(duration);
            assert!(start.elapsed() >= duration);
        }
        // A time in the past does not wait.
        wait_until(Instant::now());
    }

    #[test]
    fn lateness_is_reported_for_all_threads() {
        let (middle, most) = lateness_us(&[Duration::from_millis(1); 3], 2);
        assert!(middle >= 0.0 && most >= middle);
    }
}
