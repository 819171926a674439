//! Exports volumes to other programs, plane by plane.

use pario_proto::{PixelWindow, Shape};
use parking_lot::Mutex;

use super::import::PLANES_LIMIT_BYTES;
use super::{Volume, VolumeState, boxes};
use crate::error::ImageError;
use crate::formats::RowSink;

impl Volume {
    /// Writes all voxels, plane after plane, to a file of another format. Unwritten voxels are 0.
    /// `watch` receives the number of complete planes after each layer of boxes, and can stop the
    /// export.
    pub fn export(
        &self,
        mut sink: Box<dyn RowSink>,
        mut watch: impl FnMut(u64) -> Result<(), ImageError>,
    ) -> Result<(), ImageError> {
        let state = &self.state;
        let shape = self.shape();
        let plane_bytes = state.description.bytes_of(Shape { z: 1, ..shape });
        let row_bytes = state.description.bytes_of(Shape::image(shape.x, 1));
        let core = state.tiles.tile().z;
        let deepest = usize::try_from(core.min(shape.z)).unwrap_or(usize::MAX);
        if deepest.saturating_mul(plane_bytes) > PLANES_LIMIT_BYTES {
            return Err(ImageError::Invalid(format!(
                "{deepest} planes of {plane_bytes} bytes do not fit into memory \
                 ({PLANES_LIMIT_BYTES} bytes): import it with thinner boxes"
            )));
        }
        for layer in 0..state.tiles.tiles_per_axis().z {
            let first = layer * core;
            let depth = core.min(shape.z - first);
            let count = usize::try_from(depth).unwrap_or(usize::MAX);
            let planes = Mutex::new(vec![0; count.saturating_mul(plane_bytes)]);
            boxes::for_each_box(state, layer, |tile, (): &mut ()| {
                if let Some((stored, voxels)) = boxes::read_box(state, tile)? {
                    scatter(state, stored, depth, &voxels, &mut planes.lock());
                }
                Ok(())
            })?;
            for row in planes.into_inner().chunks_exact(row_bytes) {
                sink.put_row(row)?;
            }
            watch(first + depth)?;
        }
        Ok(sink.finish()?)
    }
}

/// Copies the voxels of a box into planes; the first plane is that of the box. Layers that the box
/// shares with the next one are written twice, with the same voxels.
fn scatter(state: &VolumeState, stored: PixelWindow, depth: u64, voxels: &[u8], planes: &mut [u8]) {
    let (shape, bytes) = (state.tiles.image(), state.description.pixel.bytes());
    let at = |pixel: u64| usize::try_from(pixel).unwrap_or(usize::MAX).saturating_mul(bytes);
    for z in 0..stored.size.z.min(depth) {
        for y in 0..stored.size.y {
            let from = at((z * stored.size.y + y) * stored.size.x);
            let to = at((z * shape.y + stored.start.y + y) * shape.x + stored.start.x);
            let row = &voxels[from..from + at(stored.size.x)];
            planes[to..to + row.len()].copy_from_slice(row);
        }
    }
}
