//! Images cut into tiles and volumes cut into boxes, each an extent of a parallel file, and what is
//! computed with them where they lie.
#![forbid(unsafe_code)]

pub mod formats;
mod pixel;

pub use pixel::{Pixel, PixelError, Sample};
