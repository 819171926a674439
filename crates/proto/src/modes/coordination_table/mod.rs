//! The coordination table: the course and the rounds of one shared file, or of a job, in shared
//! memory. The ranks decide their rounds themselves when all of them run on the node's machine.
//!
//! The memory is an array of 32-bit words, zero at first. The rank that holds the *lock* changes
//! it. The last word written of a decision publishes it, and ranks read it without the lock. Ranks
//! that wait sleep until the *change word* counts a change.
//!
//! The node that created the table writes only which ranks are lost, and that the table is reset.
//! It shows the rest to users, and trusts none of it.
//!
//! This module is arithmetic on words. It only reserves the words of the lock and of changes:
//! `pario_net::OwnerLock` and `pario_net::ChangeWord` use them.

mod broadcast;
mod departures;
mod encoding;
mod last_call;
mod pointer;
mod private_state;
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
pub use private_state::RecordedRequest;
pub use rounds::CallArrival;
pub use waits::TableWait;

const VERSION: u32 = 0x5041_5404;
const ROUNDS: usize = 32;

/// The course and the rounds of one shared file or job, in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct CoordinationTable<'w> {
    words: &'w [AtomicU32],
    size: u32,
}

impl<'w> CoordinationTable<'w> {
    /// Tables in the memory of a job: the first is that of the job, the others are those of its
    /// open files.
    pub const TABLES_PER_JOB: u32 = 64;
    /// The largest number of ranks.
    pub const RANKS_LIMIT: u32 = 1024;
    /// Rounds that can be under way at once.
    pub const ROUND_SLOTS: u64 = ROUNDS as u64;
    /// The size of a chunk of a broadcast.
    pub const CHUNK_BYTES: usize = 256 << 10;
    /// Chunks that fit into the buffer.
    pub const CHUNK_SLOTS: u32 = 8;
    /// The size of the buffer behind the words.
    pub const BUFFER_BYTES: usize = Self::CHUNK_BYTES * Self::CHUNK_SLOTS as usize;
    /// The index of the lock word, whose owners are ranks.
    pub const LOCK_WORD: usize = head::LOCK;
    /// The index of the two words by which ranks wait for changes.
    pub const CHANGE_WORD: usize = head::CHANGES;

    /// The number of words of a table for `size` ranks.
    pub fn word_count(size: u32) -> usize {
        let size = size as usize;
        head::WORDS + size * member::WORDS + ROUNDS * (round::WORDS + size * rank_call::WORDS)
    }

    /// Initialises a table in words that are zero, for a file in a mode and with a length, if that
    /// is known. Returns `None` if there are too few words or too many ranks.
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

    /// Returns the table that was initialised in these words; `None` if there is none.
    pub fn attach(words: &'w [AtomicU32]) -> Option<Self> {
        let head = words.get(..head::WORDS)?;
        if head[head::VERSION].load(Ordering::Acquire) != VERSION {
            return None;
        }
        let size = head[head::SIZE].load(Ordering::Relaxed);
        let fits = (1..=Self::RANKS_LIMIT).contains(&size) && words.len() >= Self::word_count(size);
        fits.then_some(Self { words, size })
    }

    /// The number of ranks.
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
        assert!(CoordinationTable::attach(&words).is_none(), "no table is in them");
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
