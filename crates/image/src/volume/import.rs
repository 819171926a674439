//! Volumes of other programs, plane by plane.

use std::sync::atomic::{AtomicUsize, Ordering};

use pario_proto::{PixelWindow, Shape, TilePosition};
use parking_lot::Mutex;

use super::{Shared, Volume};
use crate::error::ImageError;
use crate::formats::VolumeSource;

/// Planes of the volume that are in memory at once have at most so many bytes.
pub(super) const PLANES_LIMIT_BYTES: usize = 2 << 30;
/// So many boxes are written at once.
pub(super) const WRITERS: usize = 4;

impl Volume {
    /// Fills the volume with another one of the same size and voxels, plane by plane. `watch` is
    /// told after each layer of boxes how many planes are done.
    pub fn import(
        &self,
        source: &mut VolumeSource,
        mut watch: impl FnMut(u64) -> Result<(), ImageError>,
    ) -> Result<(), ImageError> {
        let shared = &self.shared;
        let shape = self.shape();
        let pixel = shared.description.pixel;
        if source.size() != [shape.x, shape.y, shape.z] || source.pixel() != pixel {
            let [x, y, z] = source.size();
            return Err(ImageError::Invalid(format!(
                "{x} x {y} x {z} voxels of {} cannot become a volume of {shape} voxels of {pixel}",
                source.pixel()
            )));
        }
        let plane_bytes = shared.description.bytes_of(Shape { z: 1, ..shape });
        let row_bytes = shared.description.bytes_of(Shape::image(shape.x, 1));
        let core = shared.tiles.tile().z;
        let deepest = usize::try_from(core + 1).unwrap_or(usize::MAX);
        if plane_bytes.saturating_mul(deepest) > PLANES_LIMIT_BYTES {
            return Err(ImageError::Invalid(format!(
                "{deepest} planes of {plane_bytes} bytes do not fit into memory ({PLANES_LIMIT_BYTES} \
                 bytes): make the boxes thinner"
            )));
        }
        let mut planes: Vec<u8> = Vec::new();
        let mut read = 0;
        for layer in 0..shared.tiles.tiles_per_axis().z {
            let first = layer * core;
            let corner = TilePosition { x: 0, y: 0, z: layer };
            let depth = shared.grid.stored(corner).map_or(0, |stored| stored.size.z);
            while read < first + depth {
                let start = planes.len();
                planes.resize(start + plane_bytes, 0);
                for row in planes[start..].chunks_exact_mut(row_bytes) {
                    source.next_row(row)?;
                }
                read += 1;
            }
            write_layer(shared, layer, &planes)?;
            let done = (first + core).min(shape.z);
            let kept = usize::try_from(read - done).unwrap_or(0) * plane_bytes;
            planes.drain(..planes.len() - kept);
            watch(done)?;
        }
        Ok(())
    }
}

/// Writes the boxes of a layer, of which the planes are given.
fn write_layer(shared: &Shared, layer: u64, planes: &[u8]) -> Result<(), ImageError> {
    let boxes = shared.tiles.tiles_per_axis();
    let count = usize::try_from(boxes.x * boxes.y).unwrap_or(usize::MAX);
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<ImageError>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..WRITERS.min(count) {
            scope.spawn(|| {
                let mut voxels = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed) as u64;
                    if number >= count as u64 || failed.lock().is_some() {
                        return;
                    }
                    let tile = TilePosition { x: number % boxes.x, y: number / boxes.x, z: layer };
                    let Some(stored) = shared.grid.stored(tile) else { return };
                    gather(shared, stored, planes, &mut voxels);
                    if let Err(error) = super::writing::write_box(shared, tile, &voxels) {
                        failed.lock().get_or_insert(error);
                    }
                }
            });
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// The voxels of a box, out of whole planes of which the first is that of the box.
fn gather(shared: &Shared, stored: PixelWindow, planes: &[u8], voxels: &mut Vec<u8>) {
    let (shape, bytes) = (shared.tiles.image(), shared.description.pixel.bytes());
    let at = |pixel: u64| usize::try_from(pixel).unwrap_or(usize::MAX).saturating_mul(bytes);
    voxels.clear();
    for z in 0..stored.size.z {
        for y in stored.start.y..stored.start.y + stored.size.y {
            let first = at((z * shape.y + y) * shape.x + stored.start.x);
            voxels.extend_from_slice(&planes[first..first + at(stored.size.x)]);
        }
    }
}
