//! Images cut into tiles and volumes cut into boxes, each an extent of a parallel file, and what is
//! computed with them where they lie.
#![forbid(unsafe_code)]

mod phantom;
mod pixel;
mod slice;

pub use phantom::{Phantom, PhantomError};
pub use pixel::{Pixel, PixelError, Sample};
pub use slice::{
    Blend, Cut, CutError, ExtractError, Grid, GridError, Interpolation, PartsError, Plane,
    PlaneError, PlaneWish, REACH_VOXELS, SLICE_LIMIT, Slab, SlabCut, SlabParts, Slice, SliceParts,
};
