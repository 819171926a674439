//! How a two-dimensional image is cut into tiles, and which parts of them a window is made of.
//!
//! Invariants: no side is 0; no side of the image is above [`AXIS_LIMIT`], so that every position in
//! it has 30 bits, and one between pixels 62. Tiles at the right and at the bottom end where the
//! image ends.

use pario_proto::{Shape, TilePosition};

use crate::filter::Window;

/// The most pixels of an image along one axis.
pub const AXIS_LIMIT: u32 = 1 << 30;

/// An image cut into equal tiles.
///
/// ```
/// use pario_image::{TileGrid, Window};
/// use pario_proto::{Shape, TilePosition};
///
/// let grid = TileGrid::new(Shape::image(1_000, 600), Shape::image(256, 256))?;
/// assert_eq!(grid.tiles(), Shape::image(4, 3));
/// let corner = grid.tile(TilePosition::image(3, 2)).unwrap();
/// assert_eq!(corner, Window { x: 768, y: 512, width: 232, height: 88 });
///
/// // A filter that reaches 2 pixels far needs something of three neighbours there.
/// let needed = grid.neighbours(TilePosition::image(3, 2), 2);
/// assert_eq!(needed.len(), 3);
/// assert_eq!(needed[0].tile, TilePosition::image(2, 1));
/// assert_eq!(needed[0].window, Window { x: 766, y: 510, width: 2, height: 2 });
/// # Ok::<(), pario_image::TileGridError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileGrid {
    image: Window,
    tile_width: u32,
    tile_height: u32,
}

/// A part of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The tile.
    pub tile: TilePosition,
    /// The part, counted from the corner of the image.
    pub window: Window,
}

/// Why an image cannot be cut this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TileGridError {
    /// There is a third axis, or a side that is 0 or too large.
    #[error(
        "an image of {image} pixels is not two-dimensional with 1 to {AXIS_LIMIT} pixels per axis"
    )]
    Image {
        /// The size given.
        image: Shape,
    },
    /// Tiles must have pixels, in one plane.
    #[error("a tile of {tile} pixels is not two-dimensional with at least 1 pixel per axis")]
    Tile {
        /// The size given.
        tile: Shape,
    },
}

impl TileGrid {
    /// An image of a size, in tiles of a size.
    pub fn new(image: Shape, tile: Shape) -> Result<TileGrid, TileGridError> {
        let side = |length: u64| {
            u32::try_from(length).ok().filter(|length| (1..=AXIS_LIMIT).contains(length))
        };
        let (Some(width), Some(height), 1) = (side(image.x), side(image.y), image.z) else {
            return Err(TileGridError::Image { image });
        };
        // A tile larger than the image is as good as one of its size.
        let (Some(tile_width), Some(tile_height), 1) =
            (side(tile.x.min(image.x)), side(tile.y.min(image.y)), tile.z)
        else {
            return Err(TileGridError::Tile { tile });
        };
        Ok(TileGrid { image: Window { x: 0, y: 0, width, height }, tile_width, tile_height })
    }

    /// The whole image.
    pub fn image(&self) -> Window {
        self.image
    }

    /// How many tiles along each axis.
    pub fn tiles(&self) -> Shape {
        Shape::image(
            u64::from(self.image.width.div_ceil(self.tile_width)),
            u64::from(self.image.height.div_ceil(self.tile_height)),
        )
    }

    /// The pixels of a tile; nothing if there is no such tile.
    pub fn tile(&self, tile: TilePosition) -> Option<Window> {
        if tile.z != 0 {
            return None;
        }
        let x = u32::try_from(tile.x).ok()?.checked_mul(self.tile_width)?;
        let y = u32::try_from(tile.y).ok()?.checked_mul(self.tile_height)?;
        Window { x, y, width: self.tile_width, height: self.tile_height }.intersection(self.image)
    }

    /// The parts of tiles that a window is made of, in the order of rows. What lies outside of the
    /// image is left out.
    pub fn pieces(&self, window: Window) -> Vec<Piece> {
        let Some(window) = window.intersection(self.image) else { return Vec::new() };
        let tiles = |start: u32, length: u32, tile: u32| {
            u64::from(start / tile)..=u64::from((start + (length - 1)) / tile)
        };
        let columns = tiles(window.x, window.width, self.tile_width);
        let rows = tiles(window.y, window.height, self.tile_height);
        let positions = rows.flat_map(|y| columns.clone().map(move |x| TilePosition::image(x, y)));
        let piece = |tile| {
            let window = self.tile(tile)?.intersection(window)?;
            Some(Piece { tile, window })
        };
        positions.filter_map(piece).collect()
    }

    /// What is needed to surround a tile by a border of so many pixels: all pixels of the image that
    /// are so near, whatever the rule at the edges. The reflection of an edge lies within, too.
    pub fn surroundings(&self, tile: TilePosition, radius: u32) -> Option<Window> {
        self.tile(tile)?.grown(radius).intersection(self.image)
    }

    /// The parts of other tiles that the surroundings of a tile consist of; more than eight where
    /// tiles are smaller than the border.
    pub fn neighbours(&self, tile: TilePosition, radius: u32) -> Vec<Piece> {
        let mut pieces =
            self.surroundings(tile, radius).map(|window| self.pieces(window)).unwrap_or_default();
        pieces.retain(|piece| piece.tile != tile);
        pieces
    }
}
