//! The load of other programs during a measurement: figures from a busy machine are noise.

use std::fs;

/// Processor time so far, in ticks of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorTicks {
    /// Ticks of all processors together.
    all: u64,
    /// Ticks that were not idle.
    busy: u64,
    /// Ticks of this process, its threads, and its child processes that have ended.
    own: u64,
}

impl ProcessorTicks {
    /// Reads the counts of the kernel; `None` if it does not provide them.
    pub fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        Self::parse(&stat, &own)
    }

    fn parse(stat: &str, own: &str) -> Option<Self> {
        let numbers = |text: &str| -> Vec<u64> {
            let numbers = text.split_whitespace().map(str::parse);
            numbers.map(Result::unwrap_or_default).collect()
        };
        // user, nice, system, idle, waiting for a disk, interrupts, soft interrupts, stolen
        let times = numbers(stat.lines().next()?.strip_prefix("cpu ")?);
        let times = times.get(..8)?;
        let all = times.iter().sum();
        // The name of the program, in parentheses, may contain anything.
        let own = numbers(own.rsplit_once(')')?.1);
        // user and system, then both of the processes that have ended
        let own = own.get(11..15)?.iter().sum();
        Some(Self { all, busy: all - times[3] - times[4], own })
    }

    /// The share of the processors that other programs used since `earlier`, in per cent.
    pub fn others_percent_since(self, earlier: Self) -> u64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        let busy = self.busy.saturating_sub(earlier.busy);
        let own = self.own.saturating_sub(earlier.own);
        busy.saturating_sub(own) * 100 / all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_busy_and_not_ours_is_the_others() {
        let stat = |user, idle| format!("cpu  {user} 0 50 {idle} 10 0 0 0 0 0\ncpu0 1 2 3\n");
        let own = |user| format!("7 (a b) c) S 1 7 7 0 -1 4 0 0 0 0 {user} 15 4 1 20 0 1\n");
        let before = ProcessorTicks::parse(&stat(100, 1000), &own(30)).unwrap();
        let after = ProcessorTicks::parse(&stat(200, 1100), &own(80)).unwrap();
        assert_eq!((before.busy, before.own), (150, 50));
        // 200 ticks, 100 of them busy, 50 ours.
        assert_eq!(after.others_percent_since(before), 25);
        assert_eq!(ProcessorTicks::parse("", ""), None);
    }

    #[test]
    fn the_kernel_tells() {
        assert!(ProcessorTicks::now().is_some());
    }
}
