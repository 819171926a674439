//! How a volume is cut into boxes.
//!
//! Invariants: the cores of the boxes fill the volume without gaps and without overlap. Along an
//! axis with overlap, a box also stores the first layer of its neighbour, unless it is the last.
//! Stored voxels end at the edge of the volume.

use pario_proto::{PixelPosition, PixelWindow, Shape, TilePosition};
use thiserror::Error;

use super::plane::{HALF, REACH_VOXELS, VOXEL};
use super::row_spans::Region;
use super::trilinear::GRAIN;

/// A volume in boxes.
///
/// ```
/// use pario_image::BoxGrid;
/// use pario_proto::{Shape, TilePosition};
///
/// let (volume, core) = (Shape::volume(2048, 1216, 1878), Shape::volume(32, 32, 16));
/// let grid = BoxGrid::new(volume, core, [false, false, true])?;
/// let stored = grid.stored(TilePosition::volume(1, 2, 3)).unwrap();
/// assert_eq!(stored.size, Shape::volume(32, 32, 17));
/// # Ok::<(), pario_image::BoxGridError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxGrid {
    volume: Shape,
    core: Shape,
    overlap: [bool; 3],
}

/// The error of a volume that cannot be cut into these boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BoxGridError {
    /// The volume or the box is empty.
    #[error("a volume of {volume} voxels in boxes of {core} is empty: every axis needs at least 1")]
    Empty {
        /// The size of the volume.
        volume: Shape,
        /// The size of a box.
        core: Shape,
    },
    /// The volume is too long.
    #[error(
        "a volume of {volume} voxels is too long for slices: an axis has at most {REACH_VOXELS} voxels"
    )]
    TooLong {
        /// The size of the volume.
        volume: Shape,
    },
    /// A box is too large.
    #[error("a box of {core} voxels is too large: choose boxes of at most 2^31 voxels")]
    LargeBox {
        /// The size of a box.
        core: Shape,
    },
}

/// The placement of a box in the coordinates of the volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoxPlacement {
    /// The first voxel.
    pub start: [i64; 3],
    /// Number of stored voxels along each axis.
    pub stored: [i64; 3],
    core_end: [i64; 3],
    volume: [i64; 3],
    overlap: [bool; 3],
}

impl BoxGrid {
    /// Cuts a volume into boxes of a size that store one more layer along the axes with overlap.
    pub fn new(volume: Shape, core: Shape, overlap: [bool; 3]) -> Result<BoxGrid, BoxGridError> {
        if volume.is_empty() || core.is_empty() {
            return Err(BoxGridError::Empty { volume, core });
        }
        if axes(volume).iter().any(|&voxels| voxels > REACH_VOXELS) {
            return Err(BoxGridError::TooLong { volume });
        }
        let stored = |axis: usize| {
            axes(core)[axis].saturating_add(overlap[axis].into()).min(axes(volume)[axis])
        };
        match stored(0).checked_mul(stored(1)).and_then(|plane| plane.checked_mul(stored(2))) {
            Some(voxels) if voxels <= 1 << 31 => Ok(BoxGrid { volume, core, overlap }),
            _ => Err(BoxGridError::LargeBox { core }),
        }
    }

    /// Returns the size of the volume in voxels.
    pub fn volume(&self) -> Shape {
        self.volume
    }

    /// Returns the size of a box in voxels, without the layers of its neighbours.
    pub fn core(&self) -> Shape {
        self.core
    }

    /// Returns the axes along which a box stores the first layer of the next.
    pub fn overlap(&self) -> [bool; 3] {
        self.overlap
    }

    /// Returns the number of boxes along each axis.
    pub fn boxes_per_axis(&self) -> Shape {
        let (volume, core) = (self.volume, self.core);
        Shape {
            x: volume.x.div_ceil(core.x),
            y: volume.y.div_ceil(core.y),
            z: volume.z.div_ceil(core.z),
        }
    }

    /// Returns the voxels that a box stores; `None` if there is no such box.
    pub fn stored(&self, tile: TilePosition) -> Option<PixelWindow> {
        let placement = self.placement(tile)?;
        let [x, y, z] = placement.start.map(i64::unsigned_abs);
        let [width, height, depth] = placement.stored.map(i64::unsigned_abs);
        Some(PixelWindow {
            start: PixelPosition { x, y, z },
            size: Shape { x: width, y: height, z: depth },
        })
    }

    pub(super) fn placement(&self, tile: TilePosition) -> Option<BoxPlacement> {
        let (volume, core) = (axes(self.volume), axes(self.core));
        let tile = [tile.x, tile.y, tile.z];
        let mut placement = BoxPlacement {
            start: [0; 3],
            stored: [0; 3],
            core_end: [0; 3],
            volume: volume.map(u64::cast_signed),
            overlap: self.overlap,
        };
        for axis in 0..3 {
            let start = tile[axis].checked_mul(core[axis])?;
            if start >= volume[axis] {
                return None;
            }
            let end = start.saturating_add(core[axis]).min(volume[axis]);
            let stored_end = (end + u64::from(self.overlap[axis])).min(volume[axis]);
            placement.start[axis] = start.cast_signed();
            placement.core_end[axis] = end.cast_signed();
            placement.stored[axis] = (stored_end - start).cast_signed();
        }
        Some(placement)
    }
}

impl BoxPlacement {
    /// Returns the region whose nearest voxel is one of the core.
    pub fn nearest(&self) -> Region {
        Region {
            lo: self.start.map(|start| start * VOXEL - HALF),
            hi: self.core_end.map(|end| end * VOXEL - HALF),
        }
    }

    /// Returns the region whose neighbouring voxels are all stored in the box, the first of them in
    /// the core.
    pub fn complete(&self) -> Region {
        let end = |axis: usize| (self.start[axis] + self.stored[axis] - 1) * VOXEL + GRAIN;
        let hi = [0, 1, 2].map(|axis| self.end(axis).min(end(axis)));
        Region { lo: self.start.map(|start| start * VOXEL), hi }
    }

    /// Returns the region of which the box has a share.
    pub fn shared(&self) -> Region {
        let lo = [0, 1, 2].map(|axis| {
            let start = self.start[axis] * VOXEL;
            if self.overlap[axis] || start == 0 { start } else { start - VOXEL + GRAIN }
        });
        Region { lo, hi: [0, 1, 2].map(|axis| self.end(axis)) }
    }

    fn end(&self, axis: usize) -> i64 {
        (self.core_end[axis] * VOXEL).min((self.volume[axis] - 1) * VOXEL + 1)
    }
}

pub(super) fn axes(shape: Shape) -> [u64; 3] {
    [shape.x, shape.y, shape.z]
}
