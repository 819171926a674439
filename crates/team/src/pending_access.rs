//! Accesses under way to the memory of other machines: the implementation behind [`Pending`].

use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use pario_net::{Bulk, PendingReply, RpcError, StartedRequest};

use crate::error::TeamError;
use crate::number::Number;
use crate::remote::message::{DataProtocol, DataReply, DataRequest, RankPiece};
use crate::segments::{SegmentPiece, Segments};
use crate::team::Team;

/// Bytes of one request to a data server.
const CHUNK_BYTES: usize = 1 << 20;
/// Pieces of one request to a data server.
const CHUNK_PIECES: usize = 4096;
/// Requests of one access that are under way.
const PENDING_CHUNKS: usize = 8;
/// Accesses of one call that are under way: pages of an array, of 64 KiB each.
const PENDING_ACCESSES: usize = 32;

/// A started access to memory of the team, or a started call of a callback.
///
/// See [`pario_net::Pending`] for what waiting, awaiting and dropping mean.
pub type Pending<T> = pario_net::Pending<T, TeamError>;

/// The requests of one access. It is complete after [`wait`](Self::wait); dropping it waits as
/// well, and ignores errors.
#[must_use = "wait for the access"]
pub(crate) struct PendingAccess<'a> {
    target: Option<PendingTarget>,
    chunks: VecDeque<PendingChunk>,
    /// The memory that bytes are read into.
    borrowed: PhantomData<&'a mut [u8]>,
}

/// The rank that requests go to.
struct PendingTarget {
    team: Team,
    rank: u32,
}

/// A request, and where the bytes of its reply go.
struct PendingChunk {
    reply: PendingReply<DataProtocol>,
    to: Option<(*mut u8, usize)>,
}

// SAFETY: the memory is borrowed for as long as this lives, and no other code uses it.
unsafe impl Send for PendingAccess<'_> {}

