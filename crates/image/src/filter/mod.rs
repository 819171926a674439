//! Neighbourhood operations: the value of a pixel depends on the pixels around it.
//!
//! All operations on images use `image_window` (a rectangle of an image), `pixels` (its bytes) and
//! `tile_grid` (how an image is cut). `padded_tile` is a tile with its border, and `filter` lists
//! the filters on it; `gaussian`, `convolution`, `median` and `extreme` compute them. `tile_scan`
//! is the order in which a node processes tiles.
//!
//! Invariant: the result of a filter at a pixel is a function of the pixels within its radius
//! alone, so it does not depend on how the image is cut. Sums are sums of whole numbers, or have an
//! order that the filter fixes.

mod buffers;
pub(crate) mod channel;
mod convolution;
mod extreme;
#[expect(clippy::module_inception, reason = "the type that the folder is about")]
mod filter;
mod gaussian;
mod image_window;
mod median;
mod padded_tile;
mod pixels;
mod rank;
mod tile_grid;
mod tile_scan;

#[cfg(test)]
pub(crate) mod random;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use buffers::FilterBuffers;
pub use filter::{Filter, FilterError, KERNEL_LIMIT, RADIUS_LIMIT};
pub use image_window::ImageWindow;
pub use padded_tile::{Edge, PaddedTile, PaddingError};
pub use pixels::{Pixels, PixelsError};
pub use tile_grid::{AXIS_LIMIT, TileGrid, TileGridError, TilePart};
pub use tile_scan::TileScan;
