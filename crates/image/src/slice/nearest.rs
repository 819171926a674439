//! Nearest voxels.

use super::box_run::BoxRun;

/// Copies the pixels of a run to `out`, from voxels of N bytes.
pub(super) fn copy_run<const N: usize>(voxels: &[[u8; N]], run: &BoxRun, out: &mut [[u8; N]]) {
    let [mut x, mut y, mut z] = run.at.map(i64::cast_unsigned);
    let [right_x, right_y, right_z] = run.right.map(i64::cast_unsigned);
    let [_, stride_y, stride_z] = run.strides.map(|stride| stride as u64);
    if run.is_along_x() {
        let first = index((x >> 32) + (y >> 32) * stride_y + (z >> 32) * stride_z);
        out.copy_from_slice(&voxels[first..first + run.len]);
        return;
    }
    for pixel in out {
        *pixel = voxels[index((x >> 32) + (y >> 32) * stride_y + (z >> 32) * stride_z)];
        x = x.wrapping_add(right_x);
        y = y.wrapping_add(right_y);
        z = z.wrapping_add(right_z);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a box has at most 2^31 voxels")]
fn index(place: u64) -> usize {
    place as usize
}
