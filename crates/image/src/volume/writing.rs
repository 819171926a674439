//! Voxels of boxes, read and written one box at a time.

use pario_proto::{PixelWindow, TilePosition};

use super::Shared;
use crate::error::ImageError;
use crate::stored::Compression;

/// The voxels that a box stores.
pub fn read_box(
    shared: &Shared,
    tile: TilePosition,
) -> Result<Option<(PixelWindow, Vec<u8>)>, ImageError> {
    let path = shared.file.path();
    let place =
        shared.tiles.locate(tile).map_err(|error| ImageError::Invalid(error.to_string()))?;
    let Some(stored) = shared.grid.stored(tile) else {
        return Err(ImageError::other(path, format!("there is no box at {tile}")));
    };
    let Some(extent) = shared.file.read_extent(place)? else { return Ok(None) };
    let bytes = shared.description.bytes_of(stored.size);
    let mut room = Vec::new();
    let voxels = Compression::unpack(&extent.header, &extent.body, bytes, &mut room)
        .map_err(|error| ImageError::other(path, format!("box at {tile}: {error}")))?;
    Ok(Some((stored, voxels.to_vec())))
}

/// Writes the voxels that a box stores.
pub fn write_box(shared: &Shared, tile: TilePosition, voxels: &[u8]) -> Result<(), ImageError> {
    let place =
        shared.tiles.locate(tile).map_err(|error| ImageError::Invalid(error.to_string()))?;
    let stored = shared.grid.stored(tile);
    let bytes = stored.map_or(0, |stored| shared.description.bytes_of(stored.size));
    if voxels.len() != bytes {
        return Err(ImageError::Invalid(format!(
            "the box at {tile} of {} has {bytes} bytes of voxels, and {} were given",
            shared.file.path(),
            voxels.len()
        )));
    }
    let (header, body) = shared.description.compression.pack(voxels);
    Ok(shared.file.write_extent(place, &header, &body)?)
}
