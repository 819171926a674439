//! The Gaussian filter: a weighted sum down the columns, then one along the rows.
//!
//! Invariants: weights are whole numbers with the sum 2^16, the same at both sides. The outer ones
//! are below 2^15, so a sum of keys is the key of the sum. Sums of samples of 8 and 16 bits are
//! sums of whole numbers and cannot overflow. For 8 bits, two samples together have 9 bits, and two
//! rounded column sums 16, so that all products are products of two numbers of 16 bits: eight at a
//! time on every processor.

use crate::Sample;
use crate::filter::channel::{SampleChannel, one_nan};
use crate::filter::extreme::load_keys;
use crate::filter::{FilterBuffers, PaddedTile};
use crate::pixelwise::power::exponential;

/// Samples whose sums are computed together.
const SIDE_BY_SIDE: usize = 16;

/// Returns the radius of the filter.
#[expect(clippy::cast_possible_truncation, reason = "larger values were refused")]
pub(crate) fn radius(sigma: f64) -> u32 {
    (3.0 * sigma).ceil() as u32
}

/// Returns the weights from the middle outwards; the middle one counts once, the others twice.
#[expect(clippy::cast_possible_truncation, reason = "no weight is above 2^16")]
pub(crate) fn weights(sigma: f64) -> Vec<u32> {
    let bell = |away: u32| {
        let ratio = f64::from(away) / sigma;
        exponential(-0.5 * ratio * ratio)
    };
    let outer: Vec<f64> = (1..=radius(sigma)).map(bell).collect();
    let total = 1.0 + 2.0 * outer.iter().sum::<f64>();
    let outer = outer.iter().map(|height| (height / total * 65_536.0 + 0.5) as u32);
    let mut weights: Vec<u32> = [0].into_iter().chain(outer).collect();
    weights[0] = 65_536 - 2 * weights.iter().sum::<u32>();
    weights
}

pub(crate) fn apply(sigma: f64, padded: &PaddedTile, buffers: &mut FilterBuffers) -> Vec<u8> {
    let weights = weights(sigma);
    let reach = radius(sigma);
    if weights[0] == 65_536 {
        return padded.rows(0, 0).flatten().copied().collect();
    }
    match padded.pixels().pixel().sample() {
        Sample::U8 => {
            let rows: Vec<&[u8]> = padded.rows(reach, reach).collect();
            bytes(&weights, reach, padded, &rows, &mut buffers.words.front)
        }
        Sample::I8 => {
            let FilterBuffers { bytes: keys, words, .. } = buffers;
            load_keys::<i8>(padded, reach, &mut keys.front);
            let stride = RowGeometry::new(padded, reach).stride;
            let rows: Vec<&[u8]> = keys.front.chunks_exact(stride).collect();
            let mut data = bytes(&weights, reach, padded, &rows, &mut words.front);
            data.iter_mut().for_each(|key| *key = i8::of_key(*key).cast_unsigned());
            data
        }
        Sample::U16 => words::<u16>(&weights, reach, padded, buffers),
        Sample::I16 => words::<i16>(&weights, reach, padded, buffers),
        Sample::F32 => reals(&weights, reach, padded, buffers),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "sums are at most 255 with 7 and 23 places")]
fn bytes(
    weights: &[u32],
    reach: u32,
    padded: &PaddedTile,
    rows: &[&[u8]],
    column: &mut Vec<u16>,
) -> Vec<u8> {
    let weights: Vec<u16> = weights.iter().map(|weight| *weight as u16).collect();
    let shape = RowGeometry::new(padded, reach);
    let mut data = vec![0; shape.rows * shape.length];
    column.resize(shape.stride, 0);
    for (y, out) in data.chunks_exact_mut(shape.length).enumerate() {
        let down = |away: usize| (rows[y + shape.reach - away], rows[y + shape.reach + away]);
        sum(&weights, down, |sum: u32| ((sum + (1 << 8)) >> 9) as u16, column);
        let across = |away: usize| shape.across(column, away);
        sum(&weights, across, |sum: u32| ((sum + (1 << 22)) >> 23) as u8, out);
    }
    data
}

#[expect(clippy::cast_possible_truncation, reason = "sums are at most 65,535 with 32 places")]
fn words<T: SampleChannel<SortKey = u16>>(
    weights: &[u32],
    reach: u32,
    padded: &PaddedTile,
    buffers: &mut FilterBuffers,
) -> Vec<u8> {
    let shape = RowGeometry::new(padded, reach);
    let samples = &mut buffers.words.front;
    load_keys::<T>(padded, reach, samples);
    let rows: Vec<&[u16]> = samples.chunks_exact(shape.stride).collect();
    let column = &mut buffers.sums;
    column.resize(shape.stride, 0);
    padded.compute_rows(|y, out: &mut Vec<T>| {
        let down = |away: usize| (rows[y + shape.reach - away], rows[y + shape.reach + away]);
        sum_wide(weights, down, |sum| sum as u32, column);
        let across = |away: usize| shape.across(column, away);
        let finish = |sum| T::of_key(((sum + (1 << 31)) >> 32) as u16);
        out.resize(shape.length, T::default());
        sum_wide(weights, across, finish, out);
    })
}

