//! Images cut into tiles and volumes cut into boxes, each an extent of a parallel file, and what is
//! computed with them where they lie.
//!
//! Without its default feature `cluster` it is arithmetic and files of other programs alone.
#![forbid(unsafe_code)]

#[cfg(feature = "cluster")]
pub mod archive;
#[cfg(feature = "cluster")]
mod error;
mod filter;
pub mod formats;
#[cfg(feature = "cluster")]
mod node;
mod phantom;
#[cfg(feature = "cluster")]
mod picture;
mod pixel;
mod pixelwise;
mod resample;
mod slice;
mod stored;
mod units;
#[cfg(feature = "cluster")]
mod volume;

#[cfg(feature = "cluster")]
pub use error::ImageError;
pub use filter::{
    AXIS_LIMIT, Edge, Filter, FilterError, FrameError, Framed, KERNEL_LIMIT, Piece, Pixels,
    PixelsError, RADIUS_LIMIT, Scratch, Serpentine, TileGrid, TileGridError, Window,
};
#[cfg(feature = "cluster")]
pub use node::operations;
pub use phantom::{Phantom, PhantomError};
#[cfg(feature = "cluster")]
pub use picture::{Image, ImageOptions};
pub use pixel::{Pixel, PixelError, Sample};
pub use pixelwise::{
    Bins, ChannelSummary, Histogram, HistogramError, Pixelwise, PixelwiseError, Prepared, Summary,
    SummaryError, Total,
};
pub use resample::{
    AffineMap, Canvas, CanvasError, Contribution, MapError, ONE_PIXEL, OUTPUT_LIMIT, Resampling,
    ResamplingError, Run, Sampling, Share, Sums,
};
pub use slice::{
    Blend, Cut, CutError, ExtractError, Grid, GridError, Interpolation, PartsError, Plane,
    PlaneError, PlaneWish, REACH_VOXELS, SLICE_LIMIT, Slab, SlabCut, SlabParts, Slice, SliceParts,
};
pub use stored::{Compression, StoredError};
#[cfg(feature = "cluster")]
pub use stored::{Description, VoxelStatistics};
pub use units::{LengthUnit, ValueUnit, VoxelUnits};
#[cfg(feature = "cluster")]
pub use volume::{Series, Volume, VolumeOptions};