impl PendingAccess<'_> {
    /// An access that is complete.
    pub fn done() -> Self {
        Self { target: None, chunks: VecDeque::new(), borrowed: PhantomData }
    }

    fn to(segments: &Segments, rank: u32) -> Self {
        let target = PendingTarget { team: segments.team().clone(), rank };
        Self { target: Some(target), chunks: VecDeque::new(), borrowed: PhantomData }
    }

    /// Copies bytes to pieces of segments of one machine, one behind the other. `rank` is one of
    /// that machine.
    pub(crate) fn put(
        segments: &Segments,
        rank: u32,
        pieces: &[RankPiece],
        bytes: &[u8],
    ) -> Result<Self, TeamError> {
        let mut pending = Self::to(segments, rank);
        let (memory, mut rest) = (segments.number(), bytes);
        for (pieces, len) in chunks(pieces, 1) {
            let (now, later) = rest.split_at(len);
            let bytes = Bulk::from(now.to_vec());
            pending.send(DataRequest::Put { memory, pieces, bytes }, None)?;
            rest = later;
        }
        Ok(pending)
    }

    /// Adds numbers to such pieces.
    pub(crate) fn accumulate<T: Number>(
        segments: &Segments,
        rank: u32,
        pieces: &[RankPiece],
        factor: T,
        numbers: &[T],
    ) -> Result<Self, TeamError> {
        let mut pending = Self::to(segments, rank);
        let (memory, each, mut rest) = (segments.number(), size_of::<T>(), numbers);
        for (pieces, len) in chunks(pieces, each) {
            let (now, later) = rest.split_at(len / each);
            let mut bytes = vec![0; len];
            crate::collective::copy(now, &mut bytes);
            let (kind, factor, bytes) = (T::KIND, factor.to_bytes(), bytes.into());
            let request = DataRequest::Accumulate { memory, kind, factor, pieces, bytes };
            pending.send(request, None)?;
            rest = later;
        }
        Ok(pending)
    }

    /// Requests bytes for memory of the caller, which is borrowed until the access is complete.
    pub(crate) fn get(
        segments: &Segments,
        rank: u32,
        pieces: &[RankPiece],
        bytes: &mut [u8],
    ) -> Result<Self, TeamError> {
        let mut pending = Self::to(segments, rank);
        let (memory, mut rest) = (segments.number(), bytes);
        for (pieces, len) in chunks(pieces, 1) {
            let (now, later) = rest.split_at_mut(len);
            let to = (now.as_mut_ptr(), now.len());
            pending.send(DataRequest::Get { memory, pieces }, Some(to))?;
            rest = later;
        }
        Ok(pending)
    }

    fn send(
        &mut self,
        request: DataRequest,
        to: Option<(*mut u8, usize)>,
    ) -> Result<(), TeamError> {
        if self.chunks.len() >= PENDING_CHUNKS {
            self.finish_one()?;
        }
        let Some(target) = &self.target else { return Ok(()) };
        let reply = target.team.start_request(target.rank, request)?;
        self.chunks.push_back(PendingChunk { reply, to });
        Ok(())
    }

    /// Waits for the oldest request.
    fn finish_one(&mut self) -> Result<(), TeamError> {
        match self.chunks.pop_front() {
            Some(PendingChunk { reply, to }) => self.take(reply.wait(), to),
            None => Ok(()),
        }
    }

    /// Takes the reply to the oldest request.
    fn take(
        &self,
        reply: Result<DataReply, RpcError>,
        to: Option<(*mut u8, usize)>,
    ) -> Result<(), TeamError> {
        let Some(target) = &self.target else { return Ok(()) };
        match (target.team.check_reply(target.rank, reply)?, to) {
            (DataReply::Done, None) => Ok(()),
            (DataReply::Bytes(bytes), Some((to, len))) if bytes.len() == len => {
                // SAFETY: `len` bytes there are borrowed by this.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len) };
                Ok(())
            }
            (other, _) => Err(target.team.unexpected_reply(target.rank, other)),
        }
    }

    /// Waits until the access is complete.
    pub fn wait(mut self) -> Result<(), TeamError> {
        while !self.chunks.is_empty() {
            self.finish_one()?;
        }
        Ok(())
    }

    /// Whether no request is under way.
    pub fn is_over(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Takes the replies that are there; ready when all are.
    fn poll_replies(&mut self, context: &mut Context<'_>) -> Poll<Result<(), TeamError>> {
        while let Some(chunk) = self.chunks.front_mut() {
            let reply = std::task::ready!(Pin::new(&mut chunk.reply).poll(context));
            let to = self.chunks.pop_front().and_then(|chunk| chunk.to);
            if let Err(error) = self.take(reply, to) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether [`wait`](Self::wait) would return at once.
    pub fn is_done(&self) -> bool {
        self.chunks.iter().all(|chunk| chunk.reply.is_done())
    }
}

impl Drop for PendingAccess<'_> {
    fn drop(&mut self) {
        while !self.chunks.is_empty() {
            // A caller that wants the error waits.
            let _ = self.finish_one();
        }
    }
}

impl PendingAccess<'static> {
    /// The access as callers see it.
    pub fn into_pending(self) -> Pending<()> {
        match self.is_over() {
            true => Pending::ready(Ok(())),
            false => Pending::started(self),
        }
    }
}

impl StartedRequest<(), TeamError> for PendingAccess<'static> {
    fn is_done(&self) -> bool {
        PendingAccess::is_done(self)
    }

    fn wait(self: Box<Self>) -> Result<(), TeamError> {
        (*self).wait()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), TeamError>> {
        self.poll_replies(context)
    }

    fn cancel(mut self: Box<Self>) -> Result<Option<()>, TeamError> {
        if self.chunks.iter().any(|chunk| chunk.to.is_some()) {
            // The replies are dropped when they come.
            self.chunks.clear();
            return Ok(None);
        }
        self.wait().map(Some)
    }
}

/// Accesses that are under way together, and what they keep for the caller.
struct PendingGroup<K> {
    accesses: Vec<PendingAccess<'static>>,
    /// Memory that the accesses use: dropped after them.
    kept: Option<K>,
}

/// Combines accesses that are not over. The result is `kept`, which may be memory that they use.
pub(crate) fn pending_group<K: Send + 'static>(
    accesses: Vec<PendingAccess<'static>>,
    kept: K,
) -> Pending<K> {
    match accesses.is_empty() {
        true => Pending::ready(Ok(kept)),
        false => Pending::started(PendingGroup { accesses, kept: Some(kept) }),
    }
}

