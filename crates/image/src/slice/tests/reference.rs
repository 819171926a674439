//! The definition of slices and slabs: one loop over the pixels, with the whole volume in memory.
//! Also volumes, boxes and random values for the other tests.

use std::collections::BTreeSet;

use pario_proto::{Shape, TilePosition};
use proptest::prelude::*;

use crate::slice::{BoxGrid, Interpolation, Plane};
use crate::{Pixel, Sample};

/// A volume in memory.
#[derive(Clone, Debug)]
pub struct Volume {
    pub shape: Shape,
    pub pixel: Pixel,
    pub voxels: Vec<u8>,
}

/// The voxels of one pixel with their weights in 2⁻²⁴.
pub type Mixture = Vec<([i64; 3], u32)>;

impl Volume {
    /// A volume of random bytes; floating-point numbers are finite.
    pub fn random(shape: Shape, pixel: Pixel, seed: u64) -> Volume {
        let mut random = fastrand::Rng::with_seed(seed);
        let voxels = shape.x * shape.y * shape.z;
        let channels = usize::try_from(voxels).unwrap() * pixel.channels();
        let mut bytes = Vec::new();
        for _ in 0..channels {
            match pixel.sample() {
                Sample::U8 | Sample::I8 => bytes.push(random.u8(..)),
                Sample::U16 | Sample::I16 => bytes.extend(random.u16(..).to_le_bytes()),
                Sample::F32 => bytes.extend((random.f32() * 4.0 - 2.0).to_le_bytes()),
            }
        }
        Volume { shape, pixel, voxels: bytes }
    }

    /// The bytes of a voxel.
    pub fn voxel(&self, at: [i64; 3]) -> &[u8] {
        let [x, y, z] = at.map(i64::unsigned_abs);
        let place = usize::try_from((z * self.shape.y + y) * self.shape.x + x).unwrap();
        &self.voxels[place * self.pixel.bytes()..][..self.pixel.bytes()]
    }

    /// The bytes of a box.
    pub fn stored(&self, grid: &BoxGrid, tile: TilePosition) -> Vec<u8> {
        let window = grid.stored(tile).unwrap();
        let mut bytes = Vec::new();
        for z in window.start.z..window.start.z + window.size.z {
            for y in window.start.y..window.start.y + window.size.y {
                for x in window.start.x..window.start.x + window.size.x {
                    bytes.extend_from_slice(self.voxel([x, y, z].map(u64::cast_signed)));
                }
            }
        }
        bytes
    }

    /// The weighted sum of a mixture, per channel.
    pub fn mix(&self, mixture: &Mixture) -> Vec<f64> {
        let bytes = self.pixel.sample().bytes();
        let mut sums = vec![0.0; self.pixel.channels()];
        for &(at, weight) in mixture {
            for (sum, channel) in sums.iter_mut().zip(self.voxel(at).chunks_exact(bytes)) {
                // Exact for whole numbers: a sum has less than 53 bits.
                *sum += number(self.pixel.sample(), channel) * f64::from(weight);
            }
        }
        sums
    }

    /// The slice, pixel by pixel.
    pub fn slice(&self, plane: &Plane, interpolation: Interpolation, background: &[u8]) -> Vec<u8> {
        let mut data = Vec::new();
        for j in 0..plane.height() {
            for i in 0..plane.width() {
                match mixture(self.shape, plane.position(i, j), interpolation) {
                    None => data.extend_from_slice(background),
                    Some(mixture) if mixture.len() == 1 => {
                        data.extend_from_slice(self.voxel(mixture[0].0));
                    }
                    Some(mixture) => {
                        for sum in self.mix(&mixture) {
                            put(self.pixel.sample(), sum / 16_777_216.0, &mut data);
                        }
                    }
                }
            }
        }
        data
    }
}

/// The mixture of a pixel at a position; `None` if it is background. All weights are above 0.
pub fn mixture(volume: Shape, at: [i64; 3], interpolation: Interpolation) -> Option<Mixture> {
    let size = [volume.x, volume.y, volume.z].map(u64::cast_signed);
    match interpolation {
        Interpolation::Nearest => {
            let voxel = at.map(|at| (at + (1 << 31)).div_euclid(1 << 32));
            let is_inside = (0..3).all(|axis| (0..size[axis]).contains(&voxel[axis]));
            is_inside.then(|| vec![(voxel, 1 << 24)])
        }
        Interpolation::Trilinear => {
            if (0..3).any(|axis| at[axis] < 0 || at[axis] > (size[axis] - 1) << 32) {
                return None;
            }
            let part = at.map(|at| u32::try_from(at.rem_euclid(1 << 32) >> 24).unwrap());
            let mut mixture = Vec::new();
            for (x, y, z) in (0..8).map(|corner| (corner & 1, corner >> 1 & 1, corner >> 2)) {
                let sides = [x, y, z].into_iter().zip(part);
                let weight: u32 =
                    sides.map(|(side, part)| if side == 0 { 256 - part } else { part }).product();
                if weight > 0 {
                    let voxel = [(at[0] >> 32) + x, (at[1] >> 32) + y, (at[2] >> 32) + z];
                    mixture.push((voxel, weight));
                }
            }
            Some(mixture)
        }
    }
}

