//! Ranks that leave a table: closed, lost or reset.

use std::sync::atomic::Ordering;

use super::CoordinationTable;
use super::words::{head, member};
use crate::modes::collective_error::CollectiveError;

const GONE: u32 = 1;
const CLOSED: u32 = 2;

impl CoordinationTable<'_> {
    // Called by the node.

    /// Ends all calls at this table.
    pub fn reset(&self) {
        self.word(head::IS_RESET).store(1, Ordering::Release);
    }

    /// Marks the process of a rank as lost.
    pub fn mark_lost(&self, rank: u32) {
        if rank < self.size {
            self.word(self.member(rank) + member::IS_LOST).store(1, Ordering::Release);
            self.word(head::LOST).fetch_add(1, Ordering::Release);
        }
    }

    // These need the lock.

    /// Lets a rank leave: it has closed or dropped the file.
    pub fn leave(&self, rank: u32) {
        let is_closed = self.word(self.member(rank) + member::IS_CLOSED);
        if is_closed.swap(1, Ordering::Relaxed) == 0 {
            self.end_collectives(rank, CLOSED);
        }
    }

    /// Ends the collective calls if the node has marked further ranks as lost.
    pub fn process_losses(&self) {
        let lost = self.word(head::LOST).load(Ordering::Acquire);
        if self.word(head::NOTICED).swap(lost, Ordering::Relaxed) == lost {
            return;
        }
        for rank in 0..self.size {
            let at = self.member(rank);
            let is_lost = self.word(at + member::IS_LOST).load(Ordering::Acquire) != 0;
            if is_lost && self.word(at + member::IS_CLOSED).load(Ordering::Relaxed) == 0 {
                self.end_collectives(rank, GONE);
                self.word(at + member::IS_CLOSED).store(1, Ordering::Relaxed);
                self.put(at + member::TICKET, 0);
            }
        }
    }

    fn end_collectives(&self, rank: u32, reason: u32) {
        let ended = self.word(head::BROKEN);
        let _ = ended.compare_exchange(0, rank * 4 + reason, Ordering::Release, Ordering::Relaxed);
    }

    // These need no lock.

    /// Why the ranks of this table make no collective calls any more.
    pub fn ended_by(&self) -> Option<CollectiveError> {
        if self.is_reset() {
            return Some(CollectiveError::Reset);
        }
        let ended = self.word(head::BROKEN).load(Ordering::Acquire);
        match (ended & 3, ended >> 2) {
            (0, _) => None,
            (CLOSED, rank) => Some(CollectiveError::Closed { rank }),
            (_, rank) => Some(CollectiveError::Gone { rank }),
        }
    }

    /// Whether the node has reset the table.
    pub fn is_reset(&self) -> bool {
        self.word(head::IS_RESET).load(Ordering::Acquire) != 0
    }

    /// Whether the node has marked ranks as lost that no rank has processed.
    pub fn has_new_losses(&self) -> bool {
        let lost = self.word(head::LOST).load(Ordering::Acquire);
        lost != self.word(head::NOTICED).load(Ordering::Relaxed)
    }

    /// Whether all ranks have left.
    pub fn is_over(&self) -> bool {
        let has_left =
            |rank| self.word(self.member(rank) + member::IS_CLOSED).load(Ordering::Relaxed);
        (0..self.size).all(|rank| has_left(rank) != 0 || self.is_lost(rank))
    }

    /// Whether the process of a rank is lost; false for ranks that the table does not have.
    pub fn is_lost(&self, rank: u32) -> bool {
        rank < self.size
            && self.word(self.member(rank) + member::IS_LOST).load(Ordering::Acquire) != 0
    }
}
