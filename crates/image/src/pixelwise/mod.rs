//! Pixel-wise operations: what a pixel becomes depends on that pixel alone; and what can be said of
//! all pixels together.
//!
//! `operation` is what can be done with a pixel, `prepared` does it; `histogram` and `summary` count
//! and measure, tile by tile, and are added up in any order. `power` has the functions that must be
//! the same on every machine.

mod histogram;
mod operation;
pub(crate) mod power;
mod prepared;
mod summary;

#[cfg(test)]
mod tests;

pub use histogram::{Bins, Histogram, HistogramError};
pub use operation::{Pixelwise, PixelwiseError};
pub use prepared::Prepared;
pub use summary::{ChannelSummary, Summary, SummaryError, Total};
