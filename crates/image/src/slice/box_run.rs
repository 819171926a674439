//! Consecutive pixels of a row in the coordinates of a box.

use super::grid::BoxPlacement;
use super::plane::{Plane, VOXEL};
use super::row_spans::RowSpan;

/// Pixels of one row and their positions in a box.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoxRun {
    /// The position of the first pixel, counted from the first voxel of the box.
    pub at: [i64; 3],
    /// The step to the next pixel.
    pub right: [i64; 3],
    /// Number of pixels.
    pub len: usize,
    /// Number of stored voxels along each axis.
    pub stored: [i64; 3],
    /// Distance in memory of neighbouring voxels along each axis, in voxels.
    pub strides: [usize; 3],
}

impl BoxRun {
    /// Returns the pixels of a span, each moved by `shift` along all axes.
    pub fn new(plane: &Plane, placement: &BoxPlacement, span: RowSpan, shift: i64) -> BoxRun {
        let at = plane.position(span.first, span.row);
        let [width, height, _] = placement.stored.map(size);
        BoxRun {
            at: [0, 1, 2].map(|axis| at[axis] - placement.start[axis] * VOXEL + shift),
            right: plane.right(),
            len: (span.end - span.first) as usize,
            stored: placement.stored,
            strides: [1, width, width * height],
        }
    }

    /// Returns whether the pixels are neighbouring voxels of a row.
    pub fn is_along_x(&self) -> bool {
        self.right == [VOXEL, 0, 0]
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a box has at most 2^31 voxels")]
fn size(voxels: i64) -> usize {
    voxels.unsigned_abs() as usize
}
