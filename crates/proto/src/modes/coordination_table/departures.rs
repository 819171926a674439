//! Who has left a table, and that all is over.

use std::sync::atomic::Ordering;

use super::CoordinationTable;
use super::words::{head, member};
use crate::modes::collective_error::CollectiveError;

const GONE: u32 = 1;
const CLOSED: u32 = 2;

impl CoordinationTable<'_> {
    // What the node writes.

    /// Somebody has ended all meetings: nothing goes on here.
    pub fn reset(&self) {
        self.word(head::IS_RESET).store(1, Ordering::Release);
    }

    /// The process of a rank is gone.
    pub fn mark_lost(&self, rank: u32) {
        if rank < self.size {
            self.word(self.member(rank) + member::IS_LOST).store(1, Ordering::Release);
            self.word(head::LOST).fetch_add(1, Ordering::Release);
        }
    }

    // What needs the lock.

    /// A rank leaves: it has closed the file, or put it away.
    pub fn leave(&self, rank: u32) {
        let is_closed = self.word(self.member(rank) + member::IS_CLOSED);
        if is_closed.swap(1, Ordering::Relaxed) == 0 {
            self.end_collectives(rank, CLOSED);
        }
    }

    /// Looks who has been lost since it last looked.
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

    fn end_collectives(&self, rank: u32, fate: u32) {
        let broken = self.word(head::BROKEN);
        let _ = broken.compare_exchange(0, rank * 4 + fate, Ordering::Release, Ordering::Relaxed);
    }

    // What needs no lock.

    /// Why nobody can meet any more.
    pub fn ended_by(&self) -> Option<CollectiveError> {
        if self.is_reset() {
            return Some(CollectiveError::Reset);
        }
        let broken = self.word(head::BROKEN).load(Ordering::Acquire);
        match (broken & 3, broken >> 2) {
            (0, _) => None,
            (CLOSED, rank) => Some(CollectiveError::Closed { rank }),
            (_, rank) => Some(CollectiveError::Gone { rank }),
        }
    }

    /// Whether somebody has ended all meetings.
    pub fn is_reset(&self) -> bool {
        self.word(head::IS_RESET).load(Ordering::Acquire) != 0
    }

    /// Whether the node has lost somebody whom nobody has noticed.
    pub fn has_new_losses(&self) -> bool {
        let lost = self.word(head::LOST).load(Ordering::Acquire);
        lost != self.word(head::NOTICED).load(Ordering::Relaxed)
    }

    /// Whether all have left.
    pub fn is_over(&self) -> bool {
        let has_left =
            |rank| self.word(self.member(rank) + member::IS_CLOSED).load(Ordering::Relaxed);
        (0..self.size).all(|rank| has_left(rank) != 0 || self.is_lost(rank))
    }

    /// Whether the process of a rank is gone.
    pub fn is_lost(&self, rank: u32) -> bool {
        self.word(self.member(rank) + member::IS_LOST).load(Ordering::Acquire) != 0
    }
}
