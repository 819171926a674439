//! Slices through volumes in boxes.
//!
//! A [`Plane`] says where the pixels of a slice lie, a [`BoxGrid`] how the volume is cut into boxes. A
//! [`Cut`] of both names the boxes that have pixels of the slice, and takes out of each what of the
//! slice lies in it: [`SliceParts`], which anybody can put together to the [`Slice`]. A [`SlabCut`]
//! does the same for several parallel slices that become one. Here is only arithmetic: who reads the
//! boxes, and where, is not known.
//!
//! Invariant: the slice is the same, however the volume is cut into boxes and in whatever order their
//! parts come, bit by bit; of floating-point numbers between voxels, within rounding.

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
