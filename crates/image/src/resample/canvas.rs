//! Assembly of an output from contributions.
//!
//! Invariants: a pixel that lacks shares is in `open`, with a weight below its total. All other
//! pixels are in `pixels`, and are background until a contribution sets them. Contributions are
//! checked.

use std::collections::BTreeMap;

use crate::filter::channel::{SampleChannel, append_sample, zero_key};
use crate::filter::{Pixels, PixelsError};
use crate::resample::{
    ChannelSums, Contribution, PixelRun, PixelShare, Resampling, ResamplingError,
};
use crate::{Pixel, Sample};

/// An output that is being assembled. Pixels without a contribution stay background.
#[derive(Clone, Debug)]
pub struct Canvas {
    resampling: Resampling,
    background: [f64; 4],
    pixels: Pixels,
    /// Sums of the shares of incomplete pixels, by row and column.
    open: BTreeMap<(u32, u32), PixelShare>,
}

/// The error of an output that is not valid, or of a contribution that does not fit it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CanvasError {
    /// The resampling is not valid.
    #[error(transparent)]
    Resampling(#[from] ResamplingError),
    /// The output does not fit into memory.
    #[error(transparent)]
    Pixels(#[from] PixelsError),
    /// A run leaves the output.
    #[error("a run of {} pixels from ({}, {}) on leaves an output of {width} x {height}", run.length, run.x, run.y)]
    Run {
        /// The run.
        run: PixelRun,
        /// The width of the output.
        width: u32,
        /// The height of the output.
        height: u32,
    },
    /// The number of bytes is wrong.
    #[error("runs of pixels need {needed} bytes, {given} were given")]
    Bytes {
        /// The number of bytes of the runs.
        needed: u64,
        /// The number of bytes given.
        given: usize,
    },
    /// A share lies outside, is larger than a pixel, or has sums that no samples have.
    #[error("a share of weight {} for ({}, {}) cannot be one of this output", share.weight, share.x, share.y)]
    Share {
        /// The share.
        share: PixelShare,
    },
}

impl Canvas {
    /// Creates an output that is all background. The background is rounded to a sample.
    pub fn new(
        resampling: Resampling,
        pixel: Pixel,
        background: [f32; 4],
    ) -> Result<Canvas, CanvasError> {
        resampling.validate()?;
        let (width, height) = resampling.size();
        let background = background.map(f64::from).map(|value| match pixel.sample() {
            Sample::U8 => u8::nearest(value).real(),
            Sample::U16 => u16::nearest(value).real(),
            Sample::I8 => i8::nearest(value).real(),
            Sample::I16 => i16::nearest(value).real(),
            Sample::F32 => value,
        });
        let mut pixels = Pixels::blank(width, height, pixel)?;
        let mut one = Vec::new();
        for value in &background[..pixel.channels()] {
            append_sample(pixel.sample(), *value, &mut one);
        }
        for y in 0..height {
            pixels.row_mut(y).chunks_exact_mut(one.len()).for_each(|to| to.copy_from_slice(&one));
        }
        Ok(Canvas { resampling, background, pixels, open: BTreeMap::new() })
    }

    /// Adds the contribution of a tile or a node. On an error, a part of it may have been added.
    pub fn add(&mut self, contribution: &Contribution) -> Result<(), CanvasError> {
        let lengths = contribution.runs.iter().map(|run| u64::from(run.length));
        let bytes = self.pixels.pixel().bytes();
        let needed = lengths.fold(0, u64::saturating_add).saturating_mul(bytes as u64);
        let given = contribution.pixels.len();
        if needed != given as u64 {
            return Err(CanvasError::Bytes { needed, given });
        }
        let mut left = contribution.pixels.as_slice();
        for run in &contribution.runs {
            let (width, height) = (self.pixels.width(), self.pixels.height());
            if u64::from(run.x) + u64::from(run.length) > width.into() || run.y >= height {
                return Err(CanvasError::Run { run: *run, width, height });
            }
            let (here, rest) = left.split_at(run.length as usize * bytes);
            left = rest;
            self.pixels.row_mut(run.y)[run.x as usize * bytes..][..here.len()]
                .copy_from_slice(here);
        }
        contribution.shares.iter().try_for_each(|share| self.add_share(share))
    }

    /// Returns whether some pixels lack shares.
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the output. Missing shares count as background.
    pub fn finish(mut self) -> Pixels {
        for share in std::mem::take(&mut self.open).into_values() {
            let total = self.resampling.total(share.x, share.y);
            self.set(&share, total);
        }
        self.pixels
    }

    fn add_share(&mut self, share: &PixelShare) -> Result<(), CanvasError> {
        let refused = CanvasError::Share { share: *share };
        if share.x >= self.pixels.width() || share.y >= self.pixels.height() {
            return Err(refused);
        }
        let total = self.resampling.total(share.x, share.y);
        let limit = match self.pixels.pixel().sample() {
            Sample::U8 | Sample::I8 => Some(share.weight.saturating_mul(255)),
            Sample::U16 | Sample::I16 => Some(share.weight.saturating_mul(65_535)),
            Sample::F32 => None,
        };
        let possible = match (share.sums, limit) {
            (ChannelSums::Whole(sums), Some(limit)) => sums.iter().all(|sum| *sum <= limit),
            (ChannelSums::Real(_), None) => true,
            _ => false,
        };
        if !possible || share.weight > total {
            return Err(refused);
        }
        let place = (share.y, share.x);
        let mut sum = *share;
        if let Some(open) = self.open.get(&place)
            && (open.weight + share.weight > total || !sum.add(open))
        {
            return Err(refused);
        }
        if sum.weight == total {
            self.open.remove(&place);
            self.set(&sum, total);
        } else {
            self.open.insert(place, sum);
        }
        Ok(())
    }

    /// Sets a pixel from its sums; the missing weight counts as background.
    #[expect(clippy::cast_possible_truncation, reason = "backgrounds of whole numbers are samples")]
    fn set(&mut self, share: &PixelShare, total: u64) {
        let pixel = self.pixels.pixel();
        let zero = f64::from(zero_key(pixel.sample()));
        let missing = total - share.weight;
        let mut bytes = Vec::with_capacity(pixel.bytes());
        for channel in 0..pixel.channels() {
            let background = self.background[channel];
            let value = match share.sums {
                ChannelSums::Whole(sums) => {
                    let sum = sums[channel] + (background + zero) as u64 * missing;
                    ((sum + total / 2) / total) as f64 - zero
                }
                ChannelSums::Real(sums) if missing == 0 => sums[channel] / total as f64,
                ChannelSums::Real(sums) => {
                    (sums[channel] + background * missing as f64) / total as f64
                }
            };
            append_sample(pixel.sample(), value, &mut bytes);
        }
        let at = share.x as usize * bytes.len();
        self.pixels.row_mut(share.y)[at..][..bytes.len()].copy_from_slice(&bytes);
    }
}