fn reals(weights: &[u32], reach: u32, padded: &PaddedTile, buffers: &mut FilterBuffers) -> Vec<u8> {
    let weights: Vec<f32> = weights.iter().map(|weight| *weight as f32 / 65_536.0).collect();
    let shape = RowGeometry::new(padded, reach);
    let samples = &mut buffers.reals;
    load(padded, reach, samples);
    let rows: Vec<&[f32]> = samples.chunks_exact(shape.stride).collect();
    let mut column = vec![0.0; shape.stride];
    padded.compute_rows(|y, out: &mut Vec<f32>| {
        let down = |away: usize| (rows[y + shape.reach - away], rows[y + shape.reach + away]);
        sum_real(&weights, down, &mut column);
        out.resize(shape.length, 0.0);
        sum_real(&weights, |away| shape.across(&column, away), out);
    })
}

/// The memory layout of a padded tile, in samples.
struct RowGeometry {
    /// Rows of the tile.
    rows: usize,
    /// Samples of a row of the tile.
    length: usize,
    /// Samples of a row with the border.
    stride: usize,
    channels: usize,
    reach: usize,
}

impl RowGeometry {
    fn new(padded: &PaddedTile, reach: u32) -> RowGeometry {
        let channels = padded.pixels().pixel().channels();
        RowGeometry {
            rows: padded.height() as usize,
            length: padded.width() as usize * channels,
            stride: (padded.width() + 2 * reach) as usize * channels,
            channels,
            reach: reach as usize,
        }
    }

    /// Returns the samples at a distance to the left and to the right of each sample of a row.
    fn across<'a, T>(&self, row: &'a [T], away: usize) -> (&'a [T], &'a [T]) {
        let left = &row[(self.reach - away) * self.channels..];
        let right = &row[(self.reach + away) * self.channels..];
        (&left[..self.length], &right[..self.length])
    }
}

fn load<T: SampleChannel>(padded: &PaddedTile, reach: u32, samples: &mut Vec<T>) {
    samples.clear();
    padded.rows(reach, reach).for_each(|row| T::load(row, samples));
}

/// Computes sums of products of 16 bits. `at` returns the samples at both sides for a distance; for
/// distance 0 it returns the middle twice.
fn sum<'a, T: Copy + Into<u16> + 'a, O>(
    weights: &[u16],
    at: impl Fn(usize) -> (&'a [T], &'a [T]),
    finish: impl Fn(u32) -> O,
    out: &mut [O],
) {
    let (blocks, rest) = out.as_chunks_mut::<SIDE_BY_SIDE>();
    let mut place = 0;
    for block in blocks {
        let middle = &at(0).0[place..][..SIDE_BY_SIDE];
        let mut sums = [0u32; SIDE_BY_SIDE];
        for (sum, sample) in sums.iter_mut().zip(middle) {
            *sum = u32::from(weights[0]) * u32::from((*sample).into());
        }
        for (away, weight) in weights.iter().enumerate().skip(1) {
            let (left, right) = at(away);
            let (left, right) = (&left[place..][..SIDE_BY_SIDE], &right[place..][..SIDE_BY_SIDE]);
            for (sum, (left, right)) in sums.iter_mut().zip(left.iter().zip(right)) {
                let both: u16 = (*left).into() + (*right).into();
                *sum += u32::from(*weight) * u32::from(both);
            }
        }
        for (out, sum) in block.iter_mut().zip(sums) {
            *out = finish(sum);
        }
        place += SIDE_BY_SIDE;
    }
    for (place, out) in (place..).zip(rest) {
        let mut sum = u32::from(weights[0]) * u32::from(at(0).0[place].into());
        for (away, weight) in weights.iter().enumerate().skip(1) {
            let (left, right) = at(away);
            sum += u32::from(*weight)
                * (u32::from(left[place].into()) + u32::from(right[place].into()));
        }
        *out = finish(sum);
    }
}

/// Computes the same with products of more bits.
fn sum_wide<'a, T: Copy + Into<u64> + 'a, O>(
    weights: &[u32],
    at: impl Fn(usize) -> (&'a [T], &'a [T]),
    finish: impl Fn(u64) -> O,
    out: &mut [O],
) {
    let mut place = 0;
    for block in out.chunks_mut(SIDE_BY_SIDE) {
        let mut sums = [0u64; SIDE_BY_SIDE];
        for (away, weight) in weights.iter().enumerate() {
            let (left, right) = at(away);
            // `at(0)` returns the middle twice, and it counts once.
            let once = if away == 0 { 0 } else { u64::MAX };
            let (left, right) = (&left[place..][..block.len()], &right[place..][..block.len()]);
            for (sum, (left, right)) in sums.iter_mut().zip(left.iter().zip(right)) {
                *sum += u64::from(*weight) * ((*left).into() + ((*right).into() & once));
            }
        }
        for (out, sum) in block.iter_mut().zip(sums) {
            *out = finish(sum);
        }
        place += SIDE_BY_SIDE;
    }
}

/// Computes the same for floating-point numbers: the middle first, then pairs outwards.
fn sum_real<'a>(weights: &[f32], at: impl Fn(usize) -> (&'a [f32], &'a [f32]), out: &mut [f32]) {
    let mut place = 0;
    for block in out.chunks_mut(SIDE_BY_SIDE) {
        let mut sums = [0f32; SIDE_BY_SIDE];
        for (sum, sample) in sums.iter_mut().zip(&at(0).0[place..][..block.len()]) {
            *sum = weights[0] * sample;
        }
        for (away, weight) in weights.iter().enumerate().skip(1) {
            let (left, right) = at(away);
            let (left, right) = (&left[place..][..block.len()], &right[place..][..block.len()]);
            for (sum, (left, right)) in sums.iter_mut().zip(left.iter().zip(right)) {
                *sum += weight * (left + right);
            }
        }
        for (out, sum) in block.iter_mut().zip(sums) {
            *out = one_nan(sum);
        }
        place += SIDE_BY_SIDE;
    }
}
