//! A shared file, or a job, whose ranks are all on one machine: what a node would do for them, they
//! do by themselves, in memory that they have in common.
//!
//! The memory is a row of 32-bit words, all zero in the beginning. Whoever holds the *lock* changes
//! it; the lock's holder is told by its rank, so that one who dies with it can be known. What is
//! written last of a decision says that it is there, and is read without the lock. A word says
//! when something has happened; those who wait sleep on it.
//!
//! The node that made it writes into it only who is gone, and that all is over. Whatever else it finds there it shows to
//! people and believes nothing of.
//!
//! Here is arithmetic on words alone: who takes the lock, sleeps and wakes is in the library.

use std::sync::atomic::{AtomicU32, Ordering};

use super::call::{Call, Disagreement, Outcome};
use super::course::{Course, Decision};
use super::mode::Mode;
use super::position::{OutOfRange, Placement, Position, Seek, Transfer};
use super::trouble::Trouble;

const VERSION: u32 = 0x5041_5401;

/// Words at the beginning.
mod head {
    pub const VERSION: usize = 0;
    pub const SIZE: usize = 1;
    pub const LOCK: usize = 2;
    pub const EVENT: usize = 3;
    pub const SLEEPERS: usize = 4;
    pub const BROKEN: usize = 5;
    pub const LOST: usize = 6;
    pub const NOTICED: usize = 7;
    pub const MODE: usize = 8;
    pub const IS_MEASURED: usize = 9;
    pub const OFFSET: usize = 10;
    pub const END: usize = 12;
    pub const FIRST: usize = 14;
    pub const TICKETS: usize = 16;
    pub const CHUNKS: usize = 18;
    /// Written by the node alone.
    pub const IS_RESET: usize = 19;
    pub const WORDS: usize = 32;
}

/// Words of a rank.
mod seat {
    /// Written by the node alone.
    pub const IS_LOST: usize = 0;
    pub const IS_CLOSED: usize = 1;
    pub const CONSUMED: usize = 2;
    pub const TICKET: usize = 4;
    pub const FROM: usize = 6;
    pub const TO: usize = 8;
    pub const IS_WRITE: usize = 10;
    pub const WORDS: usize = 16;
}

/// Words of a round.
mod round {
    pub const NUMBER: usize = 0;
    pub const ARRIVED: usize = 2;
    pub const LAST: usize = 3;
    pub const IS_DECIDED: usize = 4;
    pub const KIND: usize = 5;
    pub const OFFSET: usize = 6;
    pub const LEN: usize = 8;
    pub const FIRST_CHUNK: usize = 10;
    pub const PRODUCED: usize = 11;
    pub const PERFORMED: usize = 12;
    pub const PERFORMED_LEN: usize = 14;
    pub const SINCE_MS: usize = 16;
    pub const TAKEN: usize = 18;
    pub const TEXT_BYTES: usize = 19;
    pub const TEXT: usize = 20;
    pub const TEXT_WORDS: usize = 64;
    pub const WORDS: usize = TEXT + TEXT_WORDS;
}

/// Words of a call of one rank in a round.
mod called {
    pub const KIND: usize = 0;
    pub const FLAGS: usize = 1;
    pub const VALUE: usize = 2;
    pub const OFFSET: usize = 4;
    pub const LEN: usize = 6;
    pub const WORDS: usize = 8;
}

/// What came of a round, as a number.
mod kind {
    pub const DONE: u32 = 0;
    pub const AT: u32 = 1;
    pub const PLACES: u32 = 2;
    pub const ONCE: u32 = 3;
    pub const DISAGREEMENT: u32 = 4;
    pub const WRONG_MODE: u32 = 5;
    pub const OUT_OF_RANGE: u32 = 6;
    pub const NOT_MEASURED: u32 = 7;
}

const ROUNDS: usize = 32;
const GONE: u32 = 1;
const CLOSED: u32 = 2;
/// In the word of the lock: somebody sleeps.
const IS_WANTED: u32 = 1 << 31;

