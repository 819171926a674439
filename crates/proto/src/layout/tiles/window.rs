//! The walk over the tiles of a window.
//!
//! Invariants: `left` is the number of tiles not yet given, and `next` is the first of them unless
//! `left` is 0; the window lies inside an image, so its end and its number of tiles fit 64 bits.

use crate::layout::geometry::{TilePosition, TileWindow};

/// The tiles of a window; see [`Tiles::tiles_in`](super::Tiles::tiles_in).
#[derive(Clone, Debug)]
pub struct WindowTiles {
    window: TileWindow,
    next: TilePosition,
    left: u64,
}

impl WindowTiles {
    /// Walks over a window that was checked to lie inside an image.
    pub(super) fn new(window: TileWindow) -> WindowTiles {
        WindowTiles { window, next: window.start, left: window.size.product().unwrap_or(0) }
    }

    /// How many tiles are still to come.
    pub fn tiles_left(&self) -> u64 {
        self.left
    }
}

impl Iterator for WindowTiles {
    type Item = TilePosition;

    fn next(&mut self) -> Option<TilePosition> {
        self.left = self.left.checked_sub(1)?;
        let (tile, start, size) = (self.next, self.window.start, self.window.size);
        self.next.x += 1;
        if self.next.x == start.x + size.x {
            self.next.x = start.x;
            self.next.y += 1;
        }
        if self.next.y == start.y + size.y {
            self.next.y = start.y;
            self.next.z += 1;
        }
        Some(tile)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).ok();
        (left.unwrap_or(usize::MAX), left)
    }
}
