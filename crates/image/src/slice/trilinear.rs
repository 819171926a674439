//! Pixels between voxels.
//!
//! Invariants: a weight is a whole number of 2⁻²⁴, the product of three whole numbers of 256ths,
//! and the weights of a pixel add up to 2²⁴. Sums of whole numbers are exact, so neither the order
//! nor the place of the additions matters; they are rounded once. Voxels with weight 0 are not
//! read.

use super::box_run::BoxRun;
use super::sums;
use crate::filter::channel::SampleChannel;
use crate::pixel::Sample;

/// A 256th of a voxel, as a coordinate: positions are rounded down to it.
pub(super) const GRAIN: i64 = 1 << 24;

/// The sum of the weights of a pixel.
pub(super) const WEIGHT: u32 = 1 << 24;

/// A sample type for trilinear interpolation.
pub(super) trait TrilinearSample: Copy {
    /// Holds a channel times [`WEIGHT`].
    type Sum: Copy + Default;
    /// The type as a value.
    const SAMPLE: Sample;

    /// Reads a channel from its bytes.
    fn read(bytes: &[u8]) -> Self;
    /// Returns the channel as a sum of weight 1.
    fn widen(self) -> Self::Sum;
    /// Interpolates between two sums in 256ths; the result has 256 times the weight.
    fn between(one: Self::Sum, two: Self::Sum, part: u32) -> Self::Sum;
    /// Writes a sum of weight [`WEIGHT`] as a channel.
    fn put(sum: Self::Sum, out: &mut [u8]);
}

impl TrilinearSample for u8 {
    type Sum = u32;
    const SAMPLE: Sample = Sample::U8;

    fn read(bytes: &[u8]) -> u8 {
        bytes[0]
    }

    fn widen(self) -> u32 {
        self.into()
    }

    fn between(one: u32, two: u32, part: u32) -> u32 {
        // At most 255 * 2^24.
        one * (256 - part) + two * part
    }

    fn put(sum: u32, out: &mut [u8]) {
        out[0] = ((sum + WEIGHT / 2) >> 24).to_le_bytes()[0];
    }
}

impl TrilinearSample for u16 {
    type Sum = u64;
    const SAMPLE: Sample = Sample::U16;

    fn read(bytes: &[u8]) -> u16 {
        u16::from_le_bytes([bytes[0], bytes[1]])
    }

    fn widen(self) -> u64 {
        self.into()
    }

    fn between(one: u64, two: u64, part: u32) -> u64 {
        one * u64::from(256 - part) + two * u64::from(part)
    }

    fn put(sum: u64, out: &mut [u8]) {
        out.copy_from_slice(&((sum + u64::from(WEIGHT / 2)) >> 24).to_le_bytes()[..2]);
    }
}

impl TrilinearSample for i8 {
    type Sum = u32;
    const SAMPLE: Sample = Sample::I8;

    fn read(bytes: &[u8]) -> i8 {
        bytes[0].cast_signed()
    }

    fn widen(self) -> u32 {
        self.key().into()
    }

    fn between(one: u32, two: u32, part: u32) -> u32 {
        u8::between(one, two, part)
    }

    fn put(sum: u32, out: &mut [u8]) {
        u8::put(sum, out);
        out[0] = i8::of_key(out[0]).cast_unsigned();
    }
}

impl TrilinearSample for i16 {
    type Sum = u64;
    const SAMPLE: Sample = Sample::I16;

    fn read(bytes: &[u8]) -> i16 {
        i16::from_le_bytes([bytes[0], bytes[1]])
    }

    fn widen(self) -> u64 {
        self.key().into()
    }

    fn between(one: u64, two: u64, part: u32) -> u64 {
        u16::between(one, two, part)
    }

    fn put(sum: u64, out: &mut [u8]) {
        u16::put(sum, out);
        out.copy_from_slice(&i16::of_key(u16::from_le_bytes([out[0], out[1]])).to_le_bytes());
    }
}

impl TrilinearSample for f32 {
    type Sum = f64;
    const SAMPLE: Sample = Sample::F32;