impl<K> PendingGroup<K> {
    fn result(&mut self) -> Result<K, TeamError> {
        let twice = || TeamError::Invalid("the result of this access was taken before".to_owned());
        self.kept.take().ok_or_else(twice)
    }
}

impl<K: Send> StartedRequest<K, TeamError> for PendingGroup<K> {
    fn is_done(&self) -> bool {
        self.accesses.iter().all(PendingAccess::is_done)
    }

    fn wait(mut self: Box<Self>) -> Result<K, TeamError> {
        let mut done = Ok(());
        // Every access is over when this returns, also after a failure.
        for access in std::mem::take(&mut self.accesses) {
            done = done.and(access.wait());
        }
        done.and_then(|()| self.result())
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<K, TeamError>> {
        while let Some(access) = self.accesses.last_mut() {
            let done = std::task::ready!(access.poll_replies(context));
            self.accesses.pop();
            if let Err(error) = done {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(self.result())
    }
}

/// The accesses of one call that are under way.
#[derive(Default)]
pub(crate) struct PendingAccesses<'a> {
    pending: VecDeque<PendingAccess<'a>>,
}

impl<'a> PendingAccesses<'a> {
    /// Adds an access; waits for the oldest if there are many.
    pub fn add(&mut self, pending: PendingAccess<'a>) -> Result<(), TeamError> {
        if pending.is_over() {
            return Ok(());
        }
        self.pending.push_back(pending);
        match self.pending.len() > PENDING_ACCESSES {
            true => self.pending.pop_front().map_or(Ok(()), PendingAccess::wait),
            false => Ok(()),
        }
    }

    /// Waits for all.
    pub fn wait(self) -> Result<(), TeamError> {
        self.pending.into_iter().try_for_each(PendingAccess::wait)
    }
}

/// Splits pieces into lists that fit into one request, cut at multiples of `each`, with the bytes
/// of each list.
fn chunks(pieces: &[RankPiece], each: usize) -> impl Iterator<Item = (Vec<RankPiece>, usize)> {
    let limit = CHUNK_BYTES / each * each;
    let mut pieces = pieces.iter().copied();
    let mut rest: Option<RankPiece> = None;
    std::iter::from_fn(move || {
        let (mut list, mut total) = (Vec::new(), 0);
        while total < limit && list.len() < CHUNK_PIECES {
            let Some(place) = rest.take().or_else(|| pieces.next()) else { break };
            let RankPiece { rank, piece: SegmentPiece { offset, len } } = place;
            let now = len.min(limit - total);
            if now < len {
                let piece = SegmentPiece { offset: offset + now, len: len - now };
                rest = Some(RankPiece { rank, piece });
            }
            list.push(RankPiece { rank, piece: SegmentPiece { offset, len: now } });
            total += now;
        }
        (!list.is_empty()).then_some((list, total))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_keep_to_the_limits_and_cover_everything() {
        let place = |number: usize, len| {
            let rank = u32::try_from(number % 3).unwrap();
            RankPiece { rank, piece: SegmentPiece { offset: number * 100_000, len } }
        };
        let places: Vec<RankPiece> = (0..10_000)
            .map(|number| place(number, number * 7 % 90_000))
            .chain([place(20_000, 5 << 20)])
            .collect();
        let mut seen: Vec<RankPiece> = Vec::new();
        for (list, total) in chunks(&places, 8) {
            assert!(total <= CHUNK_BYTES && list.len() <= CHUNK_PIECES);
            assert_eq!(list.iter().map(|place| place.piece.len).sum::<usize>(), total);
            for place in list {
                let goes_on = |last: &&mut RankPiece| {
                    let SegmentPiece { offset, len } = last.piece;
                    last.rank == place.rank && offset + len == place.piece.offset
                };
                match seen.last_mut().filter(goes_on) {
                    Some(last) => last.piece.len += place.piece.len,
                    None => seen.push(place),
                }
            }
        }
        let whole: Vec<RankPiece> =
            places.into_iter().filter(|place| place.piece.len > 0).collect();
        seen.retain(|place| place.piece.len > 0);
        assert!(seen == whole);
    }
}
