//! Synthetic body scans, because no real one can be shipped.
//!
//! Invariants: a voxel depends on the seed, on the shape and spacing of the volume, and on its
//! position, and on nothing else. So every box can be generated alone, anywhere and at any time.
//! Parts are selected for blocks of the volume that do not depend on the requested box.

mod body;
mod noise;
mod shape;
#[cfg(test)]
mod tests;
mod tissue;

use pario_proto::{PixelPosition, Shape};
use thiserror::Error;

use crate::pixel::{Pixel, Sample};
use body::{BodyPart, DEPTH_CM, HEIGHT_CM, PhantomBody, WIDTH_CM};
use noise::{Noise, hash, unit};
use shape::{Bounds, Knot, LANES, Lanes, RowPosition};
use tissue::{Paint, Tissue, TissueSample, paint};

/// Length of a block along each axis, in voxels.
const BLOCK: u64 = LANES as u64;

/// Distance within which parts of the outline blend into each other.
const SMOOTH_CM: f32 = 2.0;

/// A synthetic body that depends on a seed: skin, fat, muscles, bones and organs, in colour or
/// grey.
///
/// The head is at z = 0, the face at small y, the left hand at large x. The volume shows the body
/// in its full width; if it is too short for all of it, it shows the upper part. Pixels of 1
/// channel are densities, as in a tomogram; of 3 channels, colours. With 2 or 4 channels the last
/// one is white for the body and 0 around it.
///
/// ```
/// use pario_image::{Phantom, Pixel};
/// use pario_proto::{PixelPosition, Shape};
///
/// let volume = Shape::volume(66, 36, 180);
/// let phantom = Phantom::new(7, volume, [1.0, 1.0, 1.0])?;
/// let mut row = [0; 3 * 66];
/// let (start, size) = (PixelPosition::volume(0, 18, 50), Shape::volume(66, 1, 1));
/// phantom.fill(start, size, Pixel::RGB, &mut row);
/// assert_eq!(row[..3], [0, 0, 0], "beside the body");
/// assert_ne!(row[3 * 33..][..3], [0, 0, 0], "within it");
/// # Ok::<(), pario_image::PhantomError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Phantom {
    seed: u32,
    body: PhantomBody,
    /// Centimetres from voxel to voxel.
    step: [f64; 3],
    /// Position of voxel 0.
    origin: [f64; 3],
}

/// The error of a body that cannot be generated.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum PhantomError {
    /// The volume has no voxels.
    #[error("a volume of {volume} voxels is empty: every axis needs at least 1")]
    Empty {
        /// The size given.
        volume: Shape,
    },
    /// The spacing is not positive.
    #[error("the voxels of the volume are {spacing} apart: give spacings above 0 for each axis")]
    Spacing {
        /// The spacing given.
        spacing: f64,
    },
}

impl Phantom {
    /// Creates a body for a volume with this spacing, in any unit.
    pub fn new(seed: u64, volume: Shape, spacing: [f64; 3]) -> Result<Phantom, PhantomError> {
        if volume.is_empty() {
            return Err(PhantomError::Empty { volume });
        }
        if let Some(&spacing) = spacing.iter().find(|side| !(side.is_finite() && **side > 0.0)) {
            return Err(PhantomError::Spacing { spacing });
        }
        let sides = [volume.x, volume.y, volume.z].map(|voxels| voxels as f64);
        let [width, depth, length] = [0, 1, 2].map(|axis| sides[axis] * spacing[axis]);
        let cm = (f64::from(WIDTH_CM) / width).max(f64::from(DEPTH_CM) / depth);
        let length = length * cm;
        let start = if length < f64::from(HEIGHT_CM) {
            // A short volume shows the chest rather than the head.
            ((70.0 - length) * 0.9).clamp(-2.0, 36.0)
        } else {
            (f64::from(HEIGHT_CM) - length) / 2.0
        };
        let step = spacing.map(|side| side * cm);
        let half = |axis: usize| step[axis] / 2.0;
        let origin =
            [half(0) - width * cm / 2.0, half(1) - depth * cm / 2.0 + 0.5, half(2) + start];
        let [a, b, c, d, e, f, g, h] = seed.to_le_bytes();
        let seed =
            u32::from_le_bytes([a, b, c, d]) ^ hash(u32::from_le_bytes([e, f, g, h]), 1, 2, 3);
        Ok(Phantom { seed, body: PhantomBody::new(seed), step, origin })
    }

