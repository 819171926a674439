//! Images cut into tiles and volumes cut into boxes. Each tile or box is an extent of a parallel
//! file, and the nodes compute with the tiles on their own disks.
//!
//! The crate does not move bytes between processes: it calls `pario`. Its main types are [`Image`]
//! and [`Volume`], each with an example; [`formats`] reads and writes files of other programs.
//!
//! Features: `cluster` (default) is everything that needs a cluster; without it the crate is
//! arithmetic and [`formats`] alone. It needs only the client: a program that runs a cluster in its
//! own process (`Cluster::embedded`) turns on the feature `embedded` of `pario`. `phantom` generates
//! synthetic body scans (`Phantom`, `Volume::generate`).
#![forbid(unsafe_code)]

#[cfg(feature = "cluster")]
pub mod archive;
#[cfg(feature = "cluster")]
mod error;
mod filter;
pub mod formats;
#[cfg(feature = "cluster")]
mod node;
#[cfg(feature = "phantom")]
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
    AXIS_LIMIT, Edge, Filter, FilterBuffers, FilterError, ImageWindow, KERNEL_LIMIT, PaddedTile,
    PaddingError, Pixels, PixelsError, RADIUS_LIMIT, TileGrid, TileGridError, TilePart, TileScan,
};
#[cfg(feature = "cluster")]
pub use node::operations;
#[cfg(feature = "phantom")]
pub use phantom::{Phantom, PhantomError};
#[cfg(feature = "cluster")]
pub use picture::{Image, ImageOptions};
pub use pixel::{Pixel, PixelError, Sample};
pub use pixelwise::{
    Bins, ChannelSummary, Histogram, HistogramError, Pixelwise, PixelwiseError, PreparedPixelwise,
    Summary, SummaryError, Total,
};
pub use resample::{
    AffineMap, Canvas, CanvasError, ChannelSums, Contribution, MapError, ONE_PIXEL, OUTPUT_LIMIT,
    PixelRun, PixelShare, Resampling, ResamplingError, Sampling,
};
pub use slice::{
    Blend, BoxGrid, BoxGridError, Cut, CutError, ExtractError, Interpolation, PartsError, Plane,
    PlaneError, REACH_VOXELS, SLICE_LIMIT, Slab, SlabCut, SlabParts, Slice, SliceParts, SliceQuery,
};
pub use stored::{Compression, StoredError};
#[cfg(feature = "cluster")]
pub use stored::{ImageDescription, VoxelStatistics};
pub use units::{LengthUnit, ValueUnit, VoxelUnits};
#[cfg(feature = "cluster")]
pub use volume::{SliceSeries, Volume, VolumeOptions};
