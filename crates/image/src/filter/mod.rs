//! Neighbourhood operations: what a pixel becomes depends on the pixels around it.
//!
//! `window`, `pixels` and `grid` are what all operations on images are made of: a box of an image,
//! the bytes of one, and how an image is cut. `framed` is a tile with what surrounds it; `filter` is
//! what can be done with it, `gaussian`, `convolution`, `median` and `extreme` do it. `serpentine`
//! is the order in which tiles are visited.
//!
//! Invariant: what a filter makes of a pixel is a function of the pixels in reach and of nothing
//! else, so it does not depend on how the image is cut. Sums are sums of whole numbers, or are added
//! up in an order that the filter fixes.

pub(crate) mod channel;
mod convolution;
mod extreme;
#[expect(clippy::module_inception, reason = "the type that the folder is about")]
mod filter;
mod framed;
mod gaussian;
mod grid;
mod median;
mod pixels;
mod rank;
mod scratch;
mod serpentine;
mod window;

#[cfg(test)]
pub(crate) mod random;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use filter::{Filter, FilterError, KERNEL_LIMIT, RADIUS_LIMIT};
pub use framed::{Edge, FrameError, Framed};
pub use grid::{AXIS_LIMIT, Piece, TileGrid, TileGridError};
pub use pixels::{Pixels, PixelsError};
pub use scratch::Scratch;
pub use serpentine::Serpentine;
pub use window::Window;
