//! The tiles of a sparse image that a filter must process.

use std::collections::BTreeSet;

use pario::ExtentPlacement;
use pario_proto::TilePosition;

use super::ImageState;
use super::filter_operation::Sparsity;
use crate::error::ImageError;
use crate::filter::ImageWindow;

/// The client lists tiles only if at most one in this many is written.
const FEW: u64 = 4;

/// Returns the tiles that a filter can change from 0, in the order of processing. `None` if these
/// are most tiles, or if the filter does not keep zeros: then each node processes all of its tiles.
pub fn tiles_in_reach(
    state: &ImageState,
    border: u32,
    sparsity: Sparsity,
) -> Result<Option<Vec<ExtentPlacement>>, ImageError> {
    let tiled = &state.tiled;
    if !sparsity.keeps_zeros {
        return Ok(None);
    }
    let limit = tiled.tiles.tile_count() / FEW;
    let measured = state.file.metadata()?;
    if measured.subfiles.iter().map(|subfile| subfile.extents).sum::<u64>() > limit + 1 {
        return Ok(None);
    }
    // By row, alternately from the left and from the right.
    let mut near = BTreeSet::new();
    let mut add = |window: ImageWindow| {
        for part in tiled.grid.parts(window) {
            let TilePosition { x, y, .. } = part.tile;
            near.insert((y, if y % 2 == 0 { x } else { u64::MAX - x }));
        }
        near.len() as u64 <= limit
    };
    if !sparsity.is_blank_outside && border > 0 {
        for strip in edges(tiled.image(), border) {
            if !add(strip) {
                return Ok(None);
            }
        }
    }
    for found in state.file.list_extents()? {
        let Some((_, tile)) = tiled.at(found?.0) else { continue };
        if !add(tile.grown(border)) {
            return Ok(None);
        }
    }
    let place = |(y, x): (u64, u64)| {
        let x = if y % 2 == 0 { x } else { u64::MAX - x };
        tiled.tiles.locate(TilePosition::image(x, y)).ok()
    };
    Ok(Some(near.into_iter().filter_map(place).collect()))
}

/// Returns the strips of pixels whose results depend on values beyond the edges.
fn edges(image: ImageWindow, border: u32) -> [ImageWindow; 4] {
    let ImageWindow { x, y, width, height } = image;
    let (across, down) = (border.min(width), border.min(height));
    [
        ImageWindow { width: across, ..image },
        ImageWindow { height: down, ..image },
        ImageWindow { x: x + (width - across), width: across, ..image },
        ImageWindow { y: y + (height - down), height: down, ..image },
    ]
}
