//! Slices through volumes in boxes.
//!
//! A [`Plane`] says where the pixels of a slice lie, a [`Grid`] how the volume is cut into boxes. A
//! [`Cut`] of both names the boxes that have pixels of the slice, and takes out of each what of the
//! slice lies in it: [`SliceParts`], which anybody can put together to the [`Slice`]. A [`SlabCut`]
//! does the same for several parallel slices that become one. Here is only arithmetic: who reads the
//! boxes, and where, is not known.
//!
//! Invariant: the slice is the same, however the volume is cut into boxes and in whatever order their
//! parts come, bit by bit; of floating-point numbers between voxels, within rounding.

mod canvas;
mod cut;
mod grid;
mod interpolation;
mod met;
mod nearest;
mod parts;
mod plane;
mod rows;
mod run;
mod slab;
mod slab_parts;
mod sums;
#[cfg(test)]
mod tests;
mod trilinear;
mod wish;

pub use canvas::Slice;
pub use cut::{Cut, CutError, ExtractError};
pub use grid::{Grid, GridError};
pub use interpolation::Interpolation;
pub use parts::{PartsError, SliceParts};
pub use plane::{Plane, PlaneError, REACH_VOXELS, SLICE_LIMIT};
pub use slab::{Blend, Slab, SlabCut};
pub use slab_parts::SlabParts;
pub use wish::PlaneWish;
