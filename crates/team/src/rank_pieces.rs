//! Accesses to pieces of segments of one machine: one request for all its ranks.

use crate::error::TeamError;
use crate::number::Number;
use crate::pending_access::PendingAccess;
use crate::remote::message::RankPiece;
use crate::segments::{SegmentPiece, Segments};

impl SegmentPiece {
    /// The piece in the segment of a rank.
    pub(crate) fn of(self, rank: u32) -> RankPiece {
        RankPiece { rank, piece: self }
    }
}

/// Pieces of the segment of a rank.
pub fn on_rank(rank: u32, pieces: &[SegmentPiece]) -> Vec<RankPiece> {
    pieces.iter().map(|piece| piece.of(rank)).collect()
}

/// The callers have checked that all pieces are in their segments, and together as long as the
/// bytes.
impl Segments {
    /// A rank of the pieces' machine; none if it is this one.
    fn elsewhere(&self, places: &[RankPiece]) -> Option<u32> {
        let rank = places.first()?.rank;
        (!self.team().is_near(rank)).then_some(rank)
    }

    /// Starts to copy bytes to pieces of one machine, one behind the other.
    pub(crate) fn start_put_at(
        &self,
        places: &[RankPiece],
        bytes: &[u8],
    ) -> Result<PendingAccess<'static>, TeamError> {
        if let Some(rank) = self.elsewhere(places) {
            return PendingAccess::put(self, rank, places, bytes);
        }
        self.put_near(places.iter().copied(), bytes);
        Ok(PendingAccess::done())
    }

    /// Starts to copy bytes from pieces of one machine, one behind the other.
    pub(crate) fn start_get_at<'a>(
        &self,
        places: &[RankPiece],
        bytes: &'a mut [u8],
    ) -> Result<PendingAccess<'a>, TeamError> {
        if let Some(rank) = self.elsewhere(places) {
            return PendingAccess::get(self, rank, places, bytes);
        }
        self.get_near(places.iter().copied(), bytes);
        Ok(PendingAccess::done())
    }

    /// Starts to add numbers to pieces of one machine, one behind the other.
    pub(crate) fn start_accumulate_at<T: Number>(
        &self,
        places: &[RankPiece],
        factor: T,
        numbers: &[T],
    ) -> Result<PendingAccess<'static>, TeamError> {
        if let Some(rank) = self.elsewhere(places) {
            return PendingAccess::accumulate(self, rank, places, factor, numbers);
        }
        self.accumulate_near(places.iter().copied(), factor, numbers)?;
        Ok(PendingAccess::done())
    }

    /// Copies bytes to places of this machine.
    pub(crate) fn put_near(&self, places: impl Iterator<Item = RankPiece>, bytes: &[u8]) {
        let mut rest = bytes;
        for RankPiece { rank, piece } in places {
            let (now, later) = rest.split_at(piece.len);
            self.near().put(rank, piece.offset, now);
            rest = later;
        }
    }

    /// Copies bytes from places of this machine.
    pub(crate) fn get_near(&self, places: impl Iterator<Item = RankPiece>, bytes: &mut [u8]) {
        let mut rest = bytes;
        for RankPiece { rank, piece } in places {
            let (now, later) = rest.split_at_mut(piece.len);
            self.near().get(rank, piece.offset, now);
            rest = later;
        }
    }

    /// Adds numbers to places of this machine.
    pub(crate) fn accumulate_near<T: Number>(
        &self,
        places: impl Iterator<Item = RankPiece>,
        factor: T,
        numbers: &[T],
    ) -> Result<(), TeamError> {
        let mut rest = numbers;
        for RankPiece { rank, piece } in places {
            let (now, later) = rest.split_at(piece.len / size_of::<T>());
            self.add_near(rank, piece.offset, factor, now)?;
            rest = later;
        }
        Ok(())
    }
}
