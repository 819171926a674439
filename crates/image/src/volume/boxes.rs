//! Reads and writes the voxels of boxes.

use std::sync::atomic::{AtomicUsize, Ordering};

use pario_proto::{PixelWindow, TilePosition};
use parking_lot::Mutex;

use super::VolumeState;
use crate::error::ImageError;
use crate::stored::Compression;

/// Threads that read or write boxes at the same time.
const THREADS: usize = 4;

/// Calls `work` for each box of a layer on several threads, which have a buffer each. Returns the
/// first error; after it no thread starts another box.
pub fn for_each_box<B: Default>(
    state: &VolumeState,
    layer: u64,
    work: impl Fn(TilePosition, &mut B) -> Result<(), ImageError> + Sync,
) -> Result<(), ImageError> {
    let boxes = state.tiles.tiles_per_axis();
    let count = usize::try_from(boxes.x * boxes.y).unwrap_or(usize::MAX);
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<ImageError>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(count) {
            scope.spawn(|| {
                let mut buffer = B::default();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed) as u64;
                    if number >= count as u64 || failed.lock().is_some() {
                        return;
                    }
                    let tile = TilePosition { x: number % boxes.x, y: number / boxes.x, z: layer };
                    if let Err(error) = work(tile, &mut buffer) {
                        failed.lock().get_or_insert(error);
                    }
                }
            });
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// Reads the voxels that a box stores; `None` if it is not written.
pub fn read_box(
    state: &VolumeState,
    tile: TilePosition,
) -> Result<Option<(PixelWindow, Vec<u8>)>, ImageError> {
    let path = state.file.path();
    let place = state.tiles.locate(tile).map_err(|error| ImageError::Invalid(error.to_string()))?;
    let Some(stored) = state.grid.stored(tile) else {
        return Err(ImageError::other(path, format!("there is no box at {tile}")));
    };
    let Some(extent) = state.file.read_extent(place)? else { return Ok(None) };
    let bytes = state.description.bytes_of(stored.size);
    let mut unpacked = Vec::new();
    let voxels = Compression::unpack(&extent.header, &extent.body, bytes, &mut unpacked)
        .map_err(|error| ImageError::other(path, format!("box at {tile}: {error}")))?;
    Ok(Some((stored, voxels.to_vec())))
}

/// Writes the voxels that a box stores.
pub fn write_box(state: &VolumeState, tile: TilePosition, voxels: &[u8]) -> Result<(), ImageError> {
    let place = state.tiles.locate(tile).map_err(|error| ImageError::Invalid(error.to_string()))?;
    let stored = state.grid.stored(tile);
    let bytes = stored.map_or(0, |stored| state.description.bytes_of(stored.size));
    if voxels.len() != bytes {
        return Err(ImageError::Invalid(format!(
            "the box at {tile} of {} has {bytes} bytes of voxels, and {} were given",
            state.file.path(),
            voxels.len()
        )));
    }
    let (header, body) = state.description.compression.pack(voxels);
    Ok(state.file.write_extent(&header, &body, place)?)
}
