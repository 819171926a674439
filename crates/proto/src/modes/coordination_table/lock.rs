//! The lock of a table, and its event counter.

use std::sync::atomic::Ordering;

use super::CoordinationTable;
use super::words::head;
use crate::modes::collective_error::CollectiveError;

/// The bit of the lock word that says that a rank sleeps on it.
const IS_CONTENDED: u32 = 1 << 31;

impl CoordinationTable<'_> {
    /// Takes the lock for a rank if it is free. With `is_contended`, releasing it wakes another
    /// rank.
    pub fn try_lock(&self, rank: u32, is_contended: bool) -> bool {
        let owner = (rank + 1) | if is_contended { IS_CONTENDED } else { 0 };
        let lock = self.word(head::LOCK);
        lock.compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Says that a rank waits for the lock. Returns the value of the lock word to sleep on, or
    /// `None` if the lock is free or the word has changed.
    pub fn request_lock(&self) -> Option<u32> {
        let lock = self.word(head::LOCK);
        let seen = lock.load(Ordering::Relaxed);
        if seen == 0 {
            return None;
        }
        let contended = seen | IS_CONTENDED;
        let is_set = seen == contended
            || lock.compare_exchange(seen, contended, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        is_set.then_some(contended)
    }

    /// Releases the lock. Returns whether a sleeping rank must be woken.
    pub fn unlock(&self) -> bool {
        self.word(head::LOCK).swap(0, Ordering::Release) & IS_CONTENDED != 0
    }

    /// Fails if the rank that holds the lock is lost: the table may be half changed, so no rank may
    /// use it again. A rank that waits for the lock calls this from time to time.
    pub fn check_lock_holder(&self) -> Result<(), CollectiveError> {
        match self.holder().filter(|rank| self.is_lost(*rank)) {
            Some(rank) => Err(CollectiveError::Gone { rank }),
            None => Ok(()),
        }
    }

    /// The rank that holds the lock.
    pub(super) fn holder(&self) -> Option<u32> {
        let seen = self.word(head::LOCK).load(Ordering::Acquire);
        (seen & !IS_CONTENDED).checked_sub(1).filter(|rank| *rank < self.size)
    }

    /// Counts an event. Returns whether ranks sleep on the counter.
    pub fn signal_event(&self) -> bool {
        self.word(head::EVENT).fetch_add(1, Ordering::SeqCst);
        self.word(head::SLEEPERS).load(Ordering::SeqCst) > 0
    }

    /// The number of events so far, modulo 2^32.
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
    fn a_rank_that_dies_with_the_lock_is_named_and_the_lock_stays_taken() {
        let words = words(2);
        let table = CoordinationTable::new(&words, 2, Mode::Log, None).unwrap();
        assert!(table.try_lock(1, false) && !table.try_lock(0, false));
        assert_eq!(table.check_lock_holder(), Ok(()), "the holder is alive");
        let seen = table.request_lock().unwrap();
        assert_eq!(table.request_lock(), Some(seen));
        assert!(table.unlock(), "a rank sleeps");
        assert!(table.request_lock().is_none() && table.try_lock(1, true) && table.unlock());
        assert!(table.try_lock(1, false));
        table.mark_lost(1);
        assert_eq!(table.check_lock_holder(), Err(CollectiveError::Gone { rank: 1 }));
        assert!(!table.try_lock(0, false));
    }
}
