//! Images cut into tiles and volumes cut into boxes, each an extent of a parallel file, and what is
//! computed with them where they lie.
#![forbid(unsafe_code)]

mod filter;
mod pixel;
mod pixelwise;
mod resample;

pub use filter::{
    AXIS_LIMIT, Edge, Filter, FilterError, FrameError, Framed, Grid, GridError, KERNEL_LIMIT,
    Piece, Pixels, PixelsError, RADIUS_LIMIT, Scratch, Serpentine, Window,
};
pub use pixel::{Pixel, PixelError, Sample};
pub use pixelwise::{
    Bins, ChannelSummary, Histogram, HistogramError, Pixelwise, PixelwiseError, Prepared, Summary,
    SummaryError, Total,
};
pub use resample::{
    AffineMap, Canvas, CanvasError, Contribution, Interpolation, MapError, ONE_PIXEL, OUTPUT_LIMIT,
    Resampling, ResamplingError, Run, Share, Sums,
};
