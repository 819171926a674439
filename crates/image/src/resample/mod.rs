//! Windows of an image at another scale or turned.
//!
//! `map` says where in the image an output pixel lies; `resampling` what becomes of the pixels
//! there, and what is to be computed; `mapped` and `reduced` find what a tile contributes, a
//! `contribution`; `canvas` puts the contributions together.
//!
//! Each tile contributes by itself, without its neighbours: *runs* of pixels that are complete, and
//! *shares* of pixels of which other tiles have the rest. Shares are added up.
//!
//! Invariant: positions are whole numbers in units of 2^-32 pixels, weights and sums of whole
//! samples are whole numbers. So the result does not depend on how the image is cut, nor on the
//! order in which contributions come. Sums of floating-point samples are rounded in `f64`; there the
//! order can be seen in the last bit.

mod canvas;
mod contribution;
mod map;
mod mapped;
mod reduced;
mod resampling;

#[cfg(test)]
mod tests;

pub use canvas::{Canvas, CanvasError};
pub use contribution::{Contribution, Run, Share, Sums};
pub use map::{AffineMap, MapError, ONE_PIXEL};
pub use resampling::{OUTPUT_LIMIT, Resampling, ResamplingError, Sampling};
