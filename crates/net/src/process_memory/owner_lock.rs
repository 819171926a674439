//! A lock shared by processes: a word that is zero, or names the owner.
//!
//! A process that dies with the lock never releases it: what the lock protects may be half changed.
//! The word still names the owner, so that the others can find out that it is gone.

use std::sync::atomic::{AtomicU32, Ordering};

use super::parker::SwitchPoint;
use super::wait_limits::{Spinning, WaitLimits};
use crate::SharedMemoryPart;

/// The bit of the word that says that a thread sleeps on it.
const HAS_WAITERS: u32 = 1 << 31;

/// A lock in a word of shared memory; the word is zero at first.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use pario_net::{OwnerLock, SharedMemory, SharedMemoryShape, WaitLimits};
///
/// # fn main() -> std::io::Result<()> {
/// let shape = SharedMemoryShape { parts: 1, words: 1, bytes: 0 };
/// let memory = Arc::new(SharedMemory::new(shape)?).part(0);
/// let limits = WaitLimits {
///     spins: 10,
///     yield_time: Duration::ZERO,
///     first_park: Duration::from_millis(1),
///     longest_park: Duration::from_millis(1),
/// };
/// let lock = OwnerLock::new(&memory, 0);
/// assert_eq!(lock.lock(7, &limits, |_| None::<()>), Ok(()));
/// // Owner 7 never unlocks. Another one asks about it.
/// assert_eq!(lock.lock(8, &limits, |owner| (owner == 7).then_some("7 is gone")), Err("7 is gone"));
/// assert!(lock.unlock(7) && !lock.unlock(7));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OwnerLock<'m> {
    part: &'m SharedMemoryPart,
    index: usize,
}

impl<'m> OwnerLock<'m> {
    /// The lock in a word of a part.
    #[inline]
    pub fn new(part: &'m SharedMemoryPart, index: usize) -> Self {
        Self { part, index }
    }

    #[inline]
    fn word(&self) -> &AtomicU32 {
        &self.part.words()[self.index]
    }

    /// Takes the lock for an owner, which is below `u32::MAX / 2`. Calls `check` with the present
    /// owner before each sleep, and fails with the error that it returns if the lock still has this
    /// owner.
    #[inline]
    pub fn lock<E>(
        &self,
        owner: u32,
        limits: &WaitLimits,
        check: impl FnMut(u32) -> Option<E>,
    ) -> Result<(), E> {
        if self.try_lock(owner) {
            self.part.reach(SwitchPoint::Locked, self.index);
            return Ok(());
        }
        self.wait_and_lock(owner, limits, check)
    }

    #[cold]
    fn wait_and_lock<E>(
        &self,
        owner: u32,
        limits: &WaitLimits,
        mut check: impl FnMut(u32) -> Option<E>,
    ) -> Result<(), E> {
        let mut mine = owner + 1;
        let mut spinning = Spinning::new(self.part, limits);
        loop {
            let Err(seen) =
                self.word().compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed)
            else {
                self.part.reach(SwitchPoint::Locked, self.index);
                return Ok(());
            };
            if spinning.pause() {
                continue;
            }
            let marked = seen | HAS_WAITERS;
            if seen != marked {
                let order = Ordering::Relaxed;
                if self.word().compare_exchange(seen, marked, order, order).is_err() {
                    continue;
                }
            }
            // Other threads may sleep as well: this one must wake the next.
            mine |= HAS_WAITERS;
            if let Some(error) = check((seen & !HAS_WAITERS) - 1)
                && self.word().load(Ordering::Acquire) == marked
            {
                return Err(error);
            }
            self.part.reach(SwitchPoint::Parking, self.index);
            self.part.park(self.index, marked, limits.longest_park);
        }
    }

    /// Takes the lock for an owner if it is free.
    #[inline]
    pub fn try_lock(&self, owner: u32) -> bool {
        let free = self.word().compare_exchange(0, owner + 1, Ordering::Acquire, Ordering::Relaxed);
        free.is_ok()
    }

    /// Releases the lock. Returns false if it has another owner.
    #[inline]
    pub fn unlock(&self, owner: u32) -> bool {
        let word = self.word();
        // The owner itself wrote its number.
        if word.load(Ordering::Relaxed) & !HAS_WAITERS != owner + 1 {
            return false;
        }
        self.part.reach(SwitchPoint::Unlocking, self.index);
        if word.swap(0, Ordering::Release) & HAS_WAITERS != 0 {
            self.part.reach(SwitchPoint::Unlocked, self.index);
            self.part.wake(self.index, 1);
        }
        true
    }

    /// The owner.
    #[inline]
    pub fn owner(&self) -> Option<u32> {
        (self.word().load(Ordering::Acquire) & !HAS_WAITERS).checked_sub(1)
    }

    /// Makes all threads that wait for the lock check its owner.
    pub fn wake_all(&self) {
        self.part.wake(self.index, SharedMemoryPart::ALL);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::{SharedMemory, SharedMemoryShape};

    const LIMITS: WaitLimits = WaitLimits {
        spins: 5,
        yield_time: Duration::from_micros(5),
        first_park: Duration::from_secs(60),
        longest_park: Duration::from_secs(60),
    };

    fn part() -> SharedMemoryPart {
        let shape = SharedMemoryShape { parts: 1, words: 2, bytes: 0 };
        Arc::new(SharedMemory::new(shape).unwrap()).part(0)
    }

    fn alive(_: u32) -> Option<()> {
        None
    }

    #[test]
    fn one_owner_at_a_time_has_the_lock_and_no_wake_up_is_lost() {
        let part = part();
        let lock = OwnerLock::new(&part, 0);
        std::thread::scope(|scope| {
            for owner in 0..4 {
                scope.spawn(move || {
                    for _ in 0..2000 {
                        lock.lock(owner, &LIMITS, alive).unwrap();
                        let count = lock.part.words()[1].load(Ordering::Relaxed);
                        std::thread::yield_now();
                        lock.part.words()[1].store(count + 1, Ordering::Relaxed);
                        assert!(lock.unlock(owner));
                    }
                });
            }
        });
        assert_eq!((part.words()[1].load(Ordering::Relaxed), lock.owner()), (8000, None));
    }

    #[test]
    fn an_owner_that_is_gone_is_named_and_keeps_the_lock() {
        let part = part();
        let lock = OwnerLock::new(&part, 0);
        assert!(lock.try_lock(7) && !lock.try_lock(8) && !lock.unlock(8));
        assert_eq!(lock.lock(8, &LIMITS, Some), Err(7));
        assert_eq!(lock.owner(), Some(7));
        assert!(!lock.try_lock(9));
    }

    #[test]
    fn an_owner_that_released_the_lock_before_it_was_gone_is_not_named() {
        let part = part();
        let lock = OwnerLock::new(&part, 0);
        assert!(lock.try_lock(7));
        let release = |owner| lock.unlock(owner).then_some("gone");
        assert_eq!(lock.lock(8, &LIMITS, release), Ok(()));
        assert_eq!(lock.owner(), Some(8));
    }
}
