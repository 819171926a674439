//! Pixel-wise operations.
pub(crate) mod power;
