//! Accesses to places in the segments of any ranks of one machine: one question, wherever it goes.

use crate::error::TeamError;
use crate::far::message::Place;
use crate::number::Number;
use crate::segments::{Piece, Segments};
use crate::started::Started;

impl Piece {
    /// The piece in the segment of a rank.
    pub(crate) fn of(self, rank: u32) -> Place {
        Place { rank, piece: self }
    }
}

/// Pieces of the segment of a rank.
pub fn places(rank: u32, pieces: &[Piece]) -> Vec<Place> {
    pieces.iter().map(|piece| piece.of(rank)).collect()
}

/// What is known of all places here: they are in their segments, and together as long as the bytes.
impl Segments {
    /// The rank of some places of one machine; nothing if they are of this one.
    fn elsewhere(&self, places: &[Place]) -> Option<u32> {
        let rank = places.first()?.rank;
        (!self.team().is_near(rank)).then_some(rank)
    }

    /// Begins to copy bytes to places of one machine, one behind the other.
    pub(crate) fn start_put_at(
        &self,
        places: &[Place],
        bytes: &[u8],
    ) -> Result<Started<'static>, TeamError> {
        if let Some(rank) = self.elsewhere(places) {
            return Started::put(self, rank, places, bytes);
        }
        self.put_near(places.iter().copied(), bytes);
        Ok(Started::done())
    }

    /// Begins to copy bytes from places of one machine, one behind the other.
    pub(crate) fn start_get_at<'a>(
        &self,
        places: &[Place],
        bytes: &'a mut [u8],
    ) -> Result<Started<'a>, TeamError> {
        if let Some(rank) = self.elsewhere(places) {
            return Started::get(self, rank, places, bytes);
        }
        self.get_near(places.iter().copied(), bytes);
        Ok(Started::done())
    }

    /// Begins to add numbers to places of one machine, one behind the other.
    pub(crate) fn start_accumulate_at<T: Number>(
        &self,
        places: &[Place],
        factor: T,
        numbers: &[T],
    ) -> Result<Started<'static>, TeamError> {
        if let Some(rank) = self.elsewhere(places) {
            return Started::accumulate(self, rank, places, factor, numbers);
        }
        self.accumulate_near(places.iter().copied(), factor, numbers)?;
        Ok(Started::done())
    }

    /// Copies bytes to places of this machine.
    pub(crate) fn put_near(&self, places: impl Iterator<Item = Place>, bytes: &[u8]) {
        let mut rest = bytes;
        for Place { rank, piece } in places {
            let (now, later) = rest.split_at(piece.len);
            self.near().put(rank, piece.offset, now);
            rest = later;
        }
    }

    /// Copies bytes from places of this machine.
    pub(crate) fn get_near(&self, places: impl Iterator<Item = Place>, bytes: &mut [u8]) {
        let mut rest = bytes;
        for Place { rank, piece } in places {
            let (now, later) = rest.split_at_mut(piece.len);
            self.near().get(rank, piece.offset, now);
            rest = later;
        }
    }

    /// Adds numbers to places of this machine.
    pub(crate) fn accumulate_near<T: Number>(
        &self,
        places: impl Iterator<Item = Place>,
        factor: T,
        numbers: &[T],
    ) -> Result<(), TeamError> {
        let mut rest = numbers;
        for Place { rank, piece } in places {
            let (now, later) = rest.split_at(piece.len / size_of::<T>());
            self.add_near(rank, piece.offset, factor, now)?;
            rest = later;
        }
        Ok(())
    }
}
