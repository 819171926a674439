//! Pixel-wise operations, whose result at a pixel depends on that pixel alone, and statistics of
//! all pixels.
//!
//! `operation` lists the operations on a pixel, and `prepared` applies them. `histogram` and
//! `summary` measure tile by tile, and their results are added in any order. `power` holds the
//! functions that must give the same bits on every machine.

mod histogram;
mod operation;
pub(crate) mod power;
mod prepared;
mod summary;

#[cfg(test)]
mod tests;

pub use histogram::{Bins, Histogram, HistogramError};
pub use operation::{Pixelwise, PixelwiseError};
pub use prepared::PreparedPixelwise;
pub use summary::{ChannelSummary, Summary, SummaryError, Total};
