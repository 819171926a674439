//! How a two-dimensional image is cut into tiles, and which parts of tiles make up a window.
//!
//! Invariants: no side is 0. No side of the image is above [`AXIS_LIMIT`], so that every position
//! in it has 30 bits, and a position between pixels 62. Tiles at the right and at the bottom end
//! where the image ends.

use pario_proto::{Shape, TilePosition};

use crate::filter::ImageWindow;

/// Limit for the pixels of an image along one axis.
pub const AXIS_LIMIT: u32 = 1 << 30;

/// An image cut into equal tiles.
///
/// ```
/// use pario_image::{ImageWindow, TileGrid};
/// use pario_proto::{Shape, TilePosition};
///
/// let grid = TileGrid::new(Shape::image(1_000, 600), Shape::image(256, 256))?;
/// assert_eq!(grid.tiles(), Shape::image(4, 3));
/// let corner = grid.tile(TilePosition::image(3, 2)).unwrap();
/// assert_eq!(corner, ImageWindow { x: 768, y: 512, width: 232, height: 88 });
///
/// // A filter with radius 2 needs parts of three neighbours there.
/// let needed = grid.neighbours(TilePosition::image(3, 2), 2);
/// assert_eq!(needed.len(), 3);
/// assert_eq!(needed[0].tile, TilePosition::image(2, 1));
/// assert_eq!(needed[0].window, ImageWindow { x: 766, y: 510, width: 2, height: 2 });
/// # Ok::<(), pario_image::TileGridError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileGrid {
    image: ImageWindow,
    tile_width: u32,
    tile_height: u32,
}

/// A part of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TilePart {
    /// The tile.
    pub tile: TilePosition,
    /// The window of the part, counted from the corner of the image.
    pub window: ImageWindow,
}

/// The error of an image that cannot be cut into these tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TileGridError {
    /// The image has a third axis, or a side that is 0 or too large.
    #[error(
        "an image of {image} pixels is not two-dimensional with 1 to {AXIS_LIMIT} pixels per axis"
    )]
    Image {
        /// The size given.
        image: Shape,
    },
    /// The tile has a third axis or a side of 0.
    #[error("a tile of {tile} pixels is not two-dimensional with at least 1 pixel per axis")]
    Tile {
        /// The size given.
        tile: Shape,
    },
}

impl TileGrid {
    /// Cuts an image of a size into tiles of a size.
    pub fn new(image: Shape, tile: Shape) -> Result<TileGrid, TileGridError> {
        let side = |length: u64| {
            u32::try_from(length).ok().filter(|length| (1..=AXIS_LIMIT).contains(length))
        };
        let (Some(width), Some(height), 1) = (side(image.x), side(image.y), image.z) else {
            return Err(TileGridError::Image { image });
        };
        // A tile larger than the image is equivalent to one of its size.
        let (Some(tile_width), Some(tile_height), 1) =
            (side(tile.x.min(image.x)), side(tile.y.min(image.y)), tile.z)
        else {
            return Err(TileGridError::Tile { tile });
        };
        Ok(TileGrid { image: ImageWindow { x: 0, y: 0, width, height }, tile_width, tile_height })
    }

    /// Returns the window of the whole image.
    pub fn image(&self) -> ImageWindow {
        self.image
    }

    /// Returns the number of tiles along each axis.
    pub fn tiles(&self) -> Shape {
        Shape::image(
            u64::from(self.image.width.div_ceil(self.tile_width)),
            u64::from(self.image.height.div_ceil(self.tile_height)),
        )
    }

    /// Returns the window of a tile; `None` if there is no such tile.
    pub fn tile(&self, tile: TilePosition) -> Option<ImageWindow> {
        if tile.z != 0 {
            return None;
        }
        let x = u32::try_from(tile.x).ok()?.checked_mul(self.tile_width)?;
        let y = u32::try_from(tile.y).ok()?.checked_mul(self.tile_height)?;
        ImageWindow { x, y, width: self.tile_width, height: self.tile_height }
            .intersection(self.image)
    }

    /// Returns the parts of tiles that make up a window, in the order of rows. Pixels outside of
    /// the image have no part.
    pub fn parts(&self, window: ImageWindow) -> Vec<TilePart> {
        let Some(window) = window.intersection(self.image) else { return Vec::new() };
        let tiles = |start: u32, length: u32, tile: u32| {
            u64::from(start / tile)..=u64::from((start + (length - 1)) / tile)
        };
        let columns = tiles(window.x, window.width, self.tile_width);
        let rows = tiles(window.y, window.height, self.tile_height);
        let positions = rows.flat_map(|y| columns.clone().map(move |x| TilePosition::image(x, y)));
        let part = |tile| {
            let window = self.tile(tile)?.intersection(window)?;
            Some(TilePart { tile, window })
        };
        positions.filter_map(part).collect()
    }

    /// Returns the window that a tile with a border of `radius` pixels needs: all pixels of the
    /// image within that distance, whatever the edge rule. The reflection of an edge lies within
    /// it, too.
    pub fn surroundings(&self, tile: TilePosition, radius: u32) -> Option<ImageWindow> {
        self.tile(tile)?.grown(radius).intersection(self.image)
    }

    /// Returns the parts of other tiles that the border of a tile needs; more than eight where
    /// tiles are smaller than the border.
    pub fn neighbours(&self, tile: TilePosition, radius: u32) -> Vec<TilePart> {
        let mut parts =
            self.surroundings(tile, radius).map(|window| self.parts(window)).unwrap_or_default();
        parts.retain(|part| part.tile != tile);
        parts
    }
}
