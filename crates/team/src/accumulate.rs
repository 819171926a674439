//! Adding to numbers of another rank, without losing what others add.

use crate::board::LOCKS;
use crate::error::TeamError;
use crate::number::Number;
use crate::segments::{Piece, Segments};
use crate::strided::Strided;

/// Places of a segment that share a lock: as long as this, and then again after all locks.
const CLASS_BYTES: usize = 16 << 10;

impl Segments {
    /// Adds numbers, each times a factor, to those at a place in the segment of a rank. However many
    /// ranks accumulate numbers of one type at a place, nothing is lost.
    ///
    /// ```
    /// # let team = pario_team::Team::meet("accumulate", 1, 0)?;
    /// let forces = team.segments(8 * 3)?;
    /// forces.accumulate(0, 8, 2.0, &[1.5_f64, 4.0])?;
    /// let mut second = [0; 8];
    /// forces.get(0, 8, &mut second)?;
    /// assert_eq!(f64::from_ne_bytes(second), 3.0);
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn accumulate<T: Number>(
        &self,
        rank: u32,
        offset: usize,
        factor: T,
        numbers: &[T],
    ) -> Result<(), TeamError> {
        self.pointer(rank, offset, size_of_val(numbers))?;
        let each = size_of::<T>();
        let (mut offset, mut rest) = (offset, numbers);
        while !rest.is_empty() {
            // Numbers that begin in one class: also the one that ends in the next.
            let left = CLASS_BYTES - offset % CLASS_BYTES;
            let (now, later) = rest.split_at(left.div_ceil(each).min(rest.len()));
            self.accumulate_class(rank, offset, factor, now)?;
            offset += size_of_val(now);
            rest = later;
        }
        Ok(())
    }

    /// Adds numbers whose first bytes are in one class.
    fn accumulate_class<T: Number>(
        &self,
        rank: u32,
        offset: usize,
        factor: T,
        numbers: &[T],
    ) -> Result<(), TeamError> {
        let place = self.pointer(rank, offset, size_of_val(numbers))?.cast::<T>();
        let shared = &self.team.shared;
        let lock = shared.board.lock_of(rank, offset / CLASS_BYTES % LOCKS);
        lock.lock().map_err(|missing| shared.error(missing))?;
        let is_one = factor == T::one();
        for (number, value) in numbers.iter().enumerate() {
            let value = if is_one { *value } else { value.times(factor) };
            // SAFETY: the place is mapped while this is here, and there are so many numbers in it,
            // which may lie anywhere; the lock keeps others who accumulate away.
            unsafe {
                let place = place.add(number);
                place.write_unaligned(place.read_unaligned().plus(value));
            }
        }
        lock.unlock();
        Ok(())
    }

    /// Adds a region with gaps. Rows and distances here are counted in bytes, as there.
    pub fn accumulate_strided<T: Number>(
        &self,
        rank: u32,
        offset: usize,
        region: &Strided<'_>,
        factor: T,
        numbers: &[T],
    ) -> Result<(), TeamError> {
        self.check_strided(rank, offset, region, size_of_val(numbers))?;
        let each = size_of::<T>();
        let is_whole = |bytes: &usize| bytes.is_multiple_of(each);
        if !is_whole(&region.row) || !region.here.iter().all(is_whole) {
            return Err(TeamError::Invalid(format!(
                "a region of numbers of {each} bytes whose rows or distances are no multiples of it"
            )));
        }
        for (here, there) in region.rows() {
            let numbers = &numbers[here / each..(here + region.row) / each];
            self.accumulate(rank, offset + there, factor, numbers)?;
        }
        Ok(())
    }

    /// Adds numbers to pieces, one behind the other.
    pub fn accumulate_list<T: Number>(
        &self,
        rank: u32,
        pieces: &[Piece],
        factor: T,
        numbers: &[T],
    ) -> Result<(), TeamError> {
        self.check_list(rank, pieces, size_of_val(numbers))?;
        let each = size_of::<T>();
        if pieces.iter().any(|piece| !piece.len.is_multiple_of(each)) {
            let what = format!("a piece that is no multiple of numbers of {each} bytes");
            return Err(TeamError::Invalid(what));
        }
        let mut rest = numbers;
        for piece in pieces {
            let (now, later) = rest.split_at(piece.len / each);
            self.accumulate(rank, piece.offset, factor, now)?;
            rest = later;
        }
        Ok(())
    }
}
