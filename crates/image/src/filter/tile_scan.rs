//! The order in which a node processes its tiles.

use std::iter::FusedIterator;

use pario_proto::{TilePosition, TileWindow};

/// The tiles of a window of an image in serpentine order: row by row, alternately from left to
/// right and from right to left. So a tile is followed by a neighbour, with which it shares a
/// border.
///
/// ```
/// use pario_image::TileScan;
/// use pario_proto::{Shape, TilePosition, TileWindow};
///
/// let window = TileWindow { start: TilePosition::image(4, 1), size: Shape::image(3, 2) };
/// let order: Vec<_> = TileScan::new(window).map(|tile| (tile.x, tile.y)).collect();
/// assert_eq!(order, [(4, 1), (5, 1), (6, 1), (6, 2), (5, 2), (4, 2)]);
///
/// let own: Vec<_> = TileScan::new(window).only(|tile| tile.x % 2 == 0).collect();
/// assert_eq!(own.len(), 4);
/// ```
#[derive(Clone, Debug)]
pub struct TileScan {
    window: TileWindow,
    // Progress: complete rows, and tiles of the next row.
    rows: u64,
    along: u64,
}

impl TileScan {
    /// Returns all tiles of the first plane of a window.
    pub fn new(window: TileWindow) -> TileScan {
        TileScan { window, rows: 0, along: 0 }
    }

    /// Returns the tiles that `own` accepts, in the same order.
    pub fn only(
        self,
        mut own: impl FnMut(TilePosition) -> bool,
    ) -> impl Iterator<Item = TilePosition> {
        self.filter(move |tile| own(*tile))
    }
}

impl Iterator for TileScan {
    type Item = TilePosition;

    fn next(&mut self) -> Option<TilePosition> {
        let TileWindow { start, size } = self.window;
        if self.rows >= size.y || size.is_empty() {
            return None;
        }
        let across = match self.rows % 2 {
            0 => self.along,
            _ => size.x - 1 - self.along,
        };
        let tile = TilePosition { x: start.x + across, y: start.y + self.rows, z: start.z };
        self.along += 1;
        if self.along == size.x {
            (self.rows, self.along) = (self.rows + 1, 0);
        }
        Some(tile)
    }
}

impl FusedIterator for TileScan {}
