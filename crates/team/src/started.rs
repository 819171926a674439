//! Accesses that were begun and are waited for later.

use std::collections::VecDeque;
use std::marker::PhantomData;

use pario_net::{Bulk, PendingReply};

use crate::error::TeamError;
use crate::far::message::{DataProtocol, FromServer, Place, ToServer};
use crate::number::Number;
use crate::segments::{Piece, Segments};
use crate::team::Team;

/// Bytes of one question to a data server.
const CHUNK_BYTES: usize = 1 << 20;
/// Pieces of one question to a data server.
const CHUNK_PIECES: usize = 4096;
/// Questions of one access that are under way.
const UNDER_WAY: usize = 8;
/// Accesses of one call that are under way: pages of an array, of 64 KiB each.
const TOGETHER: usize = 32;

/// An access that was begun. What it concerns is done when it was waited for; dropping it waits as
/// well, and forgets what went wrong.
#[must_use = "an access that was begun is waited for"]
pub struct Started<'a> {
    way: Option<Way>,
    asked: VecDeque<Asked>,
    /// The memory that bytes are read to.
    lent: PhantomData<&'a mut [u8]>,
}

/// Whom the questions go to.
struct Way {
    team: Team,
    rank: u32,
}

/// A question, and where the bytes of its answer belong.
struct Asked {
    answer: PendingReply<DataProtocol>,
    to: Option<(*mut u8, usize)>,
}

// SAFETY: the memory is lent to this for as long as it lives, and belongs to nobody else meanwhile.
unsafe impl Send for Started<'_> {}

impl Started<'_> {
    /// Nothing is left to be done.
    pub fn done() -> Self {
        Self { way: None, asked: VecDeque::new(), lent: PhantomData }
    }

    fn to(segments: &Segments, rank: u32) -> Self {
        let way = Way { team: segments.team().clone(), rank };
        Self { way: Some(way), asked: VecDeque::new(), lent: PhantomData }
    }

    /// To pieces of segments of one machine, one behind the other. `rank` is one that is there.
    pub(crate) fn put(
        segments: &Segments,
        rank: u32,
        pieces: &[Place],
        bytes: &[u8],
    ) -> Result<Self, TeamError> {
        let mut started = Self::to(segments, rank);
        let (memory, mut rest) = (segments.number(), bytes);
        for (pieces, len) in chunks(pieces, 1) {
            let (now, later) = rest.split_at(len);
            let bytes = Bulk::from(now.to_vec());
            started.ask(ToServer::Put { memory, pieces, bytes }, None)?;
            rest = later;
        }
        Ok(started)
    }

    /// The same to be added.
    pub(crate) fn accumulate<T: Number>(
        segments: &Segments,
        rank: u32,
        pieces: &[Place],
        factor: T,
        numbers: &[T],
    ) -> Result<Self, TeamError> {
        let mut started = Self::to(segments, rank);
        let (memory, each, mut rest) = (segments.number(), size_of::<T>(), numbers);
        for (pieces, len) in chunks(pieces, each) {
            let (now, later) = rest.split_at(len / each);
            let mut bytes = vec![0; len];
            crate::collective::copy(now, &mut bytes);
            let (kind, factor, bytes) = (T::KIND, factor.to_bytes(), bytes.into());
            let question = ToServer::Accumulate { memory, kind, factor, pieces, bytes };
            started.ask(question, None)?;
            rest = later;
        }
        Ok(started)
    }

    /// Questions for bytes that are wanted in own memory, which is lent until this is waited for.
    pub(crate) fn get(
        segments: &Segments,
        rank: u32,
        pieces: &[Place],
        bytes: &mut [u8],
    ) -> Result<Self, TeamError> {
        let mut started = Self::to(segments, rank);
        let (memory, mut rest) = (segments.number(), bytes);
        for (pieces, len) in chunks(pieces, 1) {
            let (now, later) = rest.split_at_mut(len);
            let to = (now.as_mut_ptr(), now.len());
            started.ask(ToServer::Get { memory, pieces }, Some(to))?;
            rest = later;
        }
        Ok(started)
    }

    fn ask(&mut self, question: ToServer, to: Option<(*mut u8, usize)>) -> Result<(), TeamError> {
        if self.asked.len() >= UNDER_WAY {
            self.finish_one()?;
        }
        let Some(way) = &self.way else { return Ok(()) };
        let answer = way.team.start_asking(way.rank, question)?;
        self.asked.push_back(Asked { answer, to });
        Ok(())
    }

    /// Waits for the oldest question.
    fn finish_one(&mut self) -> Result<(), TeamError> {
        let (Some(way), Some(asked)) = (&self.way, self.asked.pop_front()) else { return Ok(()) };
        match (way.team.answered(way.rank, asked.answer.wait())?, asked.to) {
            (FromServer::Done, None) => Ok(()),
            (FromServer::Bytes(bytes), Some((to, len))) if bytes.len() == len => {
                // SAFETY: so many bytes there are lent to this.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len) };
                Ok(())
            }
            (other, _) => Err(way.team.strange(way.rank, other)),
        }
    }

    /// Waits until it is done.
    pub fn wait(mut self) -> Result<(), TeamError> {
        while !self.asked.is_empty() {
            self.finish_one()?;
        }
        Ok(())
    }

    /// Whether nothing was asked of anybody, or all was answered for.
    fn is_over(&self) -> bool {
        self.asked.is_empty()
    }

    /// Whether waiting for it would take no time.
    pub fn is_done(&self) -> bool {
        self.asked.iter().all(|asked| asked.answer.is_done())
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        while !self.asked.is_empty() {
            // Whoever wants to know waits.
            let _ = self.finish_one();
        }
    }
}

