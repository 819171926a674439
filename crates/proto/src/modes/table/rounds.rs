//! Calls in which all meet, round after round.

use std::sync::atomic::Ordering;

use super::Table;
use super::encoding::encode;
use super::once::chunks_of;
use super::words::{called, head, kind, round, seat};
use crate::modes::call::{Call, Disagreement, Outcome};
use crate::modes::course::Decision;
use crate::modes::position::{OutOfRange, Placement};
use crate::modes::trouble::Trouble;

/// What became of a call in which all meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// So many rounds are under way that it must be called again, when something has happened.
    Early,
    /// It counts.
    Counted,
}

impl Table<'_> {
    // What needs the lock.

    /// A rank makes a call in which all meet. The last one decides by [`decide`](Self::decide).
    pub fn arrive(
        &self,
        rank: u32,
        number: u64,
        call: &Call,
        now_ms: u64,
    ) -> Result<Arrival, Trouble> {
        if let Some(trouble) = self.broken() {
            return Err(trouble);
        }
        let at = self.round(number);
        if !self.has_room_for(number) {
            return Ok(Arrival::Early);
        }
        let (kind, flags, value) = encode(call);
        let place = self.called(number, rank);
        self.word(place + called::FLAGS).store(flags, Ordering::Relaxed);
        self.put(place + called::VALUE, value);
        self.word(place + called::KIND).store(kind, Ordering::Relaxed);
        let arrived = self.word(at + round::ARRIVED);
        if arrived.load(Ordering::Relaxed) == 0 {
            self.put(at + round::SINCE_MS, now_ms);
        }
        self.note_call(rank, call, "", now_ms);
        arrived.fetch_add(1, Ordering::Relaxed);
        self.word(at + round::LAST).store(rank, Ordering::Relaxed);
        Ok(Arrival::Counted)
    }

    /// Whether all have called in the round that comes next.
    pub fn is_complete(&self) -> bool {
        let first = self.number(head::FIRST);
        let at = self.round(first);
        self.has_room_for(first)
            && self.word(at + round::ARRIVED).load(Ordering::Relaxed) == self.size
    }

    /// Decides the round that comes next, in which all have called. `measure` says how long the
    /// file is, and is asked only if that matters.
    pub fn decide(&self, measure: impl FnOnce() -> Result<u64, String>) {
        let number = self.number(head::FIRST);
        let at = self.round(number);
        let calls: Vec<Call> = (0..self.size).map(|rank| self.call_of(number, rank)).collect();
        let mut course = self.course();
        let mut measured = Ok(());
        if course.is_unsure_of_round(&calls) {
            measured = measure().map(|len| course.measured(len));
        }
        let kind = match measured {
            Ok(()) => match course.round(&calls) {
                Ok(decision) => self.note(number, decision),
                Err(Trouble::Disagreement(_)) => kind::DISAGREEMENT,
                Err(Trouble::WrongMode { .. }) => kind::WRONG_MODE,
                Err(_) => kind::OUT_OF_RANGE,
            },
            Err(why) => {
                self.put_round_text(at, &why);
                kind::NOT_MEASURED
            }
        };
        self.set_course(&course);
        self.word(at + round::KIND).store(kind, Ordering::Relaxed);
        self.put(head::FIRST, number + 1);
        self.word(at + round::IS_DECIDED).store(1, Ordering::Release);
    }

    fn note(&self, number: u64, decision: Decision) -> u32 {
        let at = self.round(number);
        match decision {
            Decision::Done => kind::DONE,
            Decision::Closed => {
                for rank in 0..self.size {
                    self.word(self.seat(rank) + seat::IS_CLOSED).store(1, Ordering::Relaxed);
                }
                kind::DONE
            }
            Decision::At(offset) => {
                self.put(at + round::OFFSET, offset);
                kind::AT
            }
            Decision::Places(places) => {
                for (rank, place) in (0..).zip(places) {
                    let called = self.called(number, rank);
                    self.put(called + called::OFFSET, place.offset);
                    self.put(called + called::LEN, place.len);
                }
                kind::PLACES
            }
            Decision::Once(placement) => {
                self.put(at + round::OFFSET, placement.offset);
                self.put(at + round::LEN, placement.len);
                let chunks = self.word(head::CHUNKS);
                let first = chunks.load(Ordering::Relaxed);
                self.word(at + round::FIRST_CHUNK).store(first, Ordering::Relaxed);
                let is_read = !self.is_write(number);
                let count = if is_read { chunks_of(placement.len) } else { 0 };
                chunks.store(first.wrapping_add(count), Ordering::Relaxed);
                kind::ONCE
            }
        }
    }

    // What needs no lock.

    /// What came of a round for a rank, if that is known.
    pub fn outcome(&self, rank: u32, number: u64) -> Option<Result<Outcome, Trouble>> {
        // In this order: what was decided before somebody left is decided.
        let broken = self.broken();
        if self.word(self.round(number) + round::IS_DECIDED).load(Ordering::Acquire) == 0 {
            return broken.map(Err);
        }
        Some(self.decided(rank, number))
    }

    fn decided(&self, rank: u32, number: u64) -> Result<Outcome, Trouble> {
        let at = self.round(number);
        let place = |offset: usize, len: usize| Placement {
            offset: self.number(offset),
            len: self.number(len),
        };
        match self.word(at + round::KIND).load(Ordering::Relaxed) {
            kind::DONE => Ok(Outcome::Done),
            kind::AT => Ok(Outcome::At(self.number(at + round::OFFSET))),
            kind::PLACES => {
                let called = self.called(number, rank);
                Ok(Outcome::Placed(place(called + called::OFFSET, called + called::LEN)))
            }
            kind::ONCE => {
                let placement = place(at + round::OFFSET, at + round::LEN);
                if self.word(at + round::LAST).load(Ordering::Relaxed) == rank {
                    Ok(Outcome::Perform { number, placement })
                } else {
                    Ok(Outcome::Performed { number, placement })
                }
            }
            kind::DISAGREEMENT => {
                let calls = (0..self.size).map(|rank| self.call_of(number, rank)).collect();
                Err(Trouble::Disagreement(Disagreement { calls }))
            }
            kind::WRONG_MODE => Err(Trouble::WrongMode { call: self.call_of(number, 0) }),
            kind::NOT_MEASURED => Err(Trouble::NotMeasured { why: self.round_text(at) }),
            _ => Err(Trouble::OutOfRange(OutOfRange)),
        }
    }

    /// A rank has what it wanted to know of a round; when all have, there is room for another one,
    /// and this says so.
    pub fn take(&self, number: u64) -> bool {
        let at = self.round(number);
        if self.word(at + round::TAKEN).fetch_add(1, Ordering::AcqRel) + 1 < self.size {
            return false;
        }
        for rank in 0..self.size {
            self.word(self.called(number, rank) + called::KIND).store(0, Ordering::Relaxed);
        }
        for word in [round::ARRIVED, round::PRODUCED, round::PERFORMED, round::TAKEN] {
            self.word(at + word).store(0, Ordering::Relaxed);
        }
        self.word(at + round::IS_DECIDED).store(0, Ordering::Release);
        self.put(at + round::NUMBER, number + Self::DEPTH);
        true
    }

    /// Whether there is room for a round.
    pub fn has_room_for(&self, number: u64) -> bool {
        self.number(self.round(number) + round::NUMBER) == number
    }

    fn is_write(&self, number: u64) -> bool {
        self.word(self.called(number, 0) + called::FLAGS).load(Ordering::Relaxed) & 1 != 0
    }
}
