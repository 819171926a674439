//! Which tiles of a sparse image a filter has to look at.

use std::collections::BTreeSet;

use pario::ExtentPlace;
use pario_proto::TilePosition;

use super::ImageState;
use super::filter_operation::Sparsity;
use crate::error::ImageError;
use crate::filter::ImageWindow;

/// If the tiles that are there are so few of all, it is worth while to name those that matter.
const FEW: u64 = 4;

/// The tiles that a filter can make something else of than 0, in the order in which they are
/// visited. Nothing if that is most of them, or nobody knows: then nodes look at all of theirs.
pub fn tiles_in_reach(
    state: &ImageState,
    border: u32,
    sparsity: Sparsity,
) -> Result<Option<Vec<ExtentPlace>>, ImageError> {
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
        for piece in tiled.grid.parts(window) {
            let TilePosition { x, y, .. } = piece.tile;
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

/// The pixels from which a filter sees what lies beyond the edges.
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