/// Accesses of one call that are under way at once.
#[derive(Default)]
pub struct UnderWay<'a> {
    started: VecDeque<Started<'a>>,
}

impl<'a> UnderWay<'a> {
    /// One more; the oldest is waited for if there are many.
    pub fn add(&mut self, started: Started<'a>) -> Result<(), TeamError> {
        if started.is_over() {
            return Ok(());
        }
        self.started.push_back(started);
        match self.started.len() > TOGETHER {
            true => self.started.pop_front().map_or(Ok(()), Started::wait),
            false => Ok(()),
        }
    }

    /// Waits for all.
    pub fn wait(self) -> Result<(), TeamError> {
        self.started.into_iter().try_for_each(Started::wait)
    }
}

/// Pieces in lists that fit into one question, cut at multiples of `each`, and how many bytes each
/// list has.
fn chunks(pieces: &[Place], each: usize) -> impl Iterator<Item = (Vec<Place>, usize)> {
    let limit = CHUNK_BYTES / each * each;
    let mut pieces = pieces.iter().copied();
    let mut rest: Option<Place> = None;
    std::iter::from_fn(move || {
        let (mut list, mut total) = (Vec::new(), 0);
        while total < limit && list.len() < CHUNK_PIECES {
            let Some(place) = rest.take().or_else(|| pieces.next()) else { break };
            let Place { rank, piece: Piece { offset, len } } = place;
            let now = len.min(limit - total);
            if now < len {
                let piece = Piece { offset: offset + now, len: len - now };
                rest = Some(Place { rank, piece });
            }
            list.push(Place { rank, piece: Piece { offset, len: now } });
            total += now;
        }
        (!list.is_empty()).then_some((list, total))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_no_longer_than_they_may_be_and_have_everything() {
        let place = |number: usize, len| {
            let rank = u32::try_from(number % 3).unwrap();
            Place { rank, piece: Piece { offset: number * 100_000, len } }
        };
        let places: Vec<Place> = (0..10_000)
            .map(|number| place(number, number * 7 % 90_000))
            .chain([place(20_000, 5 << 20)])
            .collect();
        let mut seen: Vec<Place> = Vec::new();
        for (list, total) in chunks(&places, 8) {
            assert!(total <= CHUNK_BYTES && list.len() <= CHUNK_PIECES);
            assert_eq!(list.iter().map(|place| place.piece.len).sum::<usize>(), total);
            for place in list {
                let goes_on = |last: &&mut Place| {
                    let Piece { offset, len } = last.piece;
                    last.rank == place.rank && offset + len == place.piece.offset
                };
                match seen.last_mut().filter(goes_on) {
                    Some(last) => last.piece.len += place.piece.len,
                    None => seen.push(place),
                }
            }
        }
        let whole: Vec<Place> = places.into_iter().filter(|place| place.piece.len > 0).collect();
        seen.retain(|place| place.piece.len > 0);
        assert!(seen == whole);
    }
}
