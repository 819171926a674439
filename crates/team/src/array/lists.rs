//! Elements by lists of indices: sorted by owner, so that each owner is asked once.

use super::RawArray;
use crate::error::TeamError;
use crate::number::Number;
use crate::segments::Piece;

/// What is wanted of one rank.
#[derive(Default)]
struct OfRank {
    /// Where in its segment; neighbours are one piece.
    pieces: Vec<Piece>,
    /// Which places of the list these are, in the same order.
    places: Vec<usize>,
}

impl RawArray {
    /// Copies the elements with these indices, one behind the other. An index may come twice.
    pub fn gather(&self, indices: &[u64], bytes: &mut [u8]) -> Result<(), TeamError> {
        let element = self.element_bytes();
        let sorted = self.sorted(indices, bytes.len())?;
        let mut theirs = Vec::new();
        for (rank, wanted) in (0..).zip(&sorted) {
            if wanted.places.is_empty() {
                continue;
            }
            theirs.resize(wanted.places.len() * element, 0);
            self.segments.get_list(rank, &wanted.pieces, &mut theirs)?;
            for (place, one) in wanted.places.iter().zip(theirs.chunks_exact(element)) {
                bytes[place * element..][..element].copy_from_slice(one);
            }
        }
        Ok(())
    }

    /// Copies elements to these indices. If an index comes twice, the last one stays.
    pub fn scatter(&self, indices: &[u64], bytes: &[u8]) -> Result<(), TeamError> {
        let element = self.element_bytes();
        let sorted = self.sorted(indices, bytes.len())?;
        let mut theirs = Vec::new();
        for (rank, wanted) in (0..).zip(&sorted) {
            if wanted.places.is_empty() {
                continue;
            }
            theirs.clear();
            for place in &wanted.places {
                theirs.extend_from_slice(&bytes[place * element..][..element]);
            }
            self.segments.put_list(rank, &wanted.pieces, &theirs)?;
        }
        Ok(())
    }

    /// Adds numbers to the elements from one on, which must be numbers of this type.
    pub fn accumulate<T: Number>(&self, first: u64, numbers: &[T]) -> Result<(), TeamError> {
        self.check_type::<T>()?;
        let mut rest = numbers;
        for run in self.checked_runs(first, numbers.len() as u64)? {
            let (now, later) = rest.split_at(run.bytes / size_of::<T>());
            self.segments.accumulate(run.rank, run.offset, T::one(), now)?;
            rest = later;
        }
        Ok(())
    }

    /// Adds numbers to the elements with these indices, which must be numbers of this type. An index
    /// may come twice, and whoever accumulates there at the same time, nothing is lost.
    pub fn accumulate_at<T: Number>(
        &self,
        indices: &[u64],
        numbers: &[T],
    ) -> Result<(), TeamError> {
        self.check_type::<T>()?;
        let sorted = self.sorted(indices, size_of_val(numbers))?;
        let mut theirs = Vec::new();
        for (rank, wanted) in (0..).zip(&sorted) {
            if wanted.places.is_empty() {
                continue;
            }
            theirs.clear();
            theirs.extend(wanted.places.iter().map(|place| numbers[*place]));
            self.segments.accumulate_list(rank, &wanted.pieces, T::one(), &theirs)?;
        }
        Ok(())
    }

    fn check_type<T: Number>(&self) -> Result<(), TeamError> {
        if size_of::<T>() == self.element_bytes() {
            return Ok(());
        }
        Err(TeamError::Invalid(format!(
            "{self}: its elements have {} bytes, and the numbers to add {}",
            self.element_bytes(),
            size_of::<T>()
        )))
    }

    /// What is wanted of each rank, if all of it is there.
    fn sorted(&self, indices: &[u64], bytes: usize) -> Result<Vec<OfRank>, TeamError> {
        let count = self.count(bytes)?;
        if count != indices.len() as u64 {
            let indices = indices.len();
            let what = format!("{self}: {indices} indices, and {count} elements for them");
            return Err(TeamError::Invalid(what));
        }
        // Before anything is changed.
        indices.iter().try_for_each(|index| self.check(*index, 1))?;
        let mut sorted: Vec<OfRank> = Vec::new();
        sorted.resize_with(self.team().size() as usize, OfRank::default);
        for (place, index) in indices.iter().enumerate() {
            let run = self.layout.place(*index);
            let wanted = &mut sorted[run.rank as usize];
            wanted.places.push(place);
            match wanted.pieces.last_mut() {
                Some(last) if last.offset + last.len == run.offset => last.len += run.bytes,
                _ => wanted.pieces.push(Piece { offset: run.offset, len: run.bytes }),
            }
        }
        Ok(sorted)
    }
}
