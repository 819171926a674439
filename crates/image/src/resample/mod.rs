//! Windows of an image at another scale or turned.
//!
//! `map` gives the position of an output pixel in the image. `resampling` describes what to
//! compute. `mapped` and `reduced` compute the `contribution` of a tile. `canvas` assembles the
//! contributions.
//!
//! Each tile contributes without its neighbours: *runs* of pixels that are complete, and *shares*
//! of pixels of which other tiles have the rest. Shares are added.
//!
//! Invariant: positions are whole numbers in units of 2^-32 pixels, and weights and sums of whole
//! samples are whole numbers. So the result does not depend on how the image is cut, nor on the
//! order of the contributions. Sums of floating-point samples are rounded in `f64`; there the order
//! can change the last bit.

mod canvas;
mod contribution;
mod map;
mod mapped;
mod reduced;
mod resampling;

#[cfg(test)]
mod tests;

pub use canvas::{Canvas, CanvasError};
pub use contribution::{ChannelSums, Contribution, PixelRun, PixelShare};
pub use map::{AffineMap, MapError, ONE_PIXEL};
pub use resampling::{OUTPUT_LIMIT, Resampling, ResamplingError, Sampling};
