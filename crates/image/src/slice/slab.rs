//! Several parallel slices blended into one.
//!
//! Invariants: for a mean, weights and sums of all slices are added and rounded once, so the result
//! does not depend on how the volume is cut. For a maximum, complete pixels are compared; shares of
//! pixels between boxes are kept until all of them are there.

use pario_proto::TilePosition;
use serde::{Deserialize, Serialize};

use super::boxes;
use super::cut::{CutError, ExtractError, add_parts, check_pixel, checked_placement, for_sums};
use super::grid::BoxGrid;
use super::interpolation::Interpolation;
use super::parts::SliceParts;
use super::plane::{Plane, PlaneError};
use super::row_spans::PlaneSteps;
use super::slab_parts::SlabParts;
use crate::pixel::Pixel;

/// How pixels that lie behind each other are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Blend {
    /// The largest value of each channel.
    Maximum,
    /// The mean of the pixels that lie in the volume.
    Mean,
}

/// A slice with others behind it; see
/// [`SliceQuery::slab_in_volume`](super::SliceQuery::slab_in_volume).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Slab {
    plane: Plane,
    step: [i64; 3],
    depth: u32,
    blend: Blend,
}

/// A slab through a volume whose boxes lie at different places.
///
/// ```
/// use pario_image::{Blend, BoxGrid, Interpolation, Pixel, Plane, SlabCut};
/// use pario_proto::Shape;
///
/// let grid = BoxGrid::new(Shape::volume(8, 8, 8), Shape::volume(4, 4, 4), [false; 3])?;
/// let plane = Plane::spanned([0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).size(8, 8);
/// let slab = plane.slab_in_volume([1.0; 3], 8, 1.0, Blend::Mean)?;
/// let cut = SlabCut::new(slab, grid, Pixel::GREY, Interpolation::Nearest)?;
///
/// let mut whole = cut.blank();
/// for tile in cut.boxes() {
///     let mut part = cut.blank(); // One for each thread of a node.
///     let value = if tile.z == 0 { 10 } else { 20 };
///     cut.extract(tile, &[value; 64], &mut part)?;
///     whole.merge(&part);
/// }
/// assert_eq!(whole.finish(&[0])?.into_data()?, [15; 64]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SlabCut {
    slab: Slab,
    plane_steps: PlaneSteps,
    grid: BoxGrid,
    pixel: Pixel,
    interpolation: Interpolation,
}

impl Slab {
    /// Creates `depth` slices, each a step behind the one before it.
    pub(super) fn new(
        plane: Plane,
        step: [i64; 3],
        depth: u32,
        blend: Blend,
    ) -> Result<Slab, PlaneError> {
        let slab = Slab { plane, step, depth, blend };
        slab.validate()?;
        Ok(slab)
    }

    /// Checks a slab from another process.
    pub fn validate(&self) -> Result<(), PlaneError> {
        self.plane.validate_with(self.step, self.depth)
    }

    /// Returns the first slice.
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// Returns the number of slices.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns how they are combined.
    pub fn blend(&self) -> Blend {
        self.blend
    }

    pub(super) fn layers(&self) -> impl Iterator<Item = (u16, Plane)> {
        (0..=u16::MAX)
            .take(self.depth as usize)
            .map(|layer| (layer, self.plane.moved(self.step, layer.into())))
    }
}

impl SlabCut {
    /// Creates a slab through a volume. Checks slab and pixel, which may come from another process.
    pub fn new(
        slab: Slab,
        grid: BoxGrid,
        pixel: Pixel,
        interpolation: Interpolation,
    ) -> Result<SlabCut, CutError> {
        slab.validate()?;
        check_pixel(pixel)?;
        Ok(SlabCut { plane_steps: PlaneSteps::new(&slab.plane), slab, grid, pixel, interpolation })
    }

    /// Returns the slab.
    pub fn slab(&self) -> &Slab {
        &self.slab
    }

    /// Returns the boxes that have pixels of one of the slices, or shares of pixels, each once; x
    /// fastest, then y, then z.
    pub fn boxes(&self) -> Vec<TilePosition> {
        let mut boxes = Vec::new();
        for (_, plane) in self.slab.layers() {
            boxes::add_boxes(
                &self.grid,
                (&self.plane_steps, &plane),
                self.interpolation,
                &mut boxes,
            );
            // This limits memory to twice the result and the boxes of one slice.
            boxes::sort_and_dedup(&mut boxes);
        }
        boxes
    }

    /// Adds the part of the slab that lies in a box with these stored voxels.
    pub fn extract(
        &self,
        tile: TilePosition,
        voxels: &[u8],
        parts: &mut SlabParts,
    ) -> Result<(), ExtractError> {
        let placement = checked_placement(&self.grid, self.pixel, tile, voxels)?;
        let kind = (self.pixel, self.interpolation);
        for (layer, plane) in self.slab.layers() {
            match self.slab.blend {
                Blend::Mean => for_sums(
                    (&self.plane_steps, &plane),
                    &placement,
                    kind,
                    voxels,
                    |span, weight, sums| {
                        parts.add_sum(span, weight, sums);
                    },
                ),
                Blend::Maximum => {
                    let mut found = SliceParts::new();
                    add_parts(
                        (&self.plane_steps, &plane),
                        &placement,
                        kind,
                        voxels,
                        layer,
                        &mut found,
                    );
                    parts.add_pixels(&found);
                }
            }
        }
        Ok(())
    }

    /// Returns the slab without parts.
    pub fn blank(&self) -> SlabParts {
        let plane = &self.slab.plane;
        let size = (plane.width(), plane.height());
        SlabParts::new(self.slab.blend, self.slab.depth, self.pixel, size)
    }
}
