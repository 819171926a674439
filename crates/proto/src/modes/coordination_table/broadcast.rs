//! What one rank does for all ranks: it broadcasts the bytes that it reads through the buffer of
//! the table, in chunks. Nothing here needs the lock.

use std::sync::atomic::Ordering;

use super::CoordinationTable;
use super::words::{member, round};
use crate::modes::collective_error::CollectiveError;

/// A part of the bytes that one rank reads for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BroadcastChunk {
    /// Its number among all chunks of the file, modulo 2^32.
    pub number: u32,
    /// Its offset in the buffer of the table.
    pub buffer_offset: usize,
    /// Its offset in the bytes that are read.
    pub offset: u64,
    /// Its length in bytes.
    pub len: usize,
}

impl CoordinationTable<'_> {
    /// The chunks of a broadcast of `len` bytes in a round.
    pub fn chunks(&self, number: u64, len: u64) -> impl Iterator<Item = BroadcastChunk> + use<> {
        let first = self.word(self.round(number) + round::FIRST_CHUNK).load(Ordering::Relaxed);
        (0..chunk_count(len)).map(move |index| {
            let offset = u64::from(index) * Self::CHUNK_BYTES as u64;
            let len = (len - offset).min(Self::CHUNK_BYTES as u64);
            let number = first.wrapping_add(index);
            let buffer_offset = (number % Self::CHUNK_SLOTS) as usize * Self::CHUNK_BYTES;
            #[expect(clippy::cast_possible_truncation, reason = "a chunk is small")]
            let len = len as usize;
            BroadcastChunk { number, buffer_offset, offset, len }
        })
    }

    /// Whether every rank has consumed the chunk that used this part of the buffer before.
    pub fn can_produce(&self, chunk: BroadcastChunk) -> bool {
        (0..self.size).all(|rank| {
            let load = |word: usize| self.word(self.member(rank) + word).load(Ordering::Acquire);
            let has_left = load(member::IS_LOST) != 0 || load(member::IS_CLOSED) != 0;
            chunk.number.wrapping_sub(load(member::CONSUMED)) < Self::CHUNK_SLOTS || has_left
        })
    }

    /// Says that the next chunk of a round is in the buffer.
    pub fn mark_produced(&self, number: u64) {
        self.word(self.round(number) + round::PRODUCED).fetch_add(1, Ordering::Release);
    }

    /// The number of chunks of a round that are in the buffer.
    pub fn produced_count(&self, number: u64) -> u32 {
        self.word(self.round(number) + round::PRODUCED).load(Ordering::Acquire)
    }

    /// Says that a rank has consumed all chunks before this one.
    pub fn mark_consumed(&self, rank: u32, chunk: u32) {
        self.word(self.member(rank) + member::CONSUMED).store(chunk, Ordering::Release);
    }

    /// The number of the first chunk after those of a round.
    pub fn chunks_end(&self, number: u64, len: u64) -> u32 {
        let first = self.word(self.round(number) + round::FIRST_CHUNK).load(Ordering::Relaxed);
        first.wrapping_add(chunk_count(len))
    }

    /// Stores the result of the access that this rank performed for all.
    pub fn finish_perform(&self, number: u64, done: &Result<u64, String>) {
        let at = self.round(number);
        let state = match done {
            Ok(len) => {
                self.put(at + round::PERFORMED_LEN, *len);
                1
            }
            Err(why) => {
                self.put_round_text(at, why);
                2
            }
        };
        self.word(at + round::PERFORMED).store(state, Ordering::Release);
    }

    /// The result of the access that one rank performs for all, once it is known: the number of
    /// bytes.
    pub fn performed(&self, number: u64) -> Option<Result<u64, CollectiveError>> {
        let at = self.round(number);
        let rank = self.word(at + round::LAST).load(Ordering::Relaxed);
        match self.word(at + round::PERFORMED).load(Ordering::Acquire) {
            0 => self.is_lost(rank).then_some(Err(CollectiveError::Gone { rank })),
            1 => Some(Ok(self.number(at + round::PERFORMED_LEN))),
            _ => Some(Err(CollectiveError::NotPerformed { rank, why: self.round_text(at) })),
        }
    }
}

/// The number of chunks of `len` bytes.
pub(super) fn chunk_count(len: u64) -> u32 {
    u32::try_from(len.div_ceil(CoordinationTable::CHUNK_BYTES as u64)).unwrap_or(u32::MAX)
}
