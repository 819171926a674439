//! What the processes of a team have in common from the beginning: numbers, locks, and a slot for
//! each of them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pario_net::{MemoryPart, MemoryShape};

use crate::call::{CALL_BYTES, Call};

/// Bytes that a rank can tell the others in one round.
pub const SLOT_BYTES: usize = 64 << 10;
/// Locks of each rank.
pub const LOCKS: usize = 64;

/// Who was lost first: its rank and one more.
const LOST: usize = 0;
/// How often all have met.
const ROUND: usize = 1;
/// How many have come to the next meeting.
const ARRIVED: usize = 2;
/// How many are here.
const HERE: usize = 3;
/// How many have left.
const LEFT: usize = 4;
/// The first number that belongs to a rank: whether it is here, then those of its process.
const OF_RANKS: usize = 16;

const IS_HERE: u32 = 1;
const HAS_LEFT: u32 = 2;

/// Somebody waits for a lock.
const IS_WANTED: u32 = 1 << 31;
/// How long a thread sleeps before it looks whether somebody is lost.
const NAP: Duration = Duration::from_millis(100);
/// How often a thread looks before it sleeps.
const LOOKS: u32 = 200;

/// The board, as one of the ranks sees it.
pub struct Board {
    part: MemoryPart,
    size: u32,
    rank: u32,
}

/// Who the others wait for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It has ended.
    Lost(u32),
    /// It has left.
    Left(u32),
}

/// The board of a team of this size.
pub fn shape(size: u32) -> MemoryShape {
    let ranks = size as usize;
    MemoryShape {
        parts: 1,
        words: OF_RANKS + ranks * (2 + LOCKS),
        bytes: ranks * 2 * (CALL_BYTES + SLOT_BYTES),
    }
}

impl Board {
    /// The board in memory that has its shape.
    pub fn new(part: MemoryPart, size: u32, rank: u32) -> Self {
        Self { part, size, rank }
    }

    fn word(&self, number: usize) -> &AtomicU32 {
        &self.part.words()[number]
    }

    fn state(&self, rank: u32) -> &AtomicU32 {
        self.word(OF_RANKS + rank as usize)
    }

    fn process(&self, rank: u32) -> &AtomicU32 {
        self.word(OF_RANKS + (self.size + rank) as usize)
    }

