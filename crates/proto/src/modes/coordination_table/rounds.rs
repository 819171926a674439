//! Rounds of collective calls.

use std::sync::atomic::Ordering;

use super::CoordinationTable;
use super::broadcast::chunk_count;
use super::encoding::{FAILED, encode};
use super::words::{head, kind, member, rank_call, round};
use crate::modes::call::{Call, CallOutcome, Disagreement};
use crate::modes::collective_error::CollectiveError;
use crate::modes::course::RoundDecision;
use crate::modes::position::{AccessRange, OutOfRange};

/// The result of adding a call to its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallArrival {
    /// Too many rounds are under way: call again after the next change.
    NoSlot,
    /// The call is recorded.
    Recorded,
}

impl CoordinationTable<'_> {
    // These need the lock.

    /// Adds the call of a rank to its round. The rank that completes the round decides it with
    /// [`decide_round`](Self::decide_round).
    pub fn add_call(
        &self,
        rank: u32,
        number: u64,
        call: &Call,
        now_ms: u64,
    ) -> Result<CallArrival, CollectiveError> {
        if let Some(error) = self.ended_by() {
            return Err(error);
        }
        let at = self.round(number);
        if !self.has_slot_for(number) {
            return Ok(CallArrival::NoSlot);
        }
        let (kind, flags, value) = encode(call);
        let call_at = self.rank_call(number, rank);
        if let Call::Failed(why) = call
            && !(0..rank).any(|lower| self.has_failed(number, lower))
        {
            self.put_round_text(at, why);
        }
        self.word(call_at + rank_call::FLAGS).store(flags, Ordering::Relaxed);
        self.put(call_at + rank_call::VALUE, value);
        self.word(call_at + rank_call::KIND).store(kind, Ordering::Relaxed);
        let arrived = self.word(at + round::ARRIVED);
        if arrived.load(Ordering::Relaxed) == 0 {
            self.put(at + round::SINCE_MS, now_ms);
        }
        self.record_call(rank, call, "", now_ms);
        arrived.fetch_add(1, Ordering::Relaxed);
        self.word(at + round::LAST).store(rank, Ordering::Relaxed);
        Ok(CallArrival::Recorded)
    }

    /// Whether all ranks have called in the first undecided round.
    pub fn is_round_complete(&self) -> bool {
        let first = self.number(head::FIRST);
        let at = self.round(first);
        self.has_slot_for(first)
            && self.word(at + round::ARRIVED).load(Ordering::Relaxed) == self.size
    }

    /// Decides the first undecided round, which is complete. Calls `measure` for the size of the
    /// file only if the decision needs it.
    pub fn decide_round(&self, measure: impl FnOnce() -> Result<u64, String>) {
        let number = self.number(head::FIRST);
        let at = self.round(number);
        let calls: Vec<Call> = (0..self.size).map(|rank| self.call_in(number, rank)).collect();
        let mut course = self.course();
        let mut measured = Ok(());
        if course.round_needs_size(&calls) {
            measured = measure().map(|len| course.measured(len));
        }
        let kind = match measured {
            Ok(()) => match course.decide(&calls) {
                Ok(decision) => self.store_decision(number, decision),
                Err(CollectiveError::Disagreement(_)) => kind::DISAGREEMENT,
                Err(CollectiveError::WrongMode { .. }) => kind::WRONG_MODE,
                Err(CollectiveError::RankFailed { rank, .. }) => {
                    self.put(at + round::OFFSET, rank.into());
                    kind::RANK_FAILED
                }
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

    fn store_decision(&self, number: u64, decision: RoundDecision) -> u32 {
        let at = self.round(number);
        match decision {
            RoundDecision::Done => kind::DONE,
            RoundDecision::Closed => {
                for rank in 0..self.size {
                    self.word(self.member(rank) + member::IS_CLOSED).store(1, Ordering::Relaxed);
                }
                kind::DONE
            }
            RoundDecision::At(offset) => {
                self.put(at + round::OFFSET, offset);
                kind::AT
            }
            RoundDecision::Ranges(ranges) => {
                for (rank, range) in (0..).zip(ranges) {
                    let call = self.rank_call(number, rank);
                    self.put(call + rank_call::OFFSET, range.offset);
                    self.put(call + rank_call::LEN, range.len);
                }
                kind::RANGES
            }
            RoundDecision::Once(range) => {
                self.put(at + round::OFFSET, range.offset);
                self.put(at + round::LEN, range.len);
                let chunks = self.word(head::CHUNKS);
                let first = chunks.load(Ordering::Relaxed);
                self.word(at + round::FIRST_CHUNK).store(first, Ordering::Relaxed);
                let is_read = !self.is_write(number);
                let count = if is_read { chunk_count(range.len) } else { 0 };
                chunks.store(first.wrapping_add(count), Ordering::Relaxed);
                kind::ONCE
            }
        }
    }

    // These need no lock.

    /// The outcome of a round for a rank, once the round is decided.
    pub fn outcome(&self, rank: u32, number: u64) -> Option<Result<CallOutcome, CollectiveError>> {
        // Read in this order: a round that was decided before a rank left stays decided.
        let broken = self.ended_by();
        if self.word(self.round(number) + round::IS_DECIDED).load(Ordering::Acquire) == 0 {
            return broken.map(Err);
        }
        Some(self.stored_outcome(rank, number))
    }

    fn stored_outcome(&self, rank: u32, number: u64) -> Result<CallOutcome, CollectiveError> {
        let at = self.round(number);
        let range_at = |offset: usize, len: usize| AccessRange {
            offset: self.number(offset),
            len: self.number(len),
        };
        match self.word(at + round::KIND).load(Ordering::Relaxed) {
            kind::DONE => Ok(CallOutcome::Done),
            kind::AT => Ok(CallOutcome::At(self.number(at + round::OFFSET))),
            kind::RANGES => {
                let call = self.rank_call(number, rank);
                Ok(CallOutcome::Placed(range_at(call + rank_call::OFFSET, call + rank_call::LEN)))
            }
            kind::ONCE => {
                let range = range_at(at + round::OFFSET, at + round::LEN);
                if self.word(at + round::LAST).load(Ordering::Relaxed) == rank {
                    Ok(CallOutcome::Perform { number, range })
                } else {
                    Ok(CallOutcome::Performed { number, range })
                }
            }
            kind::DISAGREEMENT => {
                let calls = (0..self.size).map(|rank| self.call_in(number, rank)).collect();
                Err(CollectiveError::Disagreement(Disagreement { calls }))
            }
            kind::WRONG_MODE => Err(CollectiveError::WrongMode { call: self.call_in(number, 0) }),
            kind::RANK_FAILED => {
                let rank = u32::try_from(self.number(at + round::OFFSET)).unwrap_or(u32::MAX);
                Err(CollectiveError::RankFailed { rank, why: self.round_text(at).into() })
            }
            kind::NOT_MEASURED => Err(CollectiveError::NotMeasured { why: self.round_text(at) }),
            _ => Err(CollectiveError::OutOfRange(OutOfRange)),
        }
    }

    /// Says that a rank has read the outcome of a round. Returns true for the last rank: the slot
    /// is free then.
    pub fn acknowledge(&self, number: u64) -> bool {
        let at = self.round(number);
        if self.word(at + round::TAKEN).fetch_add(1, Ordering::AcqRel) + 1 < self.size {
            return false;
        }
        for rank in 0..self.size {
            self.word(self.rank_call(number, rank) + rank_call::KIND).store(0, Ordering::Relaxed);
        }
        for word in [round::ARRIVED, round::PRODUCED, round::PERFORMED, round::TAKEN] {
            self.word(at + word).store(0, Ordering::Relaxed);
        }
        self.word(at + round::IS_DECIDED).store(0, Ordering::Release);
        self.put(at + round::NUMBER, number + Self::ROUND_SLOTS);
        true
    }

    /// Whether the slot of a round is free for it.
    pub fn has_slot_for(&self, number: u64) -> bool {
        self.number(self.round(number) + round::NUMBER) == number
    }

    /// Whether the call of a rank in a round is one that it could not make.
    fn has_failed(&self, number: u64, rank: u32) -> bool {
        self.word(self.rank_call(number, rank) + rank_call::KIND).load(Ordering::Relaxed) == FAILED
    }

    fn is_write(&self, number: u64) -> bool {
        self.word(self.rank_call(number, 0) + rank_call::FLAGS).load(Ordering::Relaxed) & 1 != 0
    }
}
