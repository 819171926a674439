//! Slices through volumes in boxes.
//!
//! A [`Plane`] gives the positions of the pixels of a slice, a [`BoxGrid`] the boxes of the volume.
//! A [`Cut`] of both lists the boxes that have pixels of the slice, and extracts [`SliceParts`]
//! from each; any process can assemble them to the [`Slice`]. A [`SlabCut`] does the same for
//! several parallel slices that are blended into one. The module is arithmetic only: it does not
//! read boxes.
//!
//! Invariant: the slice is the same bit by bit, however the volume is cut into boxes and in
//! whatever order the parts arrive; interpolated floating-point numbers are the same within
//! rounding.

mod box_run;
mod boxes;
mod canvas;
mod cut;
mod grid;
mod interpolation;
mod nearest;
mod parts;
mod plane;
mod query;
mod row_spans;
mod slab;
mod slab_parts;
mod sums;
#[cfg(test)]
mod tests;
mod trilinear;

pub use canvas::Slice;
pub use cut::{Cut, CutError, ExtractError};
pub use grid::{BoxGrid, BoxGridError};
pub use interpolation::Interpolation;
pub use parts::{PartsError, SliceParts};
pub use plane::{Plane, PlaneError, REACH_VOXELS, SLICE_LIMIT};
pub use query::SliceQuery;
pub use slab::{Blend, Slab, SlabCut};
pub use slab_parts::SlabParts;