    /// Generates the voxels of a box.
    ///
    /// # Panics
    ///
    /// If `out` does not have exactly the bytes of the box.
    pub fn fill(&self, start: PixelPosition, size: Shape, pixel: Pixel, out: &mut [u8]) {
        let voxels = u128::from(size.x) * u128::from(size.y) * u128::from(size.z);
        let fits = voxels * pixel.bytes() as u128 == out.len() as u128;
        assert!(fits, "a box of {size} voxels of {pixel} does not have {} bytes", out.len());
        let mut block = PhantomBlock::default();
        for z in parts(start.z, size.z) {
            for y in parts(start.y, size.y) {
                for x in parts(start.x, size.x) {
                    self.choose(&mut block, [x.0, y.0, z.0].map(|at| at / BLOCK * BLOCK));
                    for z in z.0..z.1 {
                        block.set_height(self.cm(2, z));
                        for y in y.0..y.1 {
                            let row = ((z - start.z) * size.y + (y - start.y)) * size.x;
                            let first = place(row + (x.0 - start.x)) * pixel.bytes();
                            let bytes = place(x.1 - x.0) * pixel.bytes();
                            let out = &mut out[first..first + bytes];
                            self.fill_row(&block, [x.0, y, z], pixel, out);
                        }
                    }
                }
            }
        }
    }

    /// Returns the position of a voxel along an axis.
    fn cm(&self, axis: usize, at: u64) -> f32 {
        narrow(at as f64 * self.step[axis] + self.origin[axis])
    }

    /// Selects the parts that matter in a block.
    fn choose<'a>(&'a self, block: &mut PhantomBlock<'a>, start: [u64; 3]) {
        let bounds = Bounds {
            low: [0, 1, 2].map(|axis| self.cm(axis, start[axis])),
            high: [0, 1, 2].map(|axis| self.cm(axis, start[axis].saturating_add(BLOCK))),
        };
        let choose = |parts: &'a [BodyPart], widened: f32, chosen: &mut Vec<BlockPart<'a>>| {
            chosen.clear();
            let bounds = bounds.widened(widened);
            let parts = parts.iter().filter(|part| part.bounds.intersects(&bounds));
            chosen.extend(parts.map(|part| BlockPart { part, section: None }));
        };
        choose(&self.body.outline, SMOOTH_CM, &mut block.outline);
        choose(&self.body.inside, 0.0, &mut block.inside);
    }

    /// Generates a row of a block, from a voxel on.
    fn fill_row(&self, block: &PhantomBlock<'_>, start: [u64; 3], pixel: Pixel, out: &mut [u8]) {
        let [x, y, z] = start;
        let mut row = RowPosition { x: [0.0; LANES], y: self.cm(1, y), z: self.cm(2, z) };
        // Always compute from the start of the block.
        let first = x / BLOCK * BLOCK;
        for (lane, slot) in (0..).zip(&mut row.x) {
            *slot = self.cm(0, first.saturating_add(lane));
        }
        let skin = depths_of_outline(block, &row);
        let skip = place(x - first);
        let lanes = skip..skip + out.len() / pixel.bytes();
        if skin[lanes.clone()].iter().all(|depth| *depth <= 0.0) {
            out.fill(0);
            return;
        }
        let slow = self.texture(1, 0.4, &row);
        let fast = self.texture(2, 1.7, &row);
        let (tissues, depths) = tissues(block, &row, &skin, &slow);
        for (lane, out) in lanes.zip(out.chunks_exact_mut(pixel.bytes())) {
            let [x, y, z] = [low(first.saturating_add(lane as u64)), low(y), low(z)];
            let grain = unit(hash(self.seed, x, y, z)) - 0.5;
            let sample = TissueSample {
                tissue: tissues[lane],
                depth: depths[lane],
                slow: slow[lane],
                fast: fast[lane],
                grain,
            };
            put(&paint(&sample), sample.tissue != Tissue::Outside, pixel, out);
        }
    }

    /// Returns a texture with `cells_per_cm` cells per centimetre, along a row.
    fn texture(&self, number: i32, cells_per_cm: f32, row: &RowPosition) -> Lanes {
        // Two layers with different slants hide the lattice.
        let layer = |layer: i32, fineness: f32, slant: [f32; 3]| {
            let seed = hash(self.seed, number, layer, 0);
            let mut row = *row;
            for x in &mut row.x {
                *x += slant[0] * row.y + slant[1] * row.z;
            }
            row.y += slant[2] * row.z;
            Noise {
                seed,
                cells_per_cm: [1.0, 1.15, 0.6].map(|cells| cells * cells_per_cm * fineness),
            }
            .row(&row)
        };
        let (mut sum, more) =
            (layer(1, 1.0, [0.62, 0.31, 0.23]), layer(2, 1.63, [-0.71, 0.17, -0.37]));
        for (value, more) in sum.iter_mut().zip(more) {
            *value = 0.6 * *value + 0.4 * more;
        }
        sum
    }
}

/// The parts that matter in a block.
#[derive(Default)]
struct PhantomBlock<'a> {
    outline: Vec<BlockPart<'a>>,
    inside: Vec<BlockPart<'a>>,
}

