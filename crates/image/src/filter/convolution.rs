//! Convolution with any kernel.
//!
//! Invariant: the products of a sample are added one by one in the order of the weights, starting
//! with 0, in one type and without fused operations. So the sum has the same bits wherever the
//! sample lies in its tile.

use crate::Sample;
use crate::filter::channel::SampleChannel;
use crate::filter::{FilterBuffers, PaddedTile};

/// Samples whose sums are computed together.
const SIDE_BY_SIDE: usize = 16;

/// The parameters of a convolution, checked.
pub(crate) struct Kernel<'a> {
    /// Pixels that the kernel reaches to the left and to the right.
    pub(crate) across: u32,
    /// Pixels that the kernel reaches up and down.
    pub(crate) down: u32,
    pub(crate) weights: &'a [f32],
    pub(crate) divisor: f32,
    pub(crate) offset: f32,
}

pub(crate) fn apply(
    kernel: &Kernel<'_>,
    padded: &PaddedTile,
    buffers: &mut FilterBuffers,
) -> Vec<u8> {
    match padded.pixels().pixel().sample() {
        Sample::U8 => tile::<u8, f32>(kernel, padded, &mut buffers.reals),
        Sample::U16 => tile::<u16, f64>(kernel, padded, &mut buffers.doubles),
        Sample::F32 => tile::<f32, f64>(kernel, padded, &mut buffers.doubles),
        Sample::I8 => tile::<i8, f32>(kernel, padded, &mut buffers.reals),
        Sample::I16 => tile::<i16, f64>(kernel, padded, &mut buffers.doubles),
    }
}

/// A type in which sums are computed.
trait Sum: Copy + Default + From<f32> + Into<f64> {
    /// Converts a sample without loss.
    fn exact(sample: f64) -> Self;
    /// Returns `self + weight * sample`, rounded twice.
    fn plus(self, weight: Self, sample: Self) -> Self;
    /// Returns `self / divisor + offset`, rounded twice.
    fn scaled(self, divisor: Self, offset: Self) -> Self;
}

impl Sum for f32 {
    #[expect(clippy::cast_possible_truncation, reason = "samples of 8 bits")]
    fn exact(sample: f64) -> f32 {
        sample as f32
    }

    fn plus(self, weight: f32, sample: f32) -> f32 {
        self + weight * sample
    }

    fn scaled(self, divisor: f32, offset: f32) -> f32 {
        self / divisor + offset
    }
}

impl Sum for f64 {
    fn exact(sample: f64) -> f64 {
        sample
    }

    fn plus(self, weight: f64, sample: f64) -> f64 {
        self + weight * sample
    }

    fn scaled(self, divisor: f64, offset: f64) -> f64 {
        self / divisor + offset
    }
}

fn tile<T: SampleChannel, S: Sum>(
    kernel: &Kernel<'_>,
    padded: &PaddedTile,
    samples: &mut Vec<S>,
) -> Vec<u8> {
    let channels = padded.pixels().pixel().channels();
    samples.clear();
    let mut values: Vec<T> = Vec::new();
    for row in padded.rows(kernel.across, kernel.down) {
        values.clear();
        T::load(row, &mut values);
        samples.extend(values.iter().map(|value| S::exact(value.real())));
    }
    let stride = (padded.width() + 2 * kernel.across) as usize * channels;
    let length = padded.width() as usize * channels;
    let side = 2 * kernel.across as usize + 1;
    // The offset of the sample that belongs to each weight.
    let taps: Vec<(usize, S)> = (0..)
        .zip(kernel.weights)
        .map(|(number, weight)| {
            (number / side * stride + number % side * channels, S::from(*weight))
        })
        .collect();
    let (divisor, offset) = (S::from(kernel.divisor), S::from(kernel.offset));

    padded.compute_rows(|y, values: &mut Vec<T>| {
        for x in (0..length).step_by(SIDE_BY_SIDE) {
            let samples = &samples[y * stride + x..];
            let sums = match length - x {
                SIDE_BY_SIDE.. => block(&taps, samples, SIDE_BY_SIDE),
                left => block(&taps, samples, left),
            };
            let sums = &sums[..SIDE_BY_SIDE.min(length - x)];
            values.extend(sums.iter().map(|sum| T::nearest(sum.scaled(divisor, offset).into())));
        }
    })
}

/// Returns the sums of the first `length` samples.
#[inline(always)]
fn block<S: Sum>(taps: &[(usize, S)], samples: &[S], length: usize) -> [S; SIDE_BY_SIDE] {
    let mut sums = [S::default(); SIDE_BY_SIDE];
    for (place, weight) in taps {
        for (sum, sample) in sums.iter_mut().zip(&samples[*place..][..length]) {
            *sum = sum.plus(*weight, *sample);
        }
    }
    sums
}