    fn read(bytes: &[u8]) -> f32 {
        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn widen(self) -> f64 {
        self.into()
    }

    fn between(one: f64, two: f64, part: u32) -> f64 {
        // Ignore a sum without weight: zero times infinity is not zero.
        if part == 0 { one * 256.0 } else { one * f64::from(256 - part) + two * f64::from(part) }
    }

    #[expect(clippy::cast_possible_truncation, reason = "rounded to the type of the pixel")]
    fn put(sum: f64, out: &mut [u8]) {
        out.copy_from_slice(&((sum / f64::from(WEIGHT)) as f32).to_le_bytes());
    }
}

/// Computes the pixels of a run whose neighbours are all stored, from voxels of N bytes and C
/// channels.
pub(super) fn blend_run<S: TrilinearSample, const C: usize, const N: usize>(
    voxels: &[[u8; N]],
    run: &BoxRun,
    out: &mut [[u8; N]],
) {
    let mut at = run.at;
    for pixel in out {
        let sums = between_neighbours::<S, C, N>(voxels, at, run.strides);
        for (sum, out) in sums.into_iter().zip(pixel.chunks_exact_mut(N / C)) {
            S::put(sum, out);
        }
        at = [0, 1, 2].map(|axis| at[axis] + run.right[axis]);
    }
}

fn between_neighbours<S: TrilinearSample, const C: usize, const N: usize>(
    voxels: &[[u8; N]],
    at: [i64; 3],
    strides: [usize; 3],
) -> [S::Sum; C] {
    let [x, y, z] = at.map(voxel);
    let [part_x, part_y, part_z] = at.map(part);
    // A neighbour with weight 0 need not be stored.
    let on = |part: u32, stride: usize| if part == 0 { 0 } else { stride };
    let (on_x, on_y, on_z) = (on(part_x, 1), on(part_y, strides[1]), on(part_z, strides[2]));
    let first = x + y * strides[1] + z * strides[2];
    let row = |start: usize| -> [S::Sum; C] {
        let (one, two) = (&voxels[start], &voxels[start + on_x]);
        let mut sums = [S::Sum::default(); C];
        for (channel, sum) in sums.iter_mut().enumerate() {
            let read = |voxel: &[u8; N]| S::read(&voxel[channel * (N / C)..]).widen();
            *sum = S::between(read(one), read(two), part_x);
        }
        sums
    };
    let blend = |one: [S::Sum; C], two: [S::Sum; C], part: u32| -> [S::Sum; C] {
        let mut sums = one;
        for (sum, two) in sums.iter_mut().zip(two) {
            *sum = S::between(*sum, two, part);
        }
        sums
    };
    let near = blend(row(first), row(first + on_y), part_y);
    let far = blend(row(first + on_z), row(first + on_y + on_z), part_y);
    blend(near, far, part_z)
}

/// Calls `out` with weight and sums of the share that a box has in each pixel of a run.
pub(super) fn add_shares<S: TrilinearSample, const C: usize, const N: usize>(
    voxels: &[[u8; N]],
    run: &BoxRun,
    mut out: impl FnMut(u32, [u64; C]),
) {
    let mut at = run.at;
    for _ in 0..run.len {
        let first = at.map(|at| at >> 32);
        let part = at.map(part);
        let (mut weight, mut sums) = (0, [0; C]);
        for corner in 0..8u32 {
            let side = [corner & 1, corner >> 1 & 1, corner >> 2];
            let share = |axis: usize| if side[axis] == 0 { 256 - part[axis] } else { part[axis] };
            let share = share(0) * share(1) * share(2);
            let place = [0, 1, 2].map(|axis| first[axis] + i64::from(side[axis]));
            let is_here = (0..3).all(|axis| (0..run.stored[axis]).contains(&place[axis]));
            if share == 0 || !is_here {
                continue;
            }
            let [x, y, z] = place.map(|place| voxel(place << 32));
            let found = &voxels[x + y * run.strides[1] + z * run.strides[2]];
            weight += share;
            for (sum, channel) in sums.iter_mut().zip(found.chunks_exact(N / C)) {
                *sum = sums::add(S::SAMPLE, *sum, sums::weighted(S::SAMPLE, channel, share));
            }
        }
        out(weight, sums);
        at = [0, 1, 2].map(|axis| at[axis] + run.right[axis]);
    }
}

fn voxel(at: i64) -> usize {
    (at >> 32) as usize
}

fn part(at: i64) -> u32 {
    (at >> 24 & 255) as u32
}
