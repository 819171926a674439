//! Convolution with any kernel.
//!
//! Invariant: the products for a sample are added up one by one in the order of the weights,
//! beginning with 0, in one type, and nothing is contracted: so the sum has the same bits wherever
//! the sample lies in its tile.

use crate::Sample;
use crate::filter::channel::Channel;
use crate::filter::{Framed, Scratch};

/// Samples that are summed up side by side.
const SIDE_BY_SIDE: usize = 16;

/// What a convolution is made of, checked.
pub(crate) struct Kernel<'a> {
    /// How far it reaches to the left and to the right.
    pub(crate) across: u32,
    /// How far it reaches up and down.
    pub(crate) down: u32,
    pub(crate) weights: &'a [f32],
    pub(crate) divisor: f32,
    pub(crate) offset: f32,
}

pub(crate) fn apply(kernel: &Kernel<'_>, framed: &Framed, scratch: &mut Scratch) -> Vec<u8> {
    match framed.pixels().pixel().sample() {
        Sample::U8 => tile::<u8, f32>(kernel, framed, &mut scratch.reals),
        Sample::U16 => tile::<u16, f64>(kernel, framed, &mut scratch.doubles),
        Sample::F32 => tile::<f32, f64>(kernel, framed, &mut scratch.doubles),
        Sample::I8 => tile::<i8, f32>(kernel, framed, &mut scratch.reals),
        Sample::I16 => tile::<i16, f64>(kernel, framed, &mut scratch.doubles),
    }
}

/// A type in which sums are computed.
trait Sum: Copy + Default + From<f32> + Into<f64> {
    /// A sample; nothing is lost.
    fn exact(sample: f64) -> Self;
    /// `self + weight * sample`, rounded twice.
    fn plus(self, weight: Self, sample: Self) -> Self;
    /// `self / divisor + offset`, rounded twice.
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

fn tile<T: Channel, S: Sum>(kernel: &Kernel<'_>, framed: &Framed, samples: &mut Vec<S>) -> Vec<u8> {
    let channels = framed.pixels().pixel().channels();
    samples.clear();
    let mut values: Vec<T> = Vec::new();
    for row in framed.rows(kernel.across, kernel.down) {
        values.clear();
        T::load(row, &mut values);
        samples.extend(values.iter().map(|value| S::exact(value.real())));
    }
    let stride = (framed.width() + 2 * kernel.across) as usize * channels;
    let length = framed.width() as usize * channels;
    let side = 2 * kernel.across as usize + 1;
    // Where the samples are that the weights belong to, counted from the first.
    let taps: Vec<(usize, S)> = (0..)
        .zip(kernel.weights)
        .map(|(number, weight)| {
            (number / side * stride + number % side * channels, S::from(*weight))
        })
        .collect();
    let (divisor, offset) = (S::from(kernel.divisor), S::from(kernel.offset));

    let mut data = Vec::with_capacity(framed.height() as usize * length * size_of::<T>());
    for y in 0..framed.height() as usize {
        values.clear();
        for x in (0..length).step_by(SIDE_BY_SIDE) {
            let samples = &samples[y * stride + x..];
            let sums = match length - x {
                SIDE_BY_SIDE.. => block(&taps, samples, SIDE_BY_SIDE),
                left => block(&taps, samples, left),
            };
            let sums = &sums[..SIDE_BY_SIDE.min(length - x)];
            values.extend(sums.iter().map(|sum| T::nearest(sum.scaled(divisor, offset).into())));
        }
        T::store(&values, &mut data);
    }
    data
}

/// The sums for the first samples, `length` of them.
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