/// The boxes that have pixels of a slice or shares of them, pixel by pixel.
pub fn boxes(grid: &BoxGrid, plane: &Plane, interpolation: Interpolation) -> Vec<TilePosition> {
    let core = [grid.core().x, grid.core().y, grid.core().z].map(u64::cast_signed);
    let mut found = BTreeSet::new();
    for j in 0..plane.height() {
        for i in 0..plane.width() {
            let at = plane.position(i, j);
            for (voxel, _) in mixture(grid.volume(), at, interpolation).into_iter().flatten() {
                // Along an axis with overlap, the box of the first neighbour has all of them.
                let owner = [0, 1, 2].map(|axis| {
                    let is_first = interpolation == Interpolation::Nearest;
                    let is_first = is_first || !grid.overlap()[axis];
                    let voxel = if is_first { voxel[axis] } else { at[axis] >> 32 };
                    (voxel / core[axis]).unsigned_abs()
                });
                found.insert((owner[2], owner[1], owner[0]));
            }
        }
    }
    found.into_iter().map(|(z, y, x)| TilePosition { x, y, z }).collect()
}

/// A channel as a number.
pub fn number(sample: Sample, channel: &[u8]) -> f64 {
    sample.value(channel)
}

/// Appends a number as a channel, rounded.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded to the type")]
pub fn put(sample: Sample, number: f64, data: &mut Vec<u8>) {
    match sample {
        Sample::U8 => data.push((number + 0.5) as u8),
        Sample::U16 => data.extend(((number + 0.5) as u16).to_le_bytes()),
        Sample::I8 => data.extend(((number + 0.5).floor() as i8).to_le_bytes()),
        Sample::I16 => data.extend(((number + 0.5).floor() as i16).to_le_bytes()),
        Sample::F32 => data.extend((number as f32).to_le_bytes()),
    }
}

/// Compares pixels: whole numbers must be equal, others equal within rounding.
pub fn assert_same(pixel: Pixel, ours: &[u8], reference: &[u8]) -> Result<(), TestCaseError> {
    if pixel.sample() != Sample::F32 {
        prop_assert_eq!(ours, reference);
        return Ok(());
    }
    prop_assert_eq!(ours.len(), reference.len());
    for (ours, reference) in ours.chunks_exact(4).zip(reference.chunks_exact(4)) {
        let (ours, reference) = (number(Sample::F32, ours), number(Sample::F32, reference));
        prop_assert!((ours - reference).abs() <= 1e-6, "{} is not {}", ours, reference);
    }
    Ok(())
}

pub fn pixels() -> impl Strategy<Value = Pixel> {
    let sample = prop::sample::select(Sample::ALL.to_vec());
    (sample, 1..=4u32).prop_map(|(sample, channels)| Pixel::new(sample, channels).unwrap())
}

pub fn interpolations() -> impl Strategy<Value = Interpolation> {
    prop_oneof![Just(Interpolation::Nearest), Just(Interpolation::Trilinear)]
}

/// Small volumes in boxes, also of one voxel and of more than the volume.
pub fn grids() -> impl Strategy<Value = BoxGrid> {
    let shape = |longest: u64| (1..=longest, 1..=longest, 1..=longest);
    (shape(14), shape(9), any::<[bool; 3]>()).prop_map(|(volume, core, overlap)| {
        let volume = Shape::volume(volume.0, volume.1, volume.2);
        BoxGrid::new(volume, Shape::volume(core.0, core.1, core.2), overlap).unwrap()
    })
}

/// Planes of all kinds, most of them near small volumes.
pub fn planes() -> impl Strategy<Value = Plane> {
    let size = (1..=24u32, 1..=24u32);
    let any = |range: f64| [-range..range, -range..range, -range..range];
    // Anywhere and in any direction, from a thousandth of a voxel to a thousand voxels per pixel.
    let scale = prop_oneof![4 => Just(1.0), 1 => Just(0.001), 1 => Just(0.1), 1 => Just(7.0), 1 => Just(1000.0)];
    let oblique = (any(12.0), any(1.5), any(1.5), scale, size.clone()).prop_map(
        |(center, right, down, scale, (width, height))| {
            let (right, down) = (right.map(|v| v * scale), down.map(|v| v * scale));
            let half = |pixels: u32| f64::from(pixels) / 2.0;
            let origin = [0, 1, 2].map(|axis| {
                center[axis] + 6.0 - half(width) * right[axis] - half(height) * down[axis]
            });
            (origin, right, down, width, height)
        },
    );
    // On voxels, on the borders between them, and a grain beside both; also parallel to axes.
    let place = (-2..16i32, prop_oneof![3 => Just(0.0), 1 => Just(0.5), 1 => Just(0.5 - 1.0 / 4_294_967_296.0), 1 => Just(1.0 / 256.0), 1 => Just(-1.0 / 4_294_967_296.0)])
        .prop_map(|(voxel, part)| f64::from(voxel) + part);
    let places = [place.clone(), place.clone(), place];
    let step = prop_oneof![3 => Just(0.0), 2 => Just(1.0), 1 => Just(-1.0), 1 => Just(0.5), 1 => Just(-2.0), 1 => Just(1.0 / 256.0)];
    let steps = [step.clone(), step.clone(), step];
    let straight = (places, steps.clone(), steps, size.clone())
        .prop_map(|(origin, right, down, (width, height))| (origin, right, down, width, height));
    // Far away.
    let far = (any(1e8), any(10.0), any(10.0), size)
        .prop_map(|(origin, right, down, (width, height))| (origin, right, down, width, height));
    prop_oneof![5 => oblique, 5 => straight, 1 => far].prop_filter_map(
        "a direction is zero",
        |(origin, right, down, width, height)| {
            Plane::in_voxels(origin, right, down, width, height).ok()
        },
    )
}
