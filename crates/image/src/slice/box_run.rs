//! Some neighbouring pixels of a row, as a box sees them.

use super::grid::BoxPlacement;
use super::plane::{Plane, VOXEL};
use super::row_spans::RowSpan;

/// Pixels of one row and where they lie in a box.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoxRun {
    /// Where the first pixel lies, counted from the first voxel of the box.
    pub at: [i64; 3],
    /// The step to the next pixel.
    pub right: [i64; 3],
    /// How many pixels there are.
    pub len: usize,
    /// How many voxels are stored along each axis.
    pub stored: [i64; 3],
    /// How many voxels further the next one along each axis is stored.
    pub strides: [usize; 3],
}

impl BoxRun {
    /// The pixels of a span, each moved by `shift` along all axes.
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

    /// Whether the pixels are neighbouring voxels of a row.
    pub fn is_along_x(&self) -> bool {
        self.right == [VOXEL, 0, 0]
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a box has at most 2^31 voxels")]
fn size(voxels: i64) -> usize {
    voxels.unsigned_abs() as usize
}
