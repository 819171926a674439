//! Texture from hashed whole numbers: the same on every machine for the same seed.

use super::shape::{LANES, Lanes, RowPosition};

/// Limit for the cells that the voxels of a row share.
const COLUMNS: i32 = 64;

/// Returns a well-mixed number for a point of a lattice.
pub(super) fn hash(seed: u32, x: i32, y: i32, z: i32) -> u32 {
    let mut mixed = seed
        ^ x.cast_unsigned().wrapping_mul(0x9E37_79B1)
        ^ y.cast_unsigned().wrapping_mul(0x85EB_CA77)
        ^ z.cast_unsigned().wrapping_mul(0xC2B2_AE3D);
    mixed = (mixed ^ mixed >> 15).wrapping_mul(0x2C1B_3C6D);
    mixed = (mixed ^ mixed >> 12).wrapping_mul(0x297A_2D39);
    mixed ^ mixed >> 15
}

/// Returns a hash as a number from 0 up to 1.
pub(super) fn unit(hash: u32) -> f32 {
    // 24 bits are exact.
    (hash >> 8) as f32 / 16_777_216.0
}

/// Smooth values between 0 and 1 that change within about a cell; the cell size is given per axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    pub seed: u32,
    pub cells_per_cm: [f32; 3],
}

impl Noise {
    /// Returns the values along a row.
    pub fn row(&self, row: &RowPosition) -> Lanes {
        let [per_x, per_y, per_z] = self.cells_per_cm;
        let (y, part_y) = split(row.y * per_y);
        let (z, part_z) = split(row.z * per_z);
        let (below, behind) = (y.wrapping_add(1), z.wrapping_add(1));
        let column = |x: i32| {
            let corner = |y: i32, z: i32| unit(hash(self.seed, x, y, z));
            let near = mix(corner(y, z), corner(below, z), part_y);
            let far = mix(corner(y, behind), corner(below, behind), part_y);
            mix(near, far, part_z)
        };
        let places = row.x.map(|x| split(x * per_x));
        let (first, last) = (places[0].0, places[LANES - 1].0.wrapping_add(1));
        if last.wrapping_sub(first) >= COLUMNS {
            // Voxels are larger than cells: they share no columns.
            return places.map(|(x, part)| mix(column(x), column(x.wrapping_add(1)), part));
        }
        let mut columns = [0.0; COLUMNS as usize];
        for (x, slot) in (first..=last).zip(&mut columns) {
            *slot = column(x);
        }
        places.map(|(x, part)| {
            let at = x.wrapping_sub(first).cast_unsigned() as usize % (COLUMNS as usize);
            mix(columns[at], columns[(at + 1) % COLUMNS as usize], part)
        })
    }
}

/// Returns the whole cell and a smooth fraction of the way to the next.
fn split(at: f32) -> (i32, f32) {
    let cell = floor(at);
    let part = at - cell as f32;
    (cell, part * part * (3.0 - 2.0 * part))
}

#[expect(clippy::cast_possible_truncation, reason = "positions in a body are small")]
pub(super) fn floor(at: f32) -> i32 {
    let whole = at as i32;
    whole.wrapping_sub(i32::from((whole as f32) > at))
}

/// Interpolates between two numbers.
pub(super) fn mix(one: f32, two: f32, part: f32) -> f32 {
    one + (two - one) * part
}
