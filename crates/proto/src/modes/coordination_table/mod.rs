//! A shared file, or a job, whose ranks are all on one machine: what a node would do for them, they
//! do by themselves, in memory that they have in common.
//!
//! The memory is a row of 32-bit words, all zero in the beginning. Whoever holds the *lock* changes
//! it; the lock's holder is told by its rank, so that one who dies with it can be known. What is
//! written last of a decision says that it is there, and is read without the lock. A word says
//! when something has happened; those who wait sleep on it.
//!
//! The node that made it writes into it only who is gone, and that all is over. Whatever else it
//! finds there it shows to people and believes nothing of.
//!
//! Here is arithmetic on words alone: who takes the lock, sleeps and wakes is in the library.

mod broadcast;
mod departures;
mod encoding;
mod last_call;
mod lock;
mod pointer;
mod ranges;
mod rounds;
mod waits;
mod words;

use std::sync::atomic::{AtomicU32, Ordering};

use super::course::Course;
use super::mode::Mode;
use words::{head, member, rank_call, round};

pub use broadcast::BroadcastChunk;
pub use last_call::RecordedCall;
pub use rounds::CallArrival;
pub use waits::TableWait;

const VERSION: u32 = 0x5041_5402;
const ROUNDS: usize = 32;

/// A file that the ranks of a job have open together, in memory that they have in common.
#[derive(Clone, Copy, Debug)]
pub struct CoordinationTable<'w> {
    words: &'w [AtomicU32],
    size: u32,
}

impl<'w> CoordinationTable<'w> {
    /// So many tables lie in the memory of a job: the first is its own, the others are those of files
    /// that it has open.
    pub const TABLES_PER_JOB: u32 = 64;
    /// The largest group.
    pub const RANKS_LIMIT: u32 = 1024;
    /// So many rounds can be under way.
    pub const ROUND_SLOTS: u64 = ROUNDS as u64;
    /// What one rank reads for all goes through the room for bytes in chunks of so many.
    pub const CHUNK_BYTES: usize = 256 << 10;
    /// So many chunks have room.
    pub const CHUNK_SLOTS: u32 = 8;
    /// The room for bytes, behind the words.
    pub const BUFFER_BYTES: usize = Self::CHUNK_BYTES * Self::CHUNK_SLOTS as usize;
    /// The word of the lock: on it sleeps who wants it.
    pub const LOCK_WORD: usize = head::LOCK;
    /// The word of events: on it sleeps who waits for others.
    pub const EVENT_WORD: usize = head::EVENT;
    /// How many sleep on it, or are about to.
    pub const SLEEPERS_WORD: usize = head::SLEEPERS;

    /// How many words a group needs.
    pub fn word_count(size: u32) -> usize {
        let size = size as usize;
        head::WORDS + size * member::WORDS + ROUNDS * (round::WORDS + size * rank_call::WORDS)
    }

    /// Makes a table of words that are zero, for a file that was opened in a mode and has so many
    /// bytes, if that is known. None if there are too few words, or too many ranks.
    pub fn new(words: &'w [AtomicU32], size: u32, mode: Mode, len: Option<u64>) -> Option<Self> {
        let fits = (1..=Self::RANKS_LIMIT).contains(&size) && words.len() >= Self::word_count(size);
        let table = fits.then_some(Self { words, size })?;
        for number in 0..Self::ROUND_SLOTS {
            table.put(table.round(number) + round::NUMBER, number);
        }
        table.set_course(&Course::new(mode, len));
        table.word(head::SIZE).store(size, Ordering::Relaxed);
        table.word(head::VERSION).store(VERSION, Ordering::Release);
        Some(table)
    }

    /// The table that somebody else has made of these words.
    pub fn attach(words: &'w [AtomicU32]) -> Option<Self> {
        let head = words.get(..head::WORDS)?;
        if head[head::VERSION].load(Ordering::Acquire) != VERSION {
            return None;
        }
        let size = head[head::SIZE].load(Ordering::Relaxed);
        let fits = (1..=Self::RANKS_LIMIT).contains(&size) && words.len() >= Self::word_count(size);
        fits.then_some(Self { words, size })
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    fn member(&self, rank: u32) -> usize {
        head::WORDS + rank as usize * member::WORDS
    }

    fn round(&self, number: u64) -> usize {
        let index = (number % Self::ROUND_SLOTS) as usize;
        let size = self.size as usize;
        head::WORDS + size * member::WORDS + index * (round::WORDS + size * rank_call::WORDS)
    }

    fn rank_call(&self, number: u64, rank: u32) -> usize {
        self.round(number) + round::WORDS + rank as usize * rank_call::WORDS
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

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn words(size: u32) -> Vec<AtomicU32> {
        (0..CoordinationTable::word_count(size)).map(|_| AtomicU32::new(0)).collect()
    }

    #[test]
    fn words_that_are_no_table_are_refused() {
        let words = words(3);
        assert!(CoordinationTable::attach(&words).is_none(), "nobody has made one of them");
        assert!(CoordinationTable::new(&words, 4, Mode::Log, None).is_none());
        assert!(CoordinationTable::new(&words, 0, Mode::Log, None).is_none());
        CoordinationTable::new(&words, 3, Mode::Log, None).unwrap();
        assert!(
            CoordinationTable::attach(&words).is_some()
                && CoordinationTable::attach(&words[..100]).is_none()
        );
        words[head::SIZE].store(u32::MAX, Ordering::Relaxed);
        assert!(CoordinationTable::attach(&words).is_none());
    }
}
