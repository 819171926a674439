//! Contributions of a tile to a reduced window: sums over cells.

use crate::filter::{ImageWindow, Pixels};
use crate::resample::contribution::Summed;
use crate::resample::{Contribution, PixelShare};

/// A window that is reduced, and a tile that has a part of it.
pub(super) struct ReducedTile<'a> {
    pub(super) window: ImageWindow,
    pub(super) factor: u32,
    pub(super) tile: ImageWindow,
    pub(super) pixels: &'a Pixels,
}

/// Returns the cell whose mean is an output pixel.
pub(super) fn cell(window: ImageWindow, factor: u32, x: u32, y: u32) -> ImageWindow {
    let side = |start: u32, length: u32, cell: u32| {
        let begin = cell * factor;
        (start + begin, factor.min(length - begin))
    };
    let (left, width) = side(window.x, window.width, x);
    let (top, height) = side(window.y, window.height, y);
    ImageWindow { x: left, y: top, width, height }
}

impl ReducedTile<'_> {
    pub(super) fn contribute<T: Summed>(&self, contribution: &mut Contribution) {
        match self.pixels.pixel().channels() {
            1 => self.channels::<T, 1>(contribution),
            2 => self.channels::<T, 2>(contribution),
            3 => self.channels::<T, 3>(contribution),
            _ => self.channels::<T, 4>(contribution),
        }
    }

    fn channels<T: Summed, const C: usize>(&self, contribution: &mut Contribution) {
        let Some(part) = self.window.intersection(self.tile) else { return };
        let cells =
            |start: u32, length: u32| start / self.factor..=(start + (length - 1)) / self.factor;
        let columns = cells(part.x - self.window.x, part.width);
        let first = *columns.start();
        let mut sums = Vec::new();
        let mut samples: Vec<T> = Vec::new();
        for row in cells(part.y - self.window.y, part.height) {
            let cell_of = |column: u32| cell(self.window, self.factor, column, row);
            let Some(band) =
                (ImageWindow { x: part.x, width: part.width, ..cell_of(first) }).intersection(part)
            else {
                continue;
            };
            if self.factor == 1 {
                contribution.runs.push(super::PixelRun { x: first, y: row, length: part.width });
                contribution.pixels.extend_from_slice(self.row(band, band.y));
                continue;
            }
            sums.clear();
            sums.resize((columns.end() - first) as usize + 1, [T::Sum::default(); C]);
            for y in band.y..band.y + band.height {
                samples.clear();
                T::load(self.row(band, y), &mut samples);
                let mut left = samples.as_chunks::<C>().0;
                for (column, sums) in columns.clone().zip(&mut sums) {
                    let Some(own) = cell_of(column).intersection(band) else { continue };
                    let (here, rest) = left.split_at(own.width as usize);
                    left = rest;
                    for pixel in here {
                        for (sum, sample) in sums.iter_mut().zip(pixel) {
                            *sum += sample.weighed(1);
                        }
                    }
                }
            }
            for (column, sums) in columns.clone().zip(&sums) {
                let whole = cell_of(column);
                let Some(own) = whole.intersection(band) else { continue };
                if own == whole {
                    contribution.push(column, row);
                    let means = sums.map(|sum| T::mean(sum, whole.area()));
                    T::store(&means, &mut contribution.pixels);
                } else {
                    let mut all = [T::Sum::default(); 4];
                    all[..C].copy_from_slice(sums);
                    let (weight, sums) = (own.area(), T::sums(all));
                    contribution.shares.push(PixelShare { x: column, y: row, weight, sums });
                }
            }
        }
    }

    /// Returns the bytes of a row of the band.
    fn row(&self, band: ImageWindow, y: u32) -> &[u8] {
        self.pixels.span(y - self.tile.y, band.x - self.tile.x, band.width)
    }
}
