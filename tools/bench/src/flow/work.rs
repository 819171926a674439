//! Busy work of a known length.
//!
//! It is counted in rounds of a loop and not in time that passes: a task that is interrupted takes
//! longer, but does no more useful work. The loop is a chain of multiplications, each of which
//! needs the result of the one before, so that it neither waits for memory nor gains from a core
//! that can do several things at once.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// The speed of busy work on this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    rounds_per_ns: f64,
}

impl Speed {
    /// Measures the speed by the fastest of many short runs, because no other work has interrupted
    /// that one.
    pub fn measure() -> Self {
        const ROUNDS: u64 = 100_000;
        let one = |_| {
            let start = Instant::now();
            busy(ROUNDS);
            start.elapsed().as_secs_f64() * 1e9
        };
        let fastest_ns = (0..100).map(one).fold(f64::INFINITY, f64::min);
        Self { rounds_per_ns: ROUNDS as f64 / fastest_ns }
    }

    /// The rounds that take this long, at least one.
    pub fn rounds(self, duration: Duration) -> u64 {
        let rounds = duration.as_secs_f64() * 1e9 * self.rounds_per_ns;
        // Tasks are shorter than a second.
        #[expect(clippy::cast_possible_truncation, reason = "far fewer than 2^53")]
        let rounds = rounds.round() as u64;
        rounds.max(1)
    }
}

/// Runs this many rounds.
pub fn busy(rounds: u64) -> u64 {
    let mut value = black_box(rounds);
    for _ in 0..rounds {
        value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    black_box(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_as_long_as_it_should() {
        let speed = Speed::measure();
        let rounds = speed.rounds(Duration::from_millis(1));
        let timed = |_| {
            let start = Instant::now();
            busy(rounds);
            start.elapsed()
        };
        let fastest = (0..50).map(timed).min().unwrap();
        // No run is faster than the fastest, except for variations of the processor's clock.
        assert!(fastest > Duration::from_micros(700), "{fastest:?}");
        assert_eq!(speed.rounds(Duration::ZERO), 1);
    }
}
