//! Who may touch which bytes of the file, where accesses that overlap must not mix. All of it needs
//! the lock.

use std::sync::atomic::Ordering;

use super::Table;
use super::words::{head, seat};

impl Table<'_> {
    /// A rank wants some bytes for itself, or to read them while nobody writes. One access of a rank
    /// at a time.
    pub fn want_range(&self, rank: u32, from: u64, len: u64, is_write: bool) {
        let at = self.seat(rank);
        let ticket = self.number(head::TICKETS) + 1;
        self.put(head::TICKETS, ticket);
        self.put(at + seat::FROM, from);
        self.put(at + seat::TO, from.saturating_add(len));
        self.word(at + seat::IS_WRITE).store(is_write.into(), Ordering::Relaxed);
        self.put(at + seat::TICKET, ticket);
    }

    /// Whether a rank has the bytes that it wants: nobody who came before it wants any of them, or
    /// all only read.
    pub fn has_range(&self, rank: u32) -> bool {
        let range = |rank: u32| {
            let at = self.seat(rank);
            let is_write = self.word(at + seat::IS_WRITE).load(Ordering::Relaxed) != 0;
            (self.number(at + seat::FROM), self.number(at + seat::TO), is_write)
        };
        let ticket = |rank: u32| self.number(self.seat(rank) + seat::TICKET);
        let (mine, (from, to, is_write)) = (ticket(rank), range(rank));
        let is_before = |other: u32| {
            let theirs = ticket(other);
            if theirs == 0 || theirs >= mine {
                return false;
            }
            let (their_from, their_to, they_write) = range(other);
            (is_write || they_write) && from < their_to && their_from < to
        };
        !(0..self.size).any(is_before)
    }

    /// A rank wants its bytes no more.
    pub fn leave_range(&self, rank: u32) {
        self.put(self.seat(rank) + seat::TICKET, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;
    use crate::modes::mode::Mode;
    use crate::modes::trouble::Trouble;

    #[test]
    fn bytes_are_had_in_the_order_in_which_they_were_wanted() {
        let words = words(4);
        let table = Table::new(&words, 4, Mode::Unix, None).unwrap();
        let has = || [0, 1, 2, 3].map(|rank| table.has_range(rank));
        table.want_range(2, 0, 100, false);
        table.want_range(0, 50, 100, false);
        table.want_range(3, 99, 1, true);
        table.want_range(1, 90, 20, false);
        assert_eq!(has(), [true, false, true, false], "a reader does not overtake a writer");
        table.leave_range(2);
        assert!(!has()[3]);
        table.leave_range(0);
        assert!(has()[3]);
        table.lose(3);
        table.notice();
        assert!(has()[1], "who is gone has nothing");
        assert_eq!(table.broken(), Some(Trouble::Gone { rank: 3 }));
    }
}
