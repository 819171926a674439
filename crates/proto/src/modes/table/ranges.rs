//! Who may touch which bytes of the file, where accesses that overlap must not mix.

use std::sync::atomic::Ordering;

use super::Table;
use super::words::{head, seat};
use crate::modes::waiting::{BytesUse, BytesWish};

impl Table<'_> {
    // What needs the lock.

    /// A rank wants some bytes for itself, or to read them while nobody writes. One access of a rank
    /// at a time.
    pub fn want_range(&self, rank: u32, bytes: BytesUse, now_ms: u64) {
        let at = self.seat(rank);
        let ticket = self.number(head::TICKETS) + 1;
        self.put(head::TICKETS, ticket);
        self.put(at + seat::FROM, bytes.from);
        self.put(at + seat::TO, bytes.to);
        self.word(at + seat::IS_WRITE).store(bytes.is_write.into(), Ordering::Relaxed);
        self.put(at + seat::SINCE_MS, now_ms);
        self.put(at + seat::TICKET, ticket);
    }

    /// Whether a rank has the bytes that it wants: nobody who came before it wants any of them, or
    /// all only read.
    pub fn has_range(&self, rank: u32) -> bool {
        let ticket = |rank: u32| self.number(self.seat(rank) + seat::TICKET);
        let (mine, wanted) = (ticket(rank), self.range(rank));
        let is_before = |other: u32| {
            let theirs = ticket(other);
            theirs != 0 && theirs < mine && self.range(other).clashes(&wanted)
        };
        !(0..self.size).any(is_before)
    }

    /// A rank wants its bytes no more.
    pub fn leave_range(&self, rank: u32) {
        self.put(self.seat(rank) + seat::TICKET, 0);
    }

    fn range(&self, rank: u32) -> BytesUse {
        let at = self.seat(rank);
        let is_write = self.word(at + seat::IS_WRITE).load(Ordering::Relaxed) != 0;
        BytesUse { from: self.number(at + seat::FROM), to: self.number(at + seat::TO), is_write }
    }

    // What needs no lock.

    /// Who has bytes or wants some, in the order in which they came, as far as can be seen while it
    /// changes.
    pub(super) fn wishes(&self) -> Vec<BytesWish> {
        let wish = |rank: u32| {
            let at = self.seat(rank);
            let number = self.number(at + seat::TICKET);
            let (bytes, since_ms) = (self.range(rank), self.number(at + seat::SINCE_MS));
            // What was looked at may have become another wish meanwhile.
            let is_one = number != 0 && self.number(at + seat::TICKET) == number;
            is_one.then_some(BytesWish { rank, number, bytes, since_ms })
        };
        let mut wishes: Vec<_> = (0..self.size).filter_map(wish).collect();
        wishes.sort_by_key(|wish| wish.number);
        wishes
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
        table.want_range(2, BytesUse::new(0, 100, false), 7);
        table.want_range(0, BytesUse::new(50, 100, false), 7);
        table.want_range(3, BytesUse::new(99, 1, true), 7);
        table.want_range(1, BytesUse::new(90, 20, false), 7);
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
