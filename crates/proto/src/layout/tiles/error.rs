//! Errors of tiles: invalid sizes of an image and its tiles, and tiles or pixels outside of it.
//!
//! Invariant: each error carries both sides of the conflict, what was asked for and what there is.

use thiserror::Error;

use crate::layout::declustering::DeclusteringError;
use crate::layout::geometry::{PixelWindow, Shape, TilePosition, TileWindow};

/// Why an image cannot be cut into tiles this way.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TilesError {
    /// The image has no pixels.
    #[error("an image of {image} pixels is empty: every axis needs at least 1 pixel")]
    EmptyImage {
        /// The size given.
        image: Shape,
    },
    /// The tile has no pixels.
    #[error("a tile of {tile} pixels is empty: every axis needs at least 1 pixel")]
    EmptyTile {
        /// The size given.
        tile: Shape,
    },
    /// The number of tiles, or of extents in one subfile, is too large.
    #[error(
        "an image of {image} pixels in tiles of {tile} over {subfiles} subfiles has more than 2^48 \
         extents per subfile, or more than 2^64 - 1 tiles: choose larger tiles"
    )]
    TooManyTiles {
        /// The size of the image.
        image: Shape,
        /// The size of a tile.
        tile: Shape,
        /// The number of subfiles.
        subfiles: u32,
    },
    /// The declustering was made for another number of subfiles.
    #[error(
        "{disks} disks were given with a declustering for {subfiles} subfiles: both numbers must be \
         the same"
    )]
    OtherDeclustering {
        /// The number of disks.
        disks: u32,
        /// The number of subfiles of the declustering.
        subfiles: u32,
    },
    /// The tiles cannot be spread over the subfiles.
    #[error(transparent)]
    Declustering(#[from] DeclusteringError),
}

/// Something that was asked for lies outside of the image.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OutsideError {
    /// A tile.
    #[error("{tile} does not exist: the image has {per_axis} tiles, counted from 0")]
    Tile {
        /// The tile asked for.
        tile: TilePosition,
        /// The tiles of the image.
        per_axis: Shape,
    },
    /// Some tiles of a window.
    #[error(
        "the window of {window} leaves the image, which has {per_axis} tiles: cut the window off at \
         the edge"
    )]
    TileWindow {
        /// The window asked for.
        window: TileWindow,
        /// The tiles of the image.
        per_axis: Shape,
    },
    /// Some pixels of a window.
    #[error(
        "the window of {window} leaves the image, which has {image} pixels: cut the window off at \
         the edge"
    )]
    PixelWindow {
        /// The window asked for.
        window: PixelWindow,
        /// The size of the image.
        image: Shape,
    },
}
