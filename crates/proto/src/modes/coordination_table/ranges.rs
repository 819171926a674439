//! Byte ranges that ranks claim, so that overlapping accesses do not mix.

use std::sync::atomic::Ordering;

use super::CoordinationTable;
use super::words::{head, member};
use crate::modes::waiting::{BytesClaim, BytesUse};

impl CoordinationTable<'_> {
    // These need the lock.

    /// Claims bytes for a rank: to write them alone, or to read them while no rank writes them. A
    /// rank has one claim at a time.
    pub fn claim_range(&self, rank: u32, bytes: BytesUse, now_ms: u64) {
        let at = self.member(rank);
        let ticket = self.number(head::TICKETS) + 1;
        self.put(head::TICKETS, ticket);
        self.put(at + member::FROM, bytes.from);
        self.put(at + member::TO, bytes.to);
        self.word(at + member::IS_WRITE).store(bytes.is_write.into(), Ordering::Relaxed);
        self.put(at + member::SINCE_MS, now_ms);
        self.put(at + member::TICKET, ticket);
    }

    /// Whether a rank holds the bytes that it has claimed: no earlier claim conflicts with it.
    pub fn holds_range(&self, rank: u32) -> bool {
        let ticket = |rank: u32| self.number(self.member(rank) + member::TICKET);
        let (mine, wanted) = (ticket(rank), self.range(rank));
        let is_before = |other: u32| {
            let theirs = ticket(other);
            theirs != 0 && theirs < mine && self.range(other).clashes(&wanted)
        };
        !(0..self.size).any(is_before)
    }

    /// Makes the claim of a rank, which holds its bytes, larger. Returns false, and changes nothing, if
    /// the claim of another rank conflicts with it.
    pub fn widen_range(&self, rank: u32, bytes: BytesUse) -> bool {
        let is_claimed = |other: u32| {
            other != rank
                && self.number(self.member(other) + member::TICKET) != 0
                && self.range(other).clashes(&bytes)
        };
        if (0..self.size).any(is_claimed) {
            return false;
        }
        let at = self.member(rank);
        self.put(at + member::FROM, bytes.from);
        self.put(at + member::TO, bytes.to);
        self.word(at + member::IS_WRITE).store(bytes.is_write.into(), Ordering::Relaxed);
        true
    }

    /// Releases the bytes of a rank.
    pub fn release_range(&self, rank: u32) {
        self.put(self.member(rank) + member::TICKET, 0);
    }

    fn range(&self, rank: u32) -> BytesUse {
        let at = self.member(rank);
        let is_write = self.word(at + member::IS_WRITE).load(Ordering::Relaxed) != 0;
        BytesUse {
            from: self.number(at + member::FROM),
            to: self.number(at + member::TO),
            is_write,
        }
    }

    // These need no lock.

    /// All claims, oldest first; they may change at the same time.
    pub(super) fn claims(&self) -> Vec<BytesClaim> {
        let claim = |rank: u32| {
            let at = self.member(rank);
            let number = self.number(at + member::TICKET);
            let (bytes, since_ms) = (self.range(rank), self.number(at + member::SINCE_MS));
            // The rank may have replaced its claim while this one was read.
            let is_one = number != 0 && self.number(at + member::TICKET) == number;
            is_one.then_some(BytesClaim { rank, number, bytes, since_ms })
        };
        let mut claims: Vec<_> = (0..self.size).filter_map(claim).collect();
        claims.sort_by_key(|claim| claim.number);
        claims
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;
    use crate::modes::collective_error::CollectiveError;
    use crate::modes::mode::Mode;

    #[test]
    fn bytes_are_granted_in_the_order_of_claims() {
        let words = words(4);
        let table = CoordinationTable::new(&words, 4, Mode::Unix, None).unwrap();
        let has = || [0, 1, 2, 3].map(|rank| table.holds_range(rank));
        table.claim_range(2, BytesUse::new(0, 100, false), 7);
        table.claim_range(0, BytesUse::new(50, 100, false), 7);
        table.claim_range(3, BytesUse::new(99, 1, true), 7);
        table.claim_range(1, BytesUse::new(90, 20, false), 7);
        assert_eq!(has(), [true, false, true, false], "a reader does not overtake a writer");
        assert!(!table.widen_range(2, BytesUse::new(0, 120, false)), "a writer waits");
        assert!(table.widen_range(0, BytesUse::new(100, 100, false)), "and wants byte 99 only");
        assert!(!table.widen_range(0, BytesUse::new(90, 110, true)));
        assert!(table.widen_range(0, BytesUse::new(110, 100, true)), "no rank reads these");
        table.claim_range(0, BytesUse::new(50, 100, false), 7);
        table.claim_range(3, BytesUse::new(99, 1, true), 7);
        table.claim_range(1, BytesUse::new(90, 20, false), 7);
        table.release_range(2);
        assert!(!has()[3]);
        table.release_range(0);
        assert!(has()[3]);
        table.mark_lost(3);
        table.process_losses();
        assert!(has()[1], "a lost rank holds nothing");
        assert_eq!(table.ended_by(), Some(CollectiveError::Gone { rank: 3 }));
    }
}
