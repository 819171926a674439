//! The smallest task at which half the machine does useful work: METG(50 %).
//!
//! The efficiency of a run is its useful work (tasks times their length) divided by the work that
//! the cores could have done in that time. The search makes tasks longer or shorter by factors of
//! two until the efficiency crosses one half, and interpolates between the last two lengths.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use anyhow::Result;

use super::work::Speed;

/// The cores that can work.
const CORES: f64 = 2.0;
/// The time in which all cores could do the useful work of a run.
const RUN: Duration = Duration::from_millis(10);
const TASKS: std::ops::RangeInclusive<u64> = 64..=400_000;
const SHORTEST_NS: f64 = 16.0;
const LONGEST_NS: f64 = 2e6;

/// Even the longest tasks do not reach half of the machine.
#[derive(Clone, Copy, Debug)]
pub struct NeverHalf;

impl fmt::Display for NeverHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "half of two cores cannot be had, even with tasks of 2 ms: others use them")
    }
}

impl Error for NeverHalf {}

/// A repeated search, which begins where the last one ended.
#[derive(Debug)]
pub struct Granularity {
    speed: Speed,
    start_ns: f64,
}

impl Granularity {
    /// Begins without an earlier search.
    pub fn new(speed: Speed) -> Self {
        Self { speed, start_ns: 16_000.0 }
    }

    /// Searches the smallest task; `run` returns the time of a number of tasks with a number of
    /// rounds each.
    pub fn smallest(
        &mut self,
        mut run: impl FnMut(u64, u64) -> Result<Duration>,
    ) -> Result<Duration> {
        let mut efficiency = |task_ns: f64| -> Result<f64> {
            let useful_ns = RUN.as_secs_f64() * 1e9 * CORES;
            #[expect(clippy::cast_possible_truncation, reason = "the range is small")]
            let tasks = ((useful_ns / task_ns) as u64).clamp(*TASKS.start(), *TASKS.end());
            let rounds = self.speed.rounds(Duration::from_secs_f64(task_ns / 1e9));
            let elapsed = run(rounds, tasks)?;
            Ok(tasks as f64 * task_ns / 1e9 / (CORES * elapsed.as_secs_f64()))
        };
        let mut task_ns = self.start_ns;
        let mut reached = efficiency(task_ns)?;
        let half = 0.5;
        let factor = if reached < half { 2.0 } else { 0.5 };
        loop {
            let next_ns = task_ns * factor;
            if next_ns > LONGEST_NS {
                return Err(NeverHalf.into());
            }
            if next_ns < SHORTEST_NS {
                break;
            }
            let next = efficiency(next_ns)?;
            if (next < half) != (reached < half) {
                // Interpolates on a logarithmic scale.
                let share = (half - reached) / (next - reached);
                task_ns *= factor.powf(share);
                break;
            }
            (task_ns, reached) = (next_ns, next);
        }
        // Starts far enough away for the next search to cross the same point.
        self.start_ns = (task_ns * 1.5).clamp(SHORTEST_NS, LONGEST_NS);
        Ok(Duration::from_secs_f64(task_ns / 1e9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which each task costs this much more, on one of two cores.
    fn smallest_ns(cost_ns: f64) -> f64 {
        let speed = Speed::measure();
        let task_ns =
            |rounds: u64| rounds as f64 / speed.rounds(Duration::from_secs(1)) as f64 * 1e9;
        let mut granularity = Granularity::new(speed);
        let mut last = 0.0;
        for _ in 0..3 {
            let run = |rounds, tasks: u64| {
                let seconds = tasks as f64 * (task_ns(rounds) + cost_ns) / 1e9 / CORES;
                Ok(Duration::from_secs_f64(seconds))
            };
            last = granularity.smallest(run).unwrap().as_secs_f64() * 1e9;
        }
        last
    }

    #[test]
    fn half_the_time_is_useful_when_a_task_takes_what_it_costs() {
        for cost_ns in [200.0, 5_000.0, 300_000.0] {
            let found_ns = smallest_ns(cost_ns);
            assert!((found_ns / cost_ns - 1.0).abs() < 0.1, "{found_ns} for {cost_ns}");
        }
    }

    #[test]
    fn a_machine_that_never_works_is_an_error_and_a_perfect_one_has_an_end() {
        let mut granularity = Granularity::new(Speed::measure());
        let never = granularity.smallest(|_, _| Ok(Duration::from_secs(1000)));
        assert!(never.unwrap_err().is::<NeverHalf>());
        let found = granularity.smallest(|_, _| Ok(Duration::from_nanos(1))).unwrap();
        assert!(found < Duration::from_nanos(50));
    }
}
