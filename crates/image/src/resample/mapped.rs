//! Contributions of a tile to an output at any scale and angle.
//!
//! The positions of a row of the output lie on a line, so those in a tile are one run of columns. A
//! nearest pixel belongs to exactly one tile. For bilinear interpolation, the columns whose four
//! pixels are all in the tile are one run, too. At both ends of it are columns of which the tile
//! has some pixels, or that lie at an edge of the image.

use std::ops::Range;

use crate::filter::{ImageWindow, Pixels};
use crate::resample::contribution::Summed;
use crate::resample::map::ONE_PIXEL;
use crate::resample::{AffineMap, Contribution, PixelRun, PixelShare, Sampling};

/// The total weight of four pixels: 256 along each axis.
pub(super) const WEIGHTS_BILINEAR: u64 = 1 << 16;

const HALF_PIXEL: i64 = ONE_PIXEL / 2;

/// An output, and a tile that may contribute to it.
pub(super) struct MappedTile<'a> {
    pub(super) map: AffineMap,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) image: ImageWindow,
    pub(super) tile: ImageWindow,
    pub(super) pixels: &'a Pixels,
}

/// Returns the pixels of an axis as a range of positions.
fn range(start: u32, length: u32) -> Range<i64> {
    let start = i64::from(start) << 32;
    start..start + (i64::from(length) << 32)
}

/// Returns the positions to which a tile contributes, along both axes.
pub(super) fn reach(
    interpolation: Sampling,
    image: ImageWindow,
    tile: ImageWindow,
) -> (Range<i64>, Range<i64>) {
    let axis = |start: u32, length: u32, image: u32| {
        let own = range(start, length);
        match interpolation {
            Sampling::Nearest => own,
            Sampling::Bilinear => {
                let image = range(0, image);
                image.start.max(own.start - HALF_PIXEL)..image.end.min(own.end + HALF_PIXEL)
            }
        }
    };
    (axis(tile.x, tile.width, image.width), axis(tile.y, tile.height, image.height))
}

/// Returns a window that contains all pixels that an output needs.
pub(super) fn source(
    map: &AffineMap,
    width: u32,
    height: u32,
    interpolation: Sampling,
) -> ImageWindow {
    let (last_column, last_row) = (width.saturating_sub(1), height.saturating_sub(1));
    let corners = [(0, 0), (last_column, 0), (0, last_row), (last_column, last_row)];
    let corners = corners.map(|(column, row)| map.position(column, row));
    let more = match interpolation {
        Sampling::Nearest => 0,
        Sampling::Bilinear => 1,
    };
    let axis = |axis: usize| {
        let along = corners.map(|corner| corner[axis] >> 32);
        let first = along.iter().min().copied().unwrap_or(0) - more;
        let last = along.iter().max().copied().unwrap_or(0) + more;
        let start = u32::try_from(first.max(0)).unwrap_or(u32::MAX);
        (start, u32::try_from(last + 1 - i64::from(start)).unwrap_or(0))
    };
    let ((x, width), (y, height)) = (axis(0), axis(1));
    ImageWindow { x, y, width, height }
}

