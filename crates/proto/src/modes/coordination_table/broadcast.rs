//! What one rank does for all: it goes to them in chunks, through the room for bytes. None of it
//! needs the lock.

use std::sync::atomic::Ordering;

use super::CoordinationTable;
use super::words::{member, round};
use crate::modes::collective_error::CollectiveError;

/// A part of what one rank reads for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BroadcastChunk {
    /// Its number among all chunks of the file.
    pub number: u32,
    /// Its place in the room for bytes.
    pub buffer_offset: usize,
    /// Where it begins in what is read.
    pub offset: u64,
    /// Bytes.
    pub len: usize,
}

impl CoordinationTable<'_> {
    /// The chunks of what is read for all in a round.
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

    /// Whether nobody needs any more what was in the place of a chunk.
    pub fn can_produce(&self, chunk: BroadcastChunk) -> bool {
        (0..self.size).all(|rank| {
            let load = |word: usize| self.word(self.member(rank) + word).load(Ordering::Acquire);
            let has_left = load(member::IS_LOST) != 0 || load(member::IS_CLOSED) != 0;
            chunk.number.wrapping_sub(load(member::CONSUMED)) < Self::CHUNK_SLOTS || has_left
        })
    }

    /// A chunk of a round is in its place.
    pub fn mark_produced(&self, number: u64) {
        self.word(self.round(number) + round::PRODUCED).fetch_add(1, Ordering::Release);
    }

    /// How many chunks of a round are in their places.
    pub fn produced_count(&self, number: u64) -> u32 {
        self.word(self.round(number) + round::PRODUCED).load(Ordering::Acquire)
    }

    /// A rank needs no chunk before this one any more.
    pub fn mark_consumed(&self, rank: u32, chunk: u32) {
        self.word(self.member(rank) + member::CONSUMED).store(chunk, Ordering::Release);
    }

    /// The first chunk after those of a round.
    pub fn chunks_end(&self, number: u64, len: u64) -> u32 {
        let first = self.word(self.round(number) + round::FIRST_CHUNK).load(Ordering::Relaxed);
        first.wrapping_add(chunk_count(len))
    }

    /// What one rank did for all is done, or could not be.
    pub fn finish_perform(&self, number: u64, done: &Result<u64, String>) {
        let at = self.round(number);
        let how = match done {
            Ok(len) => {
                self.put(at + round::PERFORMED_LEN, *len);
                1
            }
            Err(why) => {
                self.put_round_text(at, why);
                2
            }
        };
        self.word(at + round::PERFORMED).store(how, Ordering::Release);
    }

    /// What came of what one rank does for all, if that is known: how many bytes.
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

/// How many chunks so many bytes need.
pub(super) fn chunk_count(len: u64) -> u32 {
    u32::try_from(len.div_ceil(CoordinationTable::CHUNK_BYTES as u64)).unwrap_or(u32::MAX)
}
