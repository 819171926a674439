//! The lock of a table, and the word that says when something has happened.

use std::sync::atomic::Ordering;

use super::CoordinationTable;
use super::words::head;
use crate::modes::collective_error::CollectiveError;

/// In the word of the lock: somebody sleeps.
const IS_WANTED: u32 = 1 << 31;

impl CoordinationTable<'_> {
    /// Takes the lock for a rank, unless somebody has it. With `is_contended`, who lets go of it
    /// wakes another one.
    pub fn try_lock(&self, rank: u32, is_contended: bool) -> bool {
        let owner = (rank + 1) | if is_contended { IS_WANTED } else { 0 };
        let lock = self.word(head::LOCK);
        lock.compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Says that somebody wants the lock; what to sleep on, if it is taken.
    pub fn request_lock(&self) -> Option<u32> {
        let lock = self.word(head::LOCK);
        let seen = lock.load(Ordering::Relaxed);
        if seen == 0 {
            return None;
        }
        let wanted = seen | IS_WANTED;
        let is_said = seen == wanted
            || lock.compare_exchange(seen, wanted, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        is_said.then_some(wanted)
    }

    /// Lets go of the lock; whether somebody is to be woken.
    pub fn unlock(&self) -> bool {
        self.word(head::LOCK).swap(0, Ordering::Release) & IS_WANTED != 0
    }

    /// Takes the lock away from a rank that is gone, for good: what it has left behind nobody can
    /// trust. Whoever waits for the lock calls this from time to time.
    pub fn check_lock_holder(&self) -> Result<(), CollectiveError> {
        match self.holder().filter(|rank| self.is_lost(*rank)) {
            Some(rank) => Err(CollectiveError::Gone { rank }),
            None => Ok(()),
        }
    }

    /// The rank that has the lock.
    pub(super) fn holder(&self) -> Option<u32> {
        let seen = self.word(head::LOCK).load(Ordering::Acquire);
        (seen & !IS_WANTED).checked_sub(1).filter(|rank| *rank < self.size)
    }

    /// Says that something has happened; whether somebody sleeps because of it.
    pub fn signal_event(&self) -> bool {
        self.word(head::EVENT).fetch_add(1, Ordering::SeqCst);
        self.word(head::SLEEPERS).load(Ordering::SeqCst) > 0
    }

    /// How often something has happened.
    pub fn event_count(&self) -> u32 {
        self.word(head::EVENT).load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;
    use crate::modes::mode::Mode;

    #[test]
    fn who_dies_with_the_lock_is_named_and_nobody_gets_it() {
        let words = words(2);
        let table = CoordinationTable::new(&words, 2, Mode::Log, None).unwrap();
        assert!(table.try_lock(1, false) && !table.try_lock(0, false));
        assert_eq!(table.check_lock_holder(), Ok(()), "it is at work");
        let seen = table.request_lock().unwrap();
        assert_eq!(table.request_lock(), Some(seen));
        assert!(table.unlock(), "somebody sleeps");
        assert!(table.request_lock().is_none() && table.try_lock(1, true) && table.unlock());
        assert!(table.try_lock(1, false));
        table.mark_lost(1);
        assert_eq!(table.check_lock_holder(), Err(CollectiveError::Gone { rank: 1 }));
        assert!(!table.try_lock(0, false));
    }
}
