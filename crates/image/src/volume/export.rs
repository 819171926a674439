//! Volumes for other programs, plane by plane.

use std::sync::atomic::{AtomicUsize, Ordering};

use pario_proto::{PixelWindow, Shape, TilePosition};
use parking_lot::Mutex;

use super::import::{PLANES_LIMIT_BYTES, WRITERS};
use super::{Shared, Volume};
use crate::error::ImageError;
use crate::formats::RowSink;

impl Volume {
    /// Writes all voxels, plane after plane, to a file of another format. What nobody has written is
    /// 0. `watch` is told after each layer of boxes how many planes are done.
    pub fn export(
        &self,
        mut sink: Box<dyn RowSink>,
        mut watch: impl FnMut(u64) -> Result<(), ImageError>,
    ) -> Result<(), ImageError> {
        let shared = &self.shared;
        let shape = self.shape();
        let plane_bytes = shared.description.bytes_of(Shape { z: 1, ..shape });
        let row_bytes = shared.description.bytes_of(Shape::image(shape.x, 1));
        let core = shared.tiles.tile().z;
        let deepest = usize::try_from(core.min(shape.z)).unwrap_or(usize::MAX);
        if deepest.saturating_mul(plane_bytes) > PLANES_LIMIT_BYTES {
            return Err(ImageError::Invalid(format!(
                "{deepest} planes of {plane_bytes} bytes do not fit into memory \
                 ({PLANES_LIMIT_BYTES} bytes): import it with thinner boxes"
            )));
        }
        for layer in 0..shared.tiles.tiles_per_axis().z {
            let first = layer * core;
            let depth = core.min(shape.z - first);
            let count = usize::try_from(depth).unwrap_or(usize::MAX);
            let planes = Mutex::new(vec![0; count.saturating_mul(plane_bytes)]);
            read_layer(shared, layer, depth, &planes)?;
            for row in planes.into_inner().chunks_exact(row_bytes) {
                sink.put_row(row)?;
            }
            watch(first + depth)?;
        }
        Ok(sink.finish()?)
    }
}

/// Reads the boxes of a layer into its planes.
fn read_layer(
    shared: &Shared,
    layer: u64,
    depth: u64,
    planes: &Mutex<Vec<u8>>,
) -> Result<(), ImageError> {
    let boxes = shared.tiles.tiles_per_axis();
    let count = usize::try_from(boxes.x * boxes.y).unwrap_or(usize::MAX);
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<ImageError>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..WRITERS.min(count) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed) as u64;
                    if number >= count as u64 || failed.lock().is_some() {
                        return;
                    }
                    let tile = TilePosition { x: number % boxes.x, y: number / boxes.x, z: layer };
                    match super::writing::read_box(shared, tile) {
                        Ok(Some((stored, voxels))) => {
                            scatter(shared, stored, depth, &voxels, &mut planes.lock());
                        }
                        Ok(None) => {}
                        Err(error) => {
                            failed.lock().get_or_insert(error);
                        }
                    }
                }
            });
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// Puts the voxels of a box into planes of which the first is that of the box. The layers that the
/// box has in common with the next one are written twice, with the same voxels.
fn scatter(shared: &Shared, stored: PixelWindow, depth: u64, voxels: &[u8], planes: &mut [u8]) {
    let (shape, bytes) = (shared.tiles.image(), shared.description.pixel.bytes());
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