/// A file that the ranks of a job have open together, in memory that they have in common.
#[derive(Clone, Copy, Debug)]
pub struct Table<'w> {
    words: &'w [AtomicU32],
    size: u32,
}

/// What became of a call in which all meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// So many rounds are under way that it must be called again, when something has happened.
    Early,
    /// It counts.
    Counted,
}

/// A part of what one rank reads for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its number among all chunks of the file.
    pub number: u32,
    /// Its place in the room for bytes.
    pub place: usize,
    /// Where it begins in what is read.
    pub from: u64,
    /// Bytes.
    pub len: usize,
}

/// How a table stands, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The number of a round that is not decided.
    pub number: u64,
    /// Who has called what.
    pub arrived: Vec<(u32, Call)>,
    /// Who has not.
    pub missing: Vec<u32>,
    /// Since when the first of them waits, by the clock of the machine.
    pub since_ms: u64,
    /// Whether all have called, and the one that is missing does it for all.
    pub is_performed: bool,
}

impl<'w> Table<'w> {
    /// The largest group.
    pub const RANKS_LIMIT: u32 = 1024;
    /// So many rounds can be under way.
    pub const DEPTH: u64 = ROUNDS as u64;
    /// What one rank reads for all goes through the room for bytes in chunks of so many.
    pub const CHUNK_BYTES: usize = 256 << 10;
    /// So many chunks have room.
    pub const CHUNKS: u32 = 8;
    /// The room for bytes, behind the words.
    pub const ROOM_BYTES: usize = Self::CHUNK_BYTES * Self::CHUNKS as usize;
    /// The word of the lock: on it sleeps who wants it.
    pub const LOCK: usize = head::LOCK;
    /// The word of events: on it sleeps who waits for others.
    pub const EVENT: usize = head::EVENT;
    /// How many sleep on it, or are about to.
    pub const SLEEPERS: usize = head::SLEEPERS;

    /// How many words a group needs.
    pub fn words_of(size: u32) -> usize {
        let size = size as usize;
        head::WORDS + size * seat::WORDS + ROUNDS * (round::WORDS + size * called::WORDS)
    }

    /// Makes a table of words that are zero, for a file that was opened in a mode and has so many
    /// bytes, if that is known. None if there are too few words, or too many ranks.
    pub fn new(words: &'w [AtomicU32], size: u32, mode: Mode, len: Option<u64>) -> Option<Self> {
        let fits = (1..=Self::RANKS_LIMIT).contains(&size) && words.len() >= Self::words_of(size);
        let table = fits.then_some(Self { words, size })?;
        for number in 0..Self::DEPTH {
            table.put(table.round(number) + round::NUMBER, number);
        }
        table.set_course(&Course::new(mode, len));
        table.word(head::SIZE).store(size, Ordering::Relaxed);
        table.word(head::VERSION).store(VERSION, Ordering::Release);
        Some(table)
    }

