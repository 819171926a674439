//! Regions with gaps: rows of a matrix, planes of a volume.

use crate::error::TeamError;
use crate::remote::message::RankPiece;
use crate::segments::SegmentPiece;

/// Dimensions that a region may have beyond its rows.
pub const STRIDE_LEVELS: usize = 8;

/// A region of rows with gaps between them, in any number of dimensions, here and there.
///
/// `row` bytes lie together. The first dimension has `counts[0]` of them, `here[0]` bytes apart in
/// own memory and `there[0]` bytes apart in the segment; the next one `counts[1]` of such blocks,
/// and so on.
///
/// ```
/// use pario_team::Strided;
///
/// // 3 rows of 16 bytes out of a matrix whose rows have 100 bytes, put together.
/// let region = Strided { row: 16, counts: &[3], here: &[16], there: &[100] };
/// assert_eq!(region.extent_here()?, 48);
/// assert_eq!(region.extent_there()?, 216);
/// # Ok::<(), pario_team::TeamError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// Bytes that lie together.
    pub row: usize,
    /// How many, in each dimension.
    pub counts: &'a [usize],
    /// Distances in memory of the caller, in each dimension.
    pub here: &'a [usize],
    /// Distances in the segment, in each dimension.
    pub there: &'a [usize],
}

impl Strided<'_> {
    /// Bytes from the beginning to the end in memory of the caller.
    pub fn extent_here(&self) -> Result<usize, TeamError> {
        self.extent(self.here)
    }

    /// Bytes from the beginning to the end in the segment.
    pub fn extent_there(&self) -> Result<usize, TeamError> {
        self.extent(self.there)
    }

    fn extent(&self, strides: &[usize]) -> Result<usize, TeamError> {
        let levels = self.counts.len();
        if self.here.len() != levels || self.there.len() != levels || levels > STRIDE_LEVELS {
            return Err(TeamError::Invalid(format!(
                "a region with {levels} counts, {} distances here and {} there: there must be as \
                 many of each, and at most {STRIDE_LEVELS}",
                self.here.len(),
                self.there.len()
            )));
        }
        if self.row == 0 || self.counts.contains(&0) {
            return Ok(0);
        }
        let mut gaps = self.counts.iter().zip(strides);
        let extent = gaps.try_fold(self.row, |extent, (count, stride)| {
            extent.checked_add((count - 1).checked_mul(*stride)?)
        });
        let mut counts = self.counts.iter();
        let total = counts.try_fold(self.row, |total, count| total.checked_mul(*count));
        let (Some(extent), Some(total)) = (extent, total) else {
            return Err(TeamError::Invalid("a region that no memory can hold".to_owned()));
        };
        if total > extent {
            return Err(TeamError::Invalid(format!(
                "a region of {total} bytes that lie within {extent}: its rows overlap"
            )));
        }
        Ok(extent)
    }

    /// Where each row is in the segment of a rank, if the region begins at this byte.
    pub(crate) fn places(&self, rank: u32, offset: usize) -> Vec<RankPiece> {
        let place = |(_, there)| SegmentPiece { offset: offset + there, len: self.row }.of(rank);
        self.rows().map(place).collect()
    }

    /// Where each row begins, here and there.
    pub fn rows(&self) -> impl Iterator<Item = (usize, usize)> {
        let total = if self.row == 0 { 0 } else { self.counts.iter().product::<usize>() };
        (0..total).map(|number| {
            let (mut rest, mut place) = (number, (0, 0));
            for (level, count) in self.counts.iter().enumerate() {
                let step = rest % count;
                rest /= count;
                place.0 += step * self.here[level];
                place.1 += step * self.there[level];
            }
            place
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_walked_in_order() {
        let region = Strided { row: 2, counts: &[2, 3], here: &[2, 4], there: &[10, 100] };
        let rows: Vec<_> = region.rows().collect();
        assert_eq!(rows, [(0, 0), (2, 10), (4, 100), (6, 110), (8, 200), (10, 210)]);
        assert_eq!(region.extent_here().unwrap(), 12);
        assert_eq!(region.extent_there().unwrap(), 212);
        let nothing = Strided { counts: &[2, 0], ..region };
        assert_eq!((nothing.rows().count(), nothing.extent_there().unwrap()), (0, 0));
    }

    #[test]
    fn regions_that_cannot_be_are_refused() {
        let region = Strided { row: 1, counts: &[2], here: &[1], there: &[usize::MAX] };
        assert!(region.extent_there().is_err());
        let endless = Strided { counts: &[usize::MAX], there: &[0], ..region };
        assert!(endless.extent_there().unwrap_err().to_string().contains("overlap"));
        let uneven = Strided { row: 1, counts: &[2, 2], here: &[1], there: &[1, 1] };
        let text = uneven.extent_there().unwrap_err().to_string();
        assert!(text.contains("2 counts, 1 distances here and 2 there"), "{text}");
    }
}
