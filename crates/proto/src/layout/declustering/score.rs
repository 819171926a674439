//! How unevenly the windows of an image or a volume load the subfiles, for given offsets.
//!
//! Invariants: a window's unevenness does not depend on where it lies, because moving it only
//! relabels the subfiles; so one window per shape is scored, at the origin. One more
//! window never lowers a score, so a search may stop as soon as one exceeds the best known.

use super::tally::Tally;

/// The side of the largest window scored in an image.
pub(super) const IMAGE_WINDOW_SIDE: usize = 16;
/// The side of the largest window scored in a volume.
pub(super) const VOLUME_WINDOW_SIDE: usize = 6;
/// The most tiles a scored window has, and so the most it puts on one subfile.
const WINDOW_TILES_MAX: u16 = 256;

/// The excess of many windows together. Ordered: first the worst window counts, then the sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unevenness {
    /// The largest excess of any window.
    pub(super) worst: u32,
    /// The sum of the excesses of all windows.
    pub(super) total: u32,
}

impl Unevenness {
    /// Worse than every score.
    pub(super) const MAX: Unevenness = Unevenness { worst: u32::MAX, total: u32::MAX };

    /// Takes the excess of one more window into account.
    fn add(&mut self, excess: u32) {
        *self = self.joined(Unevenness { worst: excess, total: excess });
    }

    /// The unevenness of two sets of windows together.
    pub(super) fn joined(self, other: Unevenness) -> Unevenness {
        Unevenness {
            worst: self.worst.max(other.worst),
            total: self.total.saturating_add(other.total),
        }
    }
}

/// Scores offsets for one number of subfiles; keeps the counters between scores.
pub(super) struct Scorer {
    subfiles: usize,
    tally: Tally,
}

impl Scorer {
    pub(super) fn new(subfiles: u32) -> Scorer {
        let subfiles = subfiles as usize;
        Scorer { subfiles, tally: Tally::new(subfiles, WINDOW_TILES_MAX) }
    }

    /// All windows of an image up to `side` tiles wide and high.
    pub(super) fn windows(&mut self, row_offset: u32, side: usize) -> Unevenness {
        let mut sum = Unevenness::default();
        for width in 1..=side {
            self.tally.clear();
            let mut first = 0;
            for _height in 1..=side {
                self.tally.add_run(first, width);
                sum.add(self.tally.excess());
                first = self.moved(first, row_offset);
            }
        }
        sum
    }

    /// All windows of a volume up to `VOLUME_WINDOW_SIDE` tiles wide, high and deep; nothing if
    /// they are worse than `bound`.
    pub(super) fn boxes(
        &mut self,
        row_offset: u32,
        plane_offset: u32,
        bound: Unevenness,
    ) -> Option<Unevenness> {
        let mut sum = Unevenness::default();
        // The largest windows tell bad offsets from good ones soonest.
        for width in (1..=VOLUME_WINDOW_SIDE).rev() {
            for height in (1..=VOLUME_WINDOW_SIDE).rev() {
                self.tally.clear();
                let mut plane = 0;
                for _depth in 1..=VOLUME_WINDOW_SIDE {
                    self.add_plane(plane, row_offset, width, height);
                    plane = self.moved(plane, plane_offset);
                    sum.add(self.tally.excess());
                }
                if sum > bound {
                    return None;
                }
            }
        }
        Some(sum)
    }

    fn add_plane(&mut self, plane: usize, row_offset: u32, width: usize, height: usize) {
        let mut first = plane;
        for _row in 0..height {
            self.tally.add_run(first, width);
            first = self.moved(first, row_offset);
        }
    }

    /// `subfile + offset`, around the end; both are residues.
    fn moved(&self, subfile: usize, offset: u32) -> usize {
        let sum = subfile + offset as usize;
        if sum >= self.subfiles { sum - self.subfiles } else { sum }
    }
}
