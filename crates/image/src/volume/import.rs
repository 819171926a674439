//! Imports volumes of other programs, plane by plane.

use pario_proto::{PixelWindow, Shape, TilePosition};

use super::{Volume, VolumeState, boxes};
use crate::error::ImageError;
use crate::formats::VolumeSource;

/// Limit for the bytes of planes in memory.
pub(super) const PLANES_LIMIT_BYTES: usize = 2 << 30;

impl Volume {
    /// Fills the volume from another one of the same size and voxels, plane by plane. `watch`
    /// receives the number of complete planes after each layer of boxes, and can stop the import.
    pub fn import(
        &self,
        source: &mut VolumeSource,
        mut watch: impl FnMut(u64) -> Result<(), ImageError>,
    ) -> Result<(), ImageError> {
        let state = &self.state;
        let shape = self.shape();
        let pixel = state.description.pixel;
        if source.size() != [shape.x, shape.y, shape.z] || source.pixel() != pixel {
            let [x, y, z] = source.size();
            return Err(ImageError::Invalid(format!(
                "{x} x {y} x {z} voxels of {} cannot become a volume of {shape} voxels of {pixel}",
                source.pixel()
            )));
        }
        let plane_bytes = state.description.bytes_of(Shape { z: 1, ..shape });
        let row_bytes = state.description.bytes_of(Shape::image(shape.x, 1));
        let core = state.tiles.tile().z;
        let deepest = usize::try_from(core + 1).unwrap_or(usize::MAX);
        if plane_bytes.saturating_mul(deepest) > PLANES_LIMIT_BYTES {
            return Err(ImageError::Invalid(format!(
                "{deepest} planes of {plane_bytes} bytes do not fit into memory ({PLANES_LIMIT_BYTES} \
                 bytes): make the boxes thinner"
            )));
        }
        let mut planes: Vec<u8> = Vec::new();
        let mut read = 0;
        for layer in 0..state.tiles.tiles_per_axis().z {
            let first = layer * core;
            let corner = TilePosition { x: 0, y: 0, z: layer };
            let depth = state.grid.stored(corner).map_or(0, |stored| stored.size.z);
            while read < first + depth {
                let start = planes.len();
                planes.resize(start + plane_bytes, 0);
                for row in planes[start..].chunks_exact_mut(row_bytes) {
                    source.next_row(row)?;
                }
                read += 1;
            }
            boxes::for_each_box(state, layer, |tile, voxels: &mut Vec<u8>| {
                let Some(stored) = state.grid.stored(tile) else { return Ok(()) };
                gather(state, stored, &planes, voxels);
                boxes::write_box(state, tile, voxels)
            })?;
            let done = (first + core).min(shape.z);
            let kept = usize::try_from(read - done).unwrap_or(0) * plane_bytes;
            planes.drain(..planes.len() - kept);
            watch(done)?;
        }
        Ok(())
    }
}

/// Copies the voxels of a box out of planes; the first plane is that of the box.
fn gather(state: &VolumeState, stored: PixelWindow, planes: &[u8], voxels: &mut Vec<u8>) {
    let (shape, bytes) = (state.tiles.image(), state.description.pixel.bytes());
    let at = |pixel: u64| usize::try_from(pixel).unwrap_or(usize::MAX).saturating_mul(bytes);
    voxels.clear();
    for z in 0..stored.size.z {
        for y in stored.start.y..stored.start.y + stored.size.y {
            let first = at((z * shape.y + y) * shape.x + stored.start.x);
            voxels.extend_from_slice(&planes[first..first + at(stored.size.x)]);
        }
    }
}
