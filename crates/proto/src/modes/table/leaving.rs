//! Who has left a table, and that all is over.

use std::sync::atomic::Ordering;

use super::Table;
use super::words::{head, seat};
use crate::modes::trouble::Trouble;

const GONE: u32 = 1;
const CLOSED: u32 = 2;

impl Table<'_> {
    // What the node writes.

    /// Somebody has ended all meetings: nothing goes on here.
    pub fn reset(&self) {
        self.word(head::IS_RESET).store(1, Ordering::Release);
    }

    /// The process of a rank is gone.
    pub fn lose(&self, rank: u32) {
        if rank < self.size {
            self.word(self.seat(rank) + seat::IS_LOST).store(1, Ordering::Release);
            self.word(head::LOST).fetch_add(1, Ordering::Release);
        }
    }

    // What needs the lock.

    /// A rank leaves: it has closed the file, or put it away.
    pub fn leave(&self, rank: u32) {
        let is_closed = self.word(self.seat(rank) + seat::IS_CLOSED);
        if is_closed.swap(1, Ordering::Relaxed) == 0 {
            self.break_up(rank, CLOSED);
        }
    }

    /// Looks who has been lost since it last looked.
    pub fn notice(&self) {
        let lost = self.word(head::LOST).load(Ordering::Acquire);
        if self.word(head::NOTICED).swap(lost, Ordering::Relaxed) == lost {
            return;
        }
        for rank in 0..self.size {
            let at = self.seat(rank);
            let is_lost = self.word(at + seat::IS_LOST).load(Ordering::Acquire) != 0;
            if is_lost && self.word(at + seat::IS_CLOSED).load(Ordering::Relaxed) == 0 {
                self.break_up(rank, GONE);
                self.word(at + seat::IS_CLOSED).store(1, Ordering::Relaxed);
                self.put(at + seat::TICKET, 0);
            }
        }
    }

    fn break_up(&self, rank: u32, fate: u32) {
        let broken = self.word(head::BROKEN);
        let _ = broken.compare_exchange(0, rank * 4 + fate, Ordering::Release, Ordering::Relaxed);
    }

    // What needs no lock.

    /// Why nobody can meet any more.
    pub fn broken(&self) -> Option<Trouble> {
        if self.is_reset() {
            return Some(Trouble::Reset);
        }
        let broken = self.word(head::BROKEN).load(Ordering::Acquire);
        match (broken & 3, broken >> 2) {
            (0, _) => None,
            (CLOSED, rank) => Some(Trouble::Closed { rank }),
            (_, rank) => Some(Trouble::Gone { rank }),
        }
    }

    /// Whether somebody has ended all meetings.
    pub fn is_reset(&self) -> bool {
        self.word(head::IS_RESET).load(Ordering::Acquire) != 0
    }

    /// Whether the node has lost somebody whom nobody has noticed.
    pub fn has_news(&self) -> bool {
        let lost = self.word(head::LOST).load(Ordering::Acquire);
        lost != self.word(head::NOTICED).load(Ordering::Relaxed)
    }

    /// Whether all have left.
    pub fn is_over(&self) -> bool {
        let has_left = |rank| self.word(self.seat(rank) + seat::IS_CLOSED).load(Ordering::Relaxed);
        (0..self.size).all(|rank| has_left(rank) != 0 || self.is_lost(rank))
    }

    /// Whether the process of a rank is gone.
    pub fn is_lost(&self, rank: u32) -> bool {
        self.word(self.seat(rank) + seat::IS_LOST).load(Ordering::Acquire) != 0
    }
}
