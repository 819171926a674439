//! Accumulation: concurrent additions to numbers of any rank.

use crate::error::TeamError;
use crate::machine_memory::Numbers;
use crate::number::Number;
use crate::pending_access::{Pending, PendingAccess};
use crate::rank_pieces::on_rank;
use crate::segments::{SegmentPiece, Segments};
use crate::strided::Strided;

impl Segments {
    /// Adds numbers, each times a factor, to numbers in the segment of a rank. Concurrent additions
    /// of one type lose nothing.
    ///
    /// ```
    /// # let team = pario_team::Team::meet("accumulate", 1, 0)?;
    /// let forces = team.segments(8 * 3)?;
    /// forces.accumulate(&[1.5_f64, 4.0], 2.0, 0, 8)?;
    /// let mut second = [0; 8];
    /// forces.get(&mut second, 0, 8)?;
    /// assert_eq!(f64::from_ne_bytes(second), 3.0);
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn accumulate<T: Number>(
        &self,
        numbers: &[T],
        factor: T,
        rank: u32,
        offset: usize,
    ) -> Result<(), TeamError> {
        self.begin_accumulate(numbers, factor, rank, offset)?.wait()
    }

    /// Starts to add numbers. Takes them at once: the caller may reuse their memory before it
    /// waits.
    pub fn start_accumulate<T: Number>(
        &self,
        numbers: &[T],
        factor: T,
        rank: u32,
        offset: usize,
    ) -> Result<Pending<()>, TeamError> {
        Ok(self.begin_accumulate(numbers, factor, rank, offset)?.into_pending())
    }

    pub(crate) fn begin_accumulate<T: Number>(
        &self,
        numbers: &[T],
        factor: T,
        rank: u32,
        offset: usize,
    ) -> Result<PendingAccess<'static>, TeamError> {
        let len = size_of_val(numbers);
        self.check(rank, offset, len)?;
        if self.add_near(rank, offset, factor, numbers)? {
            return Ok(PendingAccess::done());
        }
        PendingAccess::accumulate(
            self,
            rank,
            &[SegmentPiece { offset, len }.of(rank)],
            factor,
            numbers,
        )
    }

    /// Adds to a segment of this machine. Returns false if it is elsewhere.
    pub(crate) fn add_near<T: Number>(
        &self,
        rank: u32,
        offset: usize,
        factor: T,
        numbers: &[T],
    ) -> Result<bool, TeamError> {
        let shared = &self.team().shared;
        let numbers = Numbers::of(numbers);
        let added = self.near().accumulate(&shared.board, rank, offset, factor, numbers);
        added.map_err(|missing| shared.error(missing))
    }

    /// Adds a region with gaps. Rows and distances here are counted in bytes, as there.
    pub fn accumulate_strided<T: Number>(
        &self,
        numbers: &[T],
        factor: T,
        rank: u32,
        offset: usize,
        region: &Strided<'_>,
    ) -> Result<(), TeamError> {
        self.check_strided(rank, offset, region, size_of_val(numbers))?;
        let each = size_of::<T>();
        let is_whole = |bytes: &usize| bytes.is_multiple_of(each);
        if !is_whole(&region.row) || !region.here.iter().all(is_whole) {
            return Err(TeamError::Invalid(format!(
                "a region of numbers of {each} bytes whose rows or distances are no multiples of it"
            )));
        }
        let row = |here: usize| &numbers[here / each..(here + region.row) / each];
        if self.team().is_near(rank) {
            for (here, there) in region.rows() {
                self.add_near(rank, offset + there, factor, row(here))?;
            }
            return Ok(());
        }
        let packed: Vec<T> = region.rows().flat_map(|(here, _)| row(here)).copied().collect();
        PendingAccess::accumulate(self, rank, &region.places(rank, offset), factor, &packed)?.wait()
    }

    /// Adds numbers to pieces, one behind the other.
    pub fn accumulate_list<T: Number>(
        &self,
        numbers: &[T],
        factor: T,
        rank: u32,
        pieces: &[SegmentPiece],
    ) -> Result<(), TeamError> {
        self.check_list(rank, pieces, size_of_val(numbers))?;
        let each = size_of::<T>();
        if pieces.iter().any(|piece| !piece.len.is_multiple_of(each)) {
            let what = format!("a piece that is no multiple of numbers of {each} bytes");
            return Err(TeamError::Invalid(what));
        }
        if !self.team().is_near(rank) {
            let places = on_rank(rank, pieces);
            return PendingAccess::accumulate(self, rank, &places, factor, numbers)?.wait();
        }
        self.accumulate_near(pieces.iter().map(|piece| piece.of(rank)), factor, numbers)
    }
}