/// A part and its cross-section at the current height.
struct BlockPart<'a> {
    part: &'a BodyPart,
    section: Option<Knot>,
}

impl PhantomBlock<'_> {
    /// Computes the cross-sections for rows at a height.
    fn set_height(&mut self, z: f32) {
        for chosen in self.outline.iter_mut().chain(&mut self.inside) {
            chosen.section = chosen.part.solid.section(z);
        }
    }
}

impl BlockPart<'_> {
    fn depths(&self, row: &RowPosition) -> Lanes {
        self.part.solid.depths(row, &self.part.bounds, self.section.as_ref())
    }
}

/// Returns depths under the skin: the parts of the outline blend into each other.
fn depths_of_outline(block: &PhantomBlock<'_>, row: &RowPosition) -> Lanes {
    let mut depths = [-100.0; LANES];
    for part in &block.outline {
        for (depth, new) in depths.iter_mut().zip(part.depths(row)) {
            let near = (SMOOTH_CM - (*depth - new).abs()).max(0.0);
            *depth = depth.max(new) + near * near / (4.0 * SMOOTH_CM);
        }
    }
    depths
}

/// Returns the tissue of each voxel of a row, and its depth in it.
fn tissues(
    block: &PhantomBlock<'_>,
    row: &RowPosition,
    skin: &Lanes,
    slow: &Lanes,
) -> ([Tissue; LANES], Lanes) {
    let mut tissues = [Tissue::Outside; LANES];
    let mut depths = *skin;
    for lane in 0..LANES {
        let depth = skin[lane];
        // More fat around the belly and hips than on head and hands.
        let around_hips = (1.0 - ((row.z - 84.0) / 34.0).abs()).max(0.0);
        let fat = 0.35 + 0.5 * slow[lane] + 0.9 * around_hips;
        tissues[lane] = match depth {
            ..=0.0 => Tissue::Outside,
            ..=0.24 => Tissue::Skin,
            depth if depth <= 0.24 + fat => Tissue::Fat,
            _ => Tissue::Muscle,
        };
    }
    for chosen in &block.inside {
        let part = chosen.part;
        let is_here = (0..2).all(|at| {
            let value = [row.y, row.z][at];
            part.bounds.low[at + 1] <= value && value <= part.bounds.high[at + 1]
        });
        if !is_here {
            continue;
        }
        let found = chosen.depths(row);
        for lane in 0..LANES {
            // Nothing breaks through the skin.
            if found[lane] > 0.0 && skin[lane] > 0.24 {
                tissues[lane] = part.tissue;
                depths[lane] = found[lane];
            }
        }
    }
    (tissues, depths)
}

fn put(paint: &Paint, is_body: bool, pixel: Pixel, out: &mut [u8]) {
    let [red, green, blue, density] = *paint;
    let body = if is_body { 1.0 } else { 0.0 };
    let channels = match pixel.channels() {
        1 | 2 => [density, body, 0.0, 0.0],
        _ => [red, green, blue, body],
    };
    for (value, out) in channels.into_iter().zip(out.chunks_exact_mut(pixel.sample().bytes())) {
        match pixel.sample() {
            Sample::U8 => out.copy_from_slice(&[steps(value, 255.0).to_le_bytes()[0]]),
            Sample::U16 => out.copy_from_slice(&steps(value, 65_535.0).to_le_bytes()),
            Sample::I8 => out.copy_from_slice(&[steps(value, 127.0).to_le_bytes()[0]]),
            Sample::I16 => out.copy_from_slice(&steps(value, 32_767.0).to_le_bytes()),
            Sample::F32 => out.copy_from_slice(&value.to_le_bytes()),
        }
    }
}

/// Splits a range at the borders of blocks.
fn parts(start: u64, size: u64) -> impl Iterator<Item = (u64, u64)> + Clone {
    let end = start.saturating_add(size);
    (start / BLOCK..end.div_ceil(BLOCK))
        .map(move |block| {
            ((block * BLOCK).max(start), (block * BLOCK).saturating_add(BLOCK).min(end))
        })
        .filter(|(from, to)| from < to)
}

#[expect(clippy::cast_possible_truncation, reason = "centimetres do not need more")]
fn narrow(at: f64) -> f32 {
    at as f32
}

#[expect(clippy::cast_possible_truncation, reason = "checked against bytes in memory")]
fn place(at: u64) -> usize {
    at as usize
}

#[expect(clippy::cast_possible_truncation, reason = "the low bits are enough for a hash")]
fn low(at: u64) -> i32 {
    at as i32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 0 to the largest"
)]
fn steps(value: f32, largest: f32) -> u16 {
    (value * largest + 0.5) as u16
}