    /// The table that somebody else has made of these words.
    pub fn of(words: &'w [AtomicU32]) -> Option<Self> {
        let head = words.get(..head::WORDS)?;
        if head[head::VERSION].load(Ordering::Acquire) != VERSION {
            return None;
        }
        let size = head[head::SIZE].load(Ordering::Relaxed);
        let fits = (1..=Self::RANKS_LIMIT).contains(&size) && words.len() >= Self::words_of(size);
        fits.then_some(Self { words, size })
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    // The lock.

    /// Takes the lock for a rank, unless somebody has it. With `is_contended`, who lets go of it
    /// wakes another one.
    pub fn try_lock(&self, rank: u32, is_contended: bool) -> bool {
        let owner = (rank + 1) | if is_contended { IS_WANTED } else { 0 };
        let lock = self.word(head::LOCK);
        lock.compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Says that somebody wants the lock; what to sleep on, if it is taken.
    pub fn want_lock(&self) -> Option<u32> {
        let lock = self.word(head::LOCK);
        let seen = lock.load(Ordering::Relaxed);
        if seen == 0 {
            return None;
        }
        let wanted = seen | IS_WANTED;
        let is_said = seen == wanted
            || lock.compare_exchange(seen, wanted, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        is_said.then_some(wanted)
    }

    /// Lets go of the lock; whether somebody is to be woken.
    pub fn unlock(&self) -> bool {
        self.word(head::LOCK).swap(0, Ordering::Release) & IS_WANTED != 0
    }

    /// Takes the lock away from a rank that is gone, for good: what it has left behind nobody can
    /// trust. Whoever waits for the lock calls this from time to time.
    pub fn bury(&self) -> Result<(), Trouble> {
        let lock = self.word(head::LOCK);
        let seen = lock.load(Ordering::Acquire);
        let Some(rank) = (seen & !IS_WANTED).checked_sub(1).filter(|rank| *rank < self.size) else {
            return Ok(());
        };
        if self.word(self.seat(rank) + seat::IS_LOST).load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        Err(Trouble::Gone { rank })
    }

    /// Says that something has happened; whether somebody sleeps because of it.
    pub fn happened(&self) -> bool {
        self.word(head::EVENT).fetch_add(1, Ordering::SeqCst);
        self.word(head::SLEEPERS).load(Ordering::SeqCst) > 0
    }

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
                self.put_text(at, &why);
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

    /// A rank reads or writes where the shared pointer is, and waits for nobody.
    pub fn transfer(
        &self,
        transfer: Transfer,
        measure: impl FnOnce() -> Result<u64, String>,
    ) -> Result<Placement, Trouble> {
        self.change(|course| course.is_unsure_of(transfer), measure, |c| c.transfer(transfer))
    }

    /// A rank moves the shared pointer, and waits for nobody.
    pub fn seek(
        &self,
        seek: Seek,
        measure: impl FnOnce() -> Result<u64, String>,
    ) -> Result<u64, Trouble> {
        self.change(|_| Course::is_unsure_of_seek(seek), measure, |course| course.seek(seek))
    }

    fn change<R>(
        &self,
        is_unsure: impl FnOnce(&Course) -> bool,
        measure: impl FnOnce() -> Result<u64, String>,
        change: impl FnOnce(&mut Course) -> Result<R, Trouble>,
    ) -> Result<R, Trouble> {
        let mut course = self.course();
        if is_unsure(&course) {
            course.measured(measure().map_err(|why| Trouble::NotMeasured { why })?);
        }
        let changed = change(&mut course);
        self.set_course(&course);
        changed
    }

    /// Where the shared pointer is.
    pub fn offset(&self) -> u64 {
        self.number(head::OFFSET)
    }

    /// Whether a rank may close the file, and wait for nobody.
    pub fn may_close(&self) -> Result<(), Trouble> {
        self.course().close()
    }

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
            kind::NOT_MEASURED => Err(Trouble::NotMeasured { why: self.text(at) }),
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

    /// How often something has happened.
    pub fn events(&self) -> u32 {
        self.word(head::EVENT).load(Ordering::SeqCst)
    }

    /// The chunks of what is read for all in a round.
    pub fn chunks(&self, number: u64, len: u64) -> impl Iterator<Item = Chunk> + use<> {
        let first = self.word(self.round(number) + round::FIRST_CHUNK).load(Ordering::Relaxed);
        (0..chunks_of(len)).map(move |index| {
            let from = u64::from(index) * Self::CHUNK_BYTES as u64;
            let len = (len - from).min(Self::CHUNK_BYTES as u64);
            let number = first.wrapping_add(index);
            let place = (number % Self::CHUNKS) as usize * Self::CHUNK_BYTES;
            #[expect(clippy::cast_possible_truncation, reason = "a chunk is small")]
            let len = len as usize;
            Chunk { number, place, from, len }
        })
    }

    /// Whether nobody needs any more what was in the place of a chunk.
    pub fn can_produce(&self, chunk: Chunk) -> bool {
        (0..self.size).all(|rank| {
            let load = |word: usize| self.word(self.seat(rank) + word).load(Ordering::Acquire);
            let has_left = load(seat::IS_LOST) != 0 || load(seat::IS_CLOSED) != 0;
            chunk.number.wrapping_sub(load(seat::CONSUMED)) < Self::CHUNKS || has_left
        })
    }

    /// A chunk of a round is in its place.
    pub fn produced(&self, number: u64) {
        self.word(self.round(number) + round::PRODUCED).fetch_add(1, Ordering::Release);
    }

    /// How many chunks of a round are in their places.
    pub fn produced_of(&self, number: u64) -> u32 {
        self.word(self.round(number) + round::PRODUCED).load(Ordering::Acquire)
    }

    /// A rank needs no chunk before this one any more.
    pub fn consumed(&self, rank: u32, chunk: u32) {
        self.word(self.seat(rank) + seat::CONSUMED).store(chunk, Ordering::Release);
    }

    /// The first chunk after those of a round.
    pub fn chunks_end(&self, number: u64, len: u64) -> u32 {
        let first = self.word(self.round(number) + round::FIRST_CHUNK).load(Ordering::Relaxed);
        first.wrapping_add(chunks_of(len))
    }

    /// What one rank did for all is done, or could not be.
    pub fn perform(&self, number: u64, done: &Result<u64, String>) {
        let at = self.round(number);
        let how = match done {
            Ok(len) => {
                self.put(at + round::PERFORMED_LEN, *len);
                1
            }
            Err(why) => {
                self.put_text(at, why);
                2
            }
        };
        self.word(at + round::PERFORMED).store(how, Ordering::Release);
    }

    /// What came of what one rank does for all, if that is known: how many bytes.
    pub fn performed(&self, number: u64) -> Option<Result<u64, Trouble>> {
        let at = self.round(number);
        let rank = self.word(at + round::LAST).load(Ordering::Relaxed);
        match self.word(at + round::PERFORMED).load(Ordering::Acquire) {
            0 => self.is_lost(rank).then_some(Err(Trouble::Gone { rank })),
            1 => Some(Ok(self.number(at + round::PERFORMED_LEN))),
            _ => Some(Err(Trouble::NotPerformed { rank, why: self.text(at) })),
        }
    }

    /// Whether the process of a rank is gone.
    pub fn is_lost(&self, rank: u32) -> bool {
        self.word(self.seat(rank) + seat::IS_LOST).load(Ordering::Acquire) != 0
    }

    /// Who waits for whom, oldest first, as far as can be seen while it changes.
    pub fn standings(&self) -> Vec<Standing> {
        let first = self.number(head::FIRST);
        let numbers = first.saturating_sub(Self::DEPTH)..first.saturating_add(Self::DEPTH);
        let begun = numbers.filter(|number| self.has_room_for(*number));
        begun.filter_map(|number| self.standing(number)).collect()
    }

    fn standing(&self, number: u64) -> Option<Standing> {
        let at = self.round(number);
        let load = |word: usize| self.word(at + word).load(Ordering::Acquire);
        let is_performed = load(round::IS_DECIDED) != 0;
        if is_performed && (load(round::KIND) != kind::ONCE || load(round::PERFORMED) != 0) {
            return None;
        }
        let last = load(round::LAST);
        let kind = |rank| self.word(self.called(number, rank)).load(Ordering::Relaxed);
        let waits = |rank: &u32| if is_performed { *rank != last } else { kind(*rank) != 0 };
        let (arrived, missing): (Vec<u32>, Vec<u32>) = (0..self.size).partition(waits);
        let arrived: Vec<(u32, Call)> =
            arrived.into_iter().map(|rank| (rank, self.call_of(number, rank))).collect();
        let since_ms = self.number(at + round::SINCE_MS);
        let is_begun = !arrived.is_empty() && !missing.is_empty();
        is_begun.then_some(Standing { number, arrived, missing, since_ms, is_performed })
    }

    /// Where the shared pointer is, in modes that have one, as far as can be seen while it changes.
    pub fn shared_offset(&self) -> Option<u64> {
        self.course().shared_offset()
    }

    /// The mode, as far as can be seen while it changes.
    pub fn mode(&self) -> Mode {
        let mode = self.word(head::MODE).load(Ordering::Relaxed);
        u8::try_from(mode).ok().and_then(Mode::from_number).unwrap_or_default()
    }

    fn course(&self) -> Course {
        Course {
            mode: self.mode(),
            position: Position { offset: self.number(head::OFFSET), end: self.number(head::END) },
            is_measured: self.word(head::IS_MEASURED).load(Ordering::Relaxed) != 0,
        }
    }

    fn set_course(&self, course: &Course) {
        self.word(head::MODE).store(course.mode.number().into(), Ordering::Relaxed);
        self.put(head::OFFSET, course.position.offset);
        self.put(head::END, course.position.end);
        self.word(head::IS_MEASURED).store(course.is_measured.into(), Ordering::Relaxed);
    }

    fn is_write(&self, number: u64) -> bool {
        self.word(self.called(number, 0) + called::FLAGS).load(Ordering::Relaxed) & 1 != 0
    }

    fn call_of(&self, number: u64, rank: u32) -> Call {
        let at = self.called(number, rank);
        decode(
            self.word(at + called::KIND).load(Ordering::Relaxed),
            self.word(at + called::FLAGS).load(Ordering::Relaxed),
            self.number(at + called::VALUE),
        )
    }

    fn put_text(&self, at: usize, text: &str) {
        let bytes = text.as_bytes();
        let mut len = bytes.len().min(4 * round::TEXT_WORDS);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        for (index, four) in bytes[..len].chunks(4).enumerate() {
            let mut word = [0; 4];
            word[..four.len()].copy_from_slice(four);
            let place = self.word(at + round::TEXT + index);
            place.store(u32::from_le_bytes(word), Ordering::Relaxed);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 256")]
        self.word(at + round::TEXT_BYTES).store(len as u32, Ordering::Relaxed);
    }

    fn text(&self, at: usize) -> String {
        let len = self.word(at + round::TEXT_BYTES).load(Ordering::Relaxed) as usize;
        let words = (0..round::TEXT_WORDS).flat_map(|index| {
            self.word(at + round::TEXT + index).load(Ordering::Relaxed).to_le_bytes()
        });
        String::from_utf8_lossy(&words.take(len).collect::<Vec<u8>>()).into_owned()
    }

    fn seat(&self, rank: u32) -> usize {
        head::WORDS + rank as usize * seat::WORDS
    }

    fn round(&self, number: u64) -> usize {
        let index = (number % Self::DEPTH) as usize;
        let size = self.size as usize;
        head::WORDS + size * seat::WORDS + index * (round::WORDS + size * called::WORDS)
    }

    fn called(&self, number: u64, rank: u32) -> usize {
        self.round(number) + round::WORDS + rank as usize * called::WORDS
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        &self.words[index]
    }

    fn number(&self, index: usize) -> u64 {
        let low = self.word(index).load(Ordering::Relaxed);
        let high = self.word(index + 1).load(Ordering::Relaxed);
        u64::from(high) << 32 | u64::from(low)
    }

    #[expect(clippy::cast_possible_truncation, reason = "in two halves")]
    fn put(&self, index: usize, number: u64) {
        self.word(index).store(number as u32, Ordering::Relaxed);
        self.word(index + 1).store((number >> 32) as u32, Ordering::Relaxed);
    }
}

/// How many chunks so many bytes need.
fn chunks_of(len: u64) -> u32 {
    u32::try_from(len.div_ceil(Table::CHUNK_BYTES as u64)).unwrap_or(u32::MAX)
}

fn encode(call: &Call) -> (u32, u32, u64) {
    match call {
        Call::Transfer(Transfer { is_write, len, is_append }) => {
            (1, u32::from(*is_write) | u32::from(*is_append) << 1, *len)
        }
        Call::Seek(Seek::Start(offset)) => (2, 0, *offset),
        Call::Seek(Seek::Current(distance)) => (3, 0, distance.cast_unsigned()),
        Call::Seek(Seek::End(distance)) => (4, 0, distance.cast_unsigned()),
        Call::SetMode(mode) => (5, mode.number().into(), 0),
        Call::Close => (6, 0, 0),
        Call::Barrier => (7, 0, 0),
        Call::Open(what) => (8, 0, digest(what)),
    }
}

fn decode(kind: u32, flags: u32, value: u64) -> Call {
    match kind {
        1 => Call::Transfer(Transfer {
            is_write: flags & 1 != 0,
            len: value,
            is_append: flags & 2 != 0,
        }),
        2 => Call::Seek(Seek::Start(value)),
        3 => Call::Seek(Seek::Current(value.cast_signed())),
        4 => Call::Seek(Seek::End(value.cast_signed())),
        5 => {
            let mode = u8::try_from(flags).ok().and_then(Mode::from_number);
            Call::SetMode(mode.unwrap_or_default())
        }
        6 => Call::Close,
        // What it was is not here, only whether it was the same.
        8 => Call::Open(format!("{value:016x}")),
        _ => Call::Barrier,
    }
}

/// A number that is another one for another text, as good as always.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |digest: u64, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(size: u32) -> Vec<AtomicU32> {
        (0..Table::words_of(size)).map(|_| AtomicU32::new(0)).collect()
    }

    #[test]
    fn who_dies_with_the_lock_is_named_and_nobody_gets_it() {
        let words = words(2);
        let table = Table::new(&words, 2, Mode::Log, None).unwrap();
        assert!(table.try_lock(1, false) && !table.try_lock(0, false));
        assert_eq!(table.bury(), Ok(()), "it is at work");
        let seen = table.want_lock().unwrap();
        assert_eq!(table.want_lock(), Some(seen));
        assert!(table.unlock(), "somebody sleeps");
        assert!(table.want_lock().is_none() && table.try_lock(1, true) && table.unlock());
        assert!(table.try_lock(1, false));
        table.lose(1);
        assert_eq!(table.bury(), Err(Trouble::Gone { rank: 1 }));
        assert!(!table.try_lock(0, false));
    }

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

    #[test]
    fn words_that_are_no_table_are_refused() {
        let words = words(3);
        assert!(Table::of(&words).is_none(), "nobody has made one of them");
        assert!(Table::new(&words, 4, Mode::Log, None).is_none());
        assert!(Table::new(&words, 0, Mode::Log, None).is_none());
        Table::new(&words, 3, Mode::Log, None).unwrap();
        assert!(Table::of(&words).is_some() && Table::of(&words[..100]).is_none());
        words[head::SIZE].store(u32::MAX, Ordering::Relaxed);
        assert!(Table::of(&words).is_none());
    }

    /// Whatever is in the words, looking at them for people does not fail.
    #[test]
    fn nonsense_in_the_words_harms_nobody() {
        let words = words(3);
        let table = Table::new(&words, 3, Mode::Log, None).unwrap();
        for word in &words[head::MODE..] {
            word.store(u32::MAX, Ordering::Relaxed);
        }
        let _ = (table.standings(), table.mode(), table.offset(), table.outcome(1, 7));
        table.put(head::FIRST, 3);
        table.put(table.round(3), 3);
        table.word(table.round(3) + round::IS_DECIDED).store(0, Ordering::Relaxed);
        table.word(table.called(3, 1)).store(0, Ordering::Relaxed);
        let standings = table.standings();
        assert_eq!((standings.len(), &standings[0].missing[..]), (1, &[1][..]));
        table.lose(7);
    }
}
