//! The search for the offsets that spread windows best; `declustering` says what "best" means.
//!
//! Invariants: the search is exhaustive up to `COUNTED_SUBFILES_MAX` subfiles. What it leaves out
//! scores the same as something it looks at, or cannot win: windows score the same with an offset and
//! with its mirror image, the two offsets of a volume can be exchanged, and a pair is skipped only if a lower
//! bound of its key is above the best key known.

use std::cmp::Reverse;

use super::modular::{folded, gcd, inverse};
use super::score::{IMAGE_WINDOW_SIDE, Scorer, Unevenness, VOLUME_WINDOW_SIDE};
use super::{clash, resonance};

/// Up to this number of subfiles all windows are counted.
const COUNTED_SUBFILES_MAX: u32 = 1_024;

/// Up to this number of subfiles mirror images are distinguished.
const MIRRORED_SUBFILES_MAX: u32 = 12;

/// The best row offset of an image.
pub(super) fn image_offset(subfiles: u32) -> u32 {
    if subfiles > COUNTED_SUBFILES_MAX {
        return clash::image_offset(subfiles, &candidates(subfiles));
    }
    let mut scorer = Scorer::new(subfiles);
    let mut best = (Unevenness::MAX, Reverse(0), 0);
    for offset in candidates(subfiles) {
        let windows = scorer.windows(offset, IMAGE_WINDOW_SIDE);
        if windows <= best.0 {
            let area = clash::clash_area(u64::from(subfiles), u64::from(offset), 0);
            best = best.min((windows, Reverse(area), offset));
        }
    }
    best.2
}

/// The best row offset and plane offset of a volume.
pub(super) fn volume_offsets(subfiles: u32) -> (u32, u32) {
    if subfiles > COUNTED_SUBFILES_MAX {
        return clash::volume_offsets(subfiles, &candidates(subfiles));
    }
    let mut scorer = Scorer::new(subfiles);
    let slices = Slices::new(subfiles, &mut scorer);
    // Good offsets first: the sooner a good pair is known, the more pairs need no counting.
    let mut offsets = candidates(subfiles);
    offsets.sort_by_key(|&offset| (slices.by_offset[offset as usize].small, offset));

    let mut best = (Unevenness::MAX, Unevenness::MAX, Reverse(0), 0, 0);
    for (place, &first) in offsets.iter().enumerate() {
        for &second in &offsets[place..] {
            let (row, plane) = (first.min(second), first.max(second));
            let SliceSpread { small, large, area, .. } = slices.of_pair(row, plane);
            // Small windows in slices are among all boxes, so they bound the score from below.
            if (small, large, Reverse(area), row, plane) >= best {
                continue;
            }
            if let Some(boxes) = scorer.boxes(row, plane, best.0) {
                best = best.min((boxes, large, Reverse(area), row, plane));
            }
        }
    }
    facing_diagonal(subfiles, (best.3, best.4))
}

/// Of the mirror images of a pair, which spread windows alike, the one that spreads slices across the
/// diagonal best; of equals the first. With more subfiles there are better pairs to choose from, and
/// the size of a slice decides more than its direction.
fn facing_diagonal(subfiles: u32, (row, plane): (u32, u32)) -> (u32, u32) {
    if subfiles > MIRRORED_SUBFILES_MAX {
        return (row, plane);
    }
    let mirrored = |offset: u32| (subfiles - offset) % subfiles;
    let images = [
        (row, plane),
        (mirrored(row), plane),
        (row, mirrored(plane)),
        (mirrored(row), mirrored(plane)),
    ];
    let mut best = (f64::INFINITY, (row, plane));
    for (row, plane) in images {
        let strength = resonance::across_diagonal(subfiles, row, plane);
        if strength < best.0 - 1e-9 {
            best = (strength, (row, plane));
        }
    }
    best.1
}

/// The offsets worth looking at: prime to the number of subfiles, of each mirror pair the smaller.
fn candidates(subfiles: u32) -> Vec<u32> {
    (0..=subfiles / 2).filter(|&offset| gcd(u64::from(offset), u64::from(subfiles)) == 1).collect()
}

/// The slices of a volume, by offset.
///
/// A slice along x and y is an image with the row offset, one along x and z an image with the plane
/// offset. One along y and z is, with the subfiles relabelled, an image with the plane offset
/// divided by the row offset.
struct Slices {
    subfiles: u64,
    by_offset: Vec<SliceSpread>,
}

/// How the windows of some slices are spread.
#[derive(Clone, Copy)]
struct SliceSpread {
    /// The unevenness of windows no larger than those of a volume.
    small: Unevenness,
    /// The unevenness of windows no larger than those of an image.
    large: Unevenness,
    /// The tiles of the smallest window with a clash.
    area: u64,
    /// The inverse of the offset.
    inverse: u64,
}

impl Slices {
    fn new(subfiles: u32, scorer: &mut Scorer) -> Slices {
        let subfiles_wide = u64::from(subfiles);
        let unfit =
            SliceSpread { small: Unevenness::MAX, large: Unevenness::MAX, area: 0, inverse: 0 };
        let mut by_offset = vec![unfit; subfiles as usize / 2 + 1];
        for offset in candidates(subfiles) {
            by_offset[offset as usize] = SliceSpread {
                small: scorer.windows(offset, VOLUME_WINDOW_SIDE),
                large: scorer.windows(offset, IMAGE_WINDOW_SIDE),
                area: clash::clash_area(subfiles_wide, u64::from(offset), 0),
                inverse: inverse(u64::from(offset), subfiles_wide),
            };
        }
        Slices { subfiles: subfiles_wide, by_offset }
    }

    /// The slices of a pair of offsets in all three directions together.
    #[expect(clippy::cast_possible_truncation, reason = "a residue of at most 1,024 subfiles")]
    fn of_pair(&self, row: u32, plane: u32) -> SliceSpread {
        let (along_x_y, along_x_z) = (self.by_offset[row as usize], self.by_offset[plane as usize]);
        let quotient = folded(u64::from(plane) * along_x_y.inverse % self.subfiles, self.subfiles);
        along_x_y.joined(along_x_z).joined(self.by_offset[quotient as usize])
    }
}

impl SliceSpread {
    fn joined(self, other: SliceSpread) -> SliceSpread {
        SliceSpread {
            small: self.small.joined(other.small),
            large: self.large.joined(other.large),
            area: self.area.min(other.area),
            inverse: self.inverse,
        }
    }
}
