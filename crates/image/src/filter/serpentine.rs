//! The order in which a node visits its tiles.

use std::iter::FusedIterator;

use pario_proto::{TilePosition, TileWindow};

/// The tiles of a window of an image, row by row, alternately from left to right and from right to
/// left. So a tile is followed by a neighbour, with which it has a border in common.
///
/// ```
/// use pario_image::Serpentine;
/// use pario_proto::{Shape, TilePosition, TileWindow};
///
/// let window = TileWindow { start: TilePosition::image(4, 1), size: Shape::image(3, 2) };
/// let order: Vec<_> = Serpentine::new(window).map(|tile| (tile.x, tile.y)).collect();
/// assert_eq!(order, [(4, 1), (5, 1), (6, 1), (6, 2), (5, 2), (4, 2)]);
///
/// let own: Vec<_> = Serpentine::new(window).only(|tile| tile.x % 2 == 0).collect();
/// assert_eq!(own.len(), 4);
/// ```
#[derive(Clone, Debug)]
pub struct Serpentine {
    window: TileWindow,
    // How far it has come: rows that are done, and tiles of the next one.
    rows: u64,
    along: u64,
}

impl Serpentine {
    /// All tiles of a window, of which only the first plane counts.
    pub fn new(window: TileWindow) -> Serpentine {
        Serpentine { window, rows: 0, along: 0 }
    }

    /// Only some of them, in the same order: those of a node.
    pub fn only(
        self,
        mut own: impl FnMut(TilePosition) -> bool,
    ) -> impl Iterator<Item = TilePosition> {
        self.filter(move |tile| own(*tile))
    }
}

impl Iterator for Serpentine {
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

impl FusedIterator for Serpentine {}
