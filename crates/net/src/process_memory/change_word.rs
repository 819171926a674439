//! Waiting for a change that another process makes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::parker::SwitchPoint;
use super::wait_limits::{Spinning, WaitLimits};
use crate::SharedMemoryPart;

/// A word that counts changes, and behind it a word that counts the threads that sleep on it or are
/// about to. Both are zero at first.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::Ordering;
/// use std::time::Duration;
///
/// use pario_net::{ChangeWord, SharedMemory, SharedMemoryShape, WaitLimits};
///
/// # fn main() -> std::io::Result<()> {
/// let shape = SharedMemoryShape { parts: 1, words: 3, bytes: 0 };
/// let memory = Arc::new(SharedMemory::new(shape)?).part(0);
/// let limits = WaitLimits {
///     spins: 10,
///     yield_time: Duration::ZERO,
///     first_park: Duration::from_millis(10),
///     longest_park: Duration::from_millis(200),
/// };
/// std::thread::scope(|scope| {
///     // Usually in another process.
///     scope.spawn(|| {
///         memory.words()[2].store(5, Ordering::Release);
///         ChangeWord::new(&memory, 0).signal();
///     });
///     let five = ChangeWord::new(&memory, 0).wait(&limits, || {
///         Some(memory.words()[2].load(Ordering::Acquire)).filter(|value| *value > 0)
///     });
///     assert_eq!(five, 5);
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ChangeWord<'m> {
    part: &'m SharedMemoryPart,
    index: usize,
}

impl<'m> ChangeWord<'m> {
    /// The words at an index of a part and behind it.
    pub fn new(part: &'m SharedMemoryPart, index: usize) -> Self {
        Self { part, index }
    }

    /// The number of changes so far, modulo 2^32.
    pub fn count(&self) -> u32 {
        self.part.words()[self.index].load(Ordering::SeqCst)
    }

    fn sleepers(&self) -> &AtomicU32 {
        &self.part.words()[self.index + 1]
    }

    /// Counts a change, and wakes all threads that wait. A change that a condition reads must be
    /// made before.
    pub fn signal(&self) {
        self.part.words()[self.index].fetch_add(1, Ordering::SeqCst);
        self.part.reach(SwitchPoint::Changed, self.index);
        if self.sleepers().load(Ordering::SeqCst) > 0 {
            self.part.wake(self.index, SharedMemoryPart::ALL);
        }
    }

    /// Sleeps while the count is `seen`, for this time at most. May return earlier.
    pub fn park(&self, seen: u32, limit: Duration) {
        // A change either comes before the kernel compares the word, or its thread sees a sleeper.
        self.sleepers().fetch_add(1, Ordering::SeqCst);
        self.part.reach(SwitchPoint::Parking, self.index);
        self.part.park(self.index, seen, limit);
        self.sleepers().fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits until `check` returns a value. Calls it after each change, and at least once per
    /// longest sleep.
    pub fn wait<R>(&self, limits: &WaitLimits, mut check: impl FnMut() -> Option<R>) -> R {
        loop {
            if let Some(value) = self.wait_until(limits, Duration::MAX, &mut check) {
                return value;
            }
        }
    }

    /// The same, until a moment of the memory's clock ([`SharedMemoryPart::now`]).
    pub fn wait_until<R>(
        &self,
        limits: &WaitLimits,
        deadline: Duration,
        mut check: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        let mut spinning = Spinning::new(self.part, limits);
        let mut longest = limits.first_park;
        loop {
            // Read before the check: a later change prevents the sleep.
            let seen = self.count();
            if let Some(value) = check() {
                return Some(value);
            }
            if spinning.pause() {
                continue;
            }
            let left = match deadline {
                Duration::MAX => deadline,
                deadline => deadline.saturating_sub(self.part.now()),
            };
            if left.is_zero() {
                return None;
            }
            self.park(seen, longest.min(left));
            longest = (longest * 2).min(limits.longest_park);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{SharedMemory, SharedMemoryShape};

    const LIMITS: WaitLimits = WaitLimits {
        spins: 3,
        yield_time: Duration::ZERO,
        first_park: Duration::from_secs(60),
        longest_park: Duration::from_secs(60),
    };

    fn part() -> SharedMemoryPart {
        let shape = SharedMemoryShape { parts: 1, words: 3, bytes: 0 };
        Arc::new(SharedMemory::new(shape).unwrap()).part(0)
    }

    #[test]
    fn no_wake_up_is_lost() {
        let part = part();
        let turns = |mine: u32| {
            let part = &part;
            move || {
                for number in 0..5000 {
                    let word = &part.words()[2];
                    let is_mine = || (word.load(Ordering::Acquire) % 2 == mine).then_some(());
                    ChangeWord::new(part, 0).wait(&LIMITS, is_mine);
                    assert_eq!(word.fetch_add(1, Ordering::AcqRel), 2 * number + mine);
                    ChangeWord::new(part, 0).signal();
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(turns(0));
            scope.spawn(turns(1));
        });
        assert_eq!(part.words()[1].load(Ordering::Relaxed), 0, "no thread sleeps");
    }

    #[test]
    fn a_wait_ends_at_its_deadline() {
        let part = part();
        let deadline = part.now() + Duration::from_millis(3);
        let waited = ChangeWord::new(&part, 0).wait_until(&LIMITS, deadline, || None::<()>);
        assert!(waited.is_none() && part.now() >= deadline);
    }

    #[test]
    fn a_change_during_the_check_prevents_the_sleep() {
        let part = part();
        let mut checks = 0;
        ChangeWord::new(&part, 0).wait(&LIMITS, || {
            checks += 1;
            ChangeWord::new(&part, 0).signal();
            (checks > 10).then_some(())
        });
    }
}