    /// Whether the process of a rank is still there. Nobody watches any more when rank 0 has left.
    fn is_running(&self, rank: u32) -> bool {
        let process = self.process(rank).load(Ordering::Acquire).cast_signed();
        let process = rustix::process::Pid::from_raw(process);
        process.is_none_or(|process| {
            rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH)
        })
    }

    /// This rank is here.
    pub fn come(&self) {
        let process = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        self.process(self.rank).store(process, Ordering::Release);
        self.state(self.rank).store(IS_HERE, Ordering::Release);
        self.part.raise(HERE);
    }

    /// Waits until all are here; otherwise who is not.
    pub fn wait_for_all(&self, until: Instant) -> Result<(), Vec<usize>> {
        loop {
            let here = self.word(HERE).load(Ordering::Acquire);
            if here >= self.size {
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.missing().is_some() {
                let is_absent = |rank: &u32| self.state(*rank).load(Ordering::Acquire) == 0;
                return Err((0..self.size).filter(is_absent).map(|rank| rank as usize).collect());
            }
            self.part.sleep(HERE, here, left.min(NAP));
        }
    }

    /// This rank leaves.
    pub fn leave(&self) {
        self.state(self.rank).store(HAS_LEFT, Ordering::Release);
        self.word(LEFT).fetch_add(1, Ordering::AcqRel);
        self.part.wake(ROUND, i32::MAX.unsigned_abs());
    }

    /// Whether a rank has left.
    pub fn has_left(&self, rank: u32) -> bool {
        self.state(rank).load(Ordering::Acquire) == HAS_LEFT
    }

    /// Whether this rank has left.
    pub fn have_i_left(&self) -> bool {
        self.has_left(self.rank)
    }

    /// A rank has ended without leaving.
    pub fn lose(&self, rank: u32) {
        let first =
            self.word(LOST).compare_exchange(0, rank + 1, Ordering::AcqRel, Ordering::Acquire);
        if first.is_ok() {
            self.part.wake(ROUND, i32::MAX.unsigned_abs());
        }
    }

    /// Who was lost.
    pub fn lost(&self) -> Option<u32> {
        self.word(LOST).load(Ordering::Acquire).checked_sub(1)
    }

    /// Who would be waited for in vain.
    fn missing(&self) -> Option<Missing> {
        if let Some(rank) = self.lost() {
            return Some(Missing::Lost(rank));
        }
        if self.word(LEFT).load(Ordering::Acquire) == 0 {
            return None;
        }
        (0..self.size).find(|rank| self.has_left(*rank)).map(Missing::Left)
    }

    /// Meets all others, and says which round that was.
    pub fn meet(&self) -> Result<u32, Missing> {
        let round = self.word(ROUND).load(Ordering::Acquire);
        if self.word(ARRIVED).fetch_add(1, Ordering::AcqRel) + 1 == self.size {
            self.word(ARRIVED).store(0, Ordering::Release);
            self.part.raise(ROUND);
            return Ok(round);
        }
        let mut looks = 0;
        loop {
            if self.word(ROUND).load(Ordering::Acquire) != round {
                return Ok(round);
            }
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            if let Some(missing) = self.missing() {
                // It may have gone when all had met.
                let is_over = self.word(ROUND).load(Ordering::Acquire) != round;
                return if is_over { Ok(round) } else { Err(missing) };
            }
            self.part.sleep(ROUND, round, NAP);
        }
    }

    /// The number of the next round.
    pub fn next_round(&self) -> u32 {
        self.word(ROUND).load(Ordering::Acquire)
    }

    fn slot(&self, round: u32, rank: u32) -> usize {
        let number = (round & 1) * self.size + rank;
        number as usize * (CALL_BYTES + SLOT_BYTES)
    }

    /// Writes what this rank calls in a round, and what it tells.
    pub fn write(&self, round: u32, call: Call, bytes: &[u8]) {
        let slot = self.slot(round, self.rank);
        self.part.put(slot, &call.to_bytes());
        self.part.put(slot + CALL_BYTES, bytes);
    }

    /// What a rank has called in a round.
    pub fn call(&self, round: u32, rank: u32) -> Call {
        let mut bytes = [0; CALL_BYTES];
        self.part.get(self.slot(round, rank), &mut bytes);
        Call::of_bytes(&bytes)
    }

    /// What a rank has told in a round.
    pub fn read(&self, round: u32, rank: u32, bytes: &mut [u8]) {
        self.part.get(self.slot(round, rank) + CALL_BYTES, bytes);
    }

    /// The lock of a rank with this number.
    pub fn lock_of(&self, rank: u32, number: usize) -> Lock<'_> {
        let word = OF_RANKS + self.size as usize * 2 + rank as usize * LOCKS + number % LOCKS;
        Lock { part: &self.part, word, board: self }
    }

    /// A lock that is elsewhere.
    pub fn lock_in<'a>(&'a self, part: &'a MemoryPart, word: usize) -> Lock<'a> {
        Lock { part, word, board: self }
    }
}

/// A lock that processes have in common: a number that is zero, or says who has it.
pub struct Lock<'a> {
    part: &'a MemoryPart,
    word: usize,
    board: &'a Board,
}

impl Lock<'_> {
    fn word(&self) -> &AtomicU32 {
        &self.part.words()[self.word]
    }

    /// Takes it; otherwise who has it and is lost.
    pub fn lock(&self) -> Result<(), Missing> {
        let mut mine = self.board.rank + 1;
        let mut looks = 0;
        loop {
            let taken =
                self.word().compare_exchange_weak(0, mine, Ordering::Acquire, Ordering::Relaxed);
            let Err(seen) = taken else { return Ok(()) };
            looks += 1;
            if seen == 0 || looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            let wanted = seen | IS_WANTED;
            if seen != wanted {
                let order = (Ordering::Relaxed, Ordering::Relaxed);
                if self.word().compare_exchange(seen, wanted, order.0, order.1).is_err() {
                    continue;
                }
            }
            // Others may sleep as well: who takes it now wakes the next one.
            mine |= IS_WANTED;
            let owner = (seen & !IS_WANTED) - 1;
            let has_left = self.board.has_left(owner);
            let is_gone = has_left || !self.board.is_running(owner);
            if is_gone && self.word().load(Ordering::Acquire) == wanted {
                return Err(if has_left { Missing::Left(owner) } else { Missing::Lost(owner) });
            }
            self.part.sleep(self.word, wanted, NAP);
        }
    }

    /// Gives it back; false if it is not this rank that has it.
    pub fn unlock(&self) -> bool {
        let seen = self.word().load(Ordering::Relaxed);
        if seen & !IS_WANTED != self.board.rank + 1 {
            return false;
        }
        if self.word().swap(0, Ordering::Release) & IS_WANTED != 0 {
            self.part.wake(self.word, 1);
        }
        true
    }
}