impl MappedTile<'_> {
    pub(super) fn nearest(&self, contribution: &mut Contribution) {
        match self.pixels.pixel().bytes() {
            1 => self.nearest_of::<1>(contribution),
            2 => self.nearest_of::<2>(contribution),
            3 => self.nearest_of::<3>(contribution),
            4 => self.nearest_of::<4>(contribution),
            6 => self.nearest_of::<6>(contribution),
            8 => self.nearest_of::<8>(contribution),
            12 => self.nearest_of::<12>(contribution),
            _ => self.nearest_of::<16>(contribution),
        }
    }

    /// Adds nearest pixels of BYTES bytes.
    fn nearest_of<const BYTES: usize>(&self, contribution: &mut Contribution) {
        let (across, along) = reach(Sampling::Nearest, self.image, self.tile);
        let (tile, _) = self.pixels.data().as_chunks::<BYTES>();
        let stride = self.tile.width as usize;
        for y in 0..self.height {
            let columns = self.map.columns(y, self.width, &across, &along);
            if columns.is_empty() {
                continue;
            }
            let (x, length) = (columns.start, columns.end - columns.start);
            contribution.runs.push(PixelRun { x, y, length });
            let mut at = self.in_tile(self.map.position(x, y));
            contribution.pixels.reserve(length as usize * BYTES);
            for _ in columns {
                let pixel = whole(at[1]) * stride + whole(at[0]);
                contribution.pixels.extend_from_slice(&tile[pixel]);
                at = self.next(at);
            }
        }
    }

    pub(super) fn bilinear<T: Summed>(&self, contribution: &mut Contribution) {
        match self.pixels.pixel().channels() {
            1 => self.bilinear_of::<T, 1>(contribution),
            2 => self.bilinear_of::<T, 2>(contribution),
            3 => self.bilinear_of::<T, 3>(contribution),
            _ => self.bilinear_of::<T, 4>(contribution),
        }
    }

    fn bilinear_of<T: Summed, const C: usize>(&self, contribution: &mut Contribution) {
        let (across, along) = reach(Sampling::Bilinear, self.image, self.tile);
        let inner = |start: u32, length: u32| {
            let own = range(start, length);
            own.start + HALF_PIXEL..own.end - HALF_PIXEL
        };
        let inner_across = inner(self.tile.x, self.tile.width);
        let inner_along = inner(self.tile.y, self.tile.height);
        let mut samples: Vec<T> = Vec::new();
        for y in 0..self.height {
            let columns = self.map.columns(y, self.width, &across, &along);
            if columns.is_empty() {
                continue;
            }
            if samples.is_empty() {
                T::load(self.pixels.data(), &mut samples);
            }
            let (tile, _) = samples.as_chunks::<C>();
            let inside = self.map.columns(y, self.width, &inner_across, &inner_along);
            let inside = if inside.is_empty() { columns.end..columns.end } else { inside };
            for x in columns.start..inside.start {
                self.at_border(x, y, tile, contribution);
            }
            self.inside(inside.clone(), y, tile, contribution);
            for x in inside.end..columns.end {
                self.at_border(x, y, tile, contribution);
            }
        }
    }

    /// Adds output pixels whose four pixels are all in the tile.
    fn inside<T: Summed, const C: usize>(
        &self,
        columns: Range<u32>,
        y: u32,
        tile: &[[T; C]],
        contribution: &mut Contribution,
    ) {
        if columns.is_empty() {
            return;
        }
        let (x, length) = (columns.start, columns.end - columns.start);
        contribution.runs.push(PixelRun { x, y, length });
        let stride = self.tile.width as usize;
        let mut at = self.in_tile(self.map.position(x, y).map(|position| position - HALF_PIXEL));
        for _ in columns {
            let first = whole(at[1]) * stride + whole(at[0]);
            let [right, below] = at.map(fraction);
            let (upper, lower) = (&tile[first..][..2], &tile[first + stride..][..2]);
            let means: [T; C] = std::array::from_fn(|channel| {
                let mut sum = upper[0][channel].weighed((256 - right) * (256 - below));
                sum += upper[1][channel].weighed(right * (256 - below));
                sum += lower[0][channel].weighed((256 - right) * below);
                sum += lower[1][channel].weighed(right * below);
                T::mean(sum, WEIGHTS_BILINEAR)
            });
            T::store(&means, &mut contribution.pixels);
            at = self.next(at);
        }
    }

    /// Adds an output pixel of which some pixels may be in other tiles, or beyond an edge.
    fn at_border<T: Summed, const C: usize>(
        &self,
        x: u32,
        y: u32,
        tile: &[[T; C]],
        contribution: &mut Contribution,
    ) {
        let at = self.map.position(x, y).map(|position| position - HALF_PIXEL);
        let [right, below] = at.map(fraction);
        let mut weight = 0;
        let mut sums = [T::Sum::default(); 4];
        for (down, part) in [(0, 256 - below), (1, below)] {
            let row = own(at[1], down, self.image.height, self.tile.y, self.tile.height);
            for (across, share) in [(0, 256 - right), (1, right)] {
                let column = own(at[0], across, self.image.width, self.tile.x, self.tile.width);
                let (Some(row), Some(column)) = (row, column) else { continue };
                weight += part * share;
                let pixel = tile[row * self.tile.width as usize + column];
                for (sum, sample) in sums.iter_mut().zip(pixel) {
                    *sum += sample.weighed(part * share);
                }
            }
        }
        if weight == WEIGHTS_BILINEAR {
            contribution.push(x, y);
            let means: [T; C] = std::array::from_fn(|channel| T::mean(sums[channel], weight));
            T::store(&means, &mut contribution.pixels);
        } else if weight > 0 {
            contribution.shares.push(PixelShare { x, y, weight, sums: T::sums(sums) });
        }
    }

    /// Returns a position counted from the corner of the tile.
    fn in_tile(&self, position: [i64; 2]) -> [i64; 2] {
        let [x, y] = position;
        [x - (i64::from(self.tile.x) << 32), y - (i64::from(self.tile.y) << 32)]
    }

    /// Returns the position of the next column. It is not used after the last column, so it may
    /// wrap.
    fn next(&self, position: [i64; 2]) -> [i64; 2] {
        let [x, y] = position;
        [x.wrapping_add(self.map.right[0]), y.wrapping_add(self.map.right[1])]
    }
}

/// Returns the pixel of a position that is not negative.
fn whole(position: i64) -> usize {
    (position >> 32) as usize
}

/// Returns the fraction of a position in 256ths of a pixel.
fn fraction(position: i64) -> u64 {
    (position.cast_unsigned() >> 24) & 255
}

/// Returns the index in the tile of the pixel at a position, or of one of its successors, if the
/// tile has it. Beyond the edges of the image it is the last pixel.
fn own(position: i64, behind: i64, image: u32, start: u32, length: u32) -> Option<usize> {
    let pixel = ((position >> 32) + behind).clamp(0, i64::from(image) - 1) - i64::from(start);
    usize::try_from(pixel).ok().filter(|pixel| *pixel < length as usize)
}
