//! Nearest voxels: the places of some pixels are computed first, then the voxels are copied.

use super::run::Run;

/// So many pixels are computed before they are copied.
const BATCH: usize = 64;

/// Adds the pixels of a run to `out`, from voxels of N bytes.
pub(super) fn add_run<const N: usize>(voxels: &[[u8; N]], run: &Run, out: &mut Vec<u8>) {
    let [mut x, mut y, mut z] = run.at.map(i64::cast_unsigned);
    let [right_x, right_y, right_z] = run.right.map(i64::cast_unsigned);
    let [_, stride_y, stride_z] = run.strides.map(|stride| stride as u64);
    if run.is_along_x() {
        let first = index((x >> 32) + (y >> 32) * stride_y + (z >> 32) * stride_z);
        out.extend_from_slice(voxels[first..first + run.len].as_flattened());
        return;
    }
    let mut places = [0u32; BATCH];
    let mut pixels = [[0; N]; BATCH];
    let mut left = run.len;
    while left > 0 {
        let count = left.min(BATCH);
        left -= count;
        for place in &mut places[..count] {
            *place = number((x >> 32) + (y >> 32) * stride_y + (z >> 32) * stride_z);
            x = x.wrapping_add(right_x);
            y = y.wrapping_add(right_y);
            z = z.wrapping_add(right_z);
        }
        for (pixel, &place) in pixels[..count].iter_mut().zip(&places) {
            *pixel = voxels[place as usize];
        }
        out.extend_from_slice(pixels[..count].as_flattened());
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a box has at most 2^31 voxels")]
fn number(place: u64) -> u32 {
    place as u32
}

fn index(place: u64) -> usize {
    number(place) as usize
}
