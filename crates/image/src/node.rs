//! The operations on images and volumes that run on nodes.

use std::fmt;
use std::sync::Arc;

use pario::Cluster;
use pario::operation::Operation;

use crate::picture::{
    FilterOperation, MeasureOperation, PixelwiseOperation, ResampleOperation, WindowOperation,
};
#[cfg(feature = "phantom")]
use crate::volume::PhantomOperation;
use crate::volume::{MeasureVolumeOperation, SlabOperation, SliceOperation};

/// Name of the operation that extracts a slice of a volume.
pub(crate) const SLICE: &str = "volume slice";
/// Name of the operation that blends several slices.
pub(crate) const SLAB: &str = "volume slab";
/// Name of the operation that generates a synthetic body scan.
#[cfg(feature = "phantom")]
pub(crate) const PHANTOM: &str = "volume phantom";
/// Name of the operation that measures a volume.
pub(crate) const MEASURE_VOLUME: &str = "volume measure";
/// Name of the operation that reads a window of an image.
pub(crate) const WINDOW: &str = "image window";
/// Name of the operation that resamples an image.
pub(crate) const RESAMPLE: &str = "image resample";
/// Name of the operation that filters an image.
pub(crate) const FILTER: &str = "image filter";
/// Name of the operation that maps pixels.
pub(crate) const PIXELWISE: &str = "image map";
/// Name of the operation that measures an image.
pub(crate) const MEASURE: &str = "image measure";

/// Returns the operations that a node needs for images and volumes.
///
/// ```no_run
/// pario_server::Node::new().operations(pario_image::operations()).run()?;
/// # Ok::<(), pario_server::NodeError>(())
/// ```
pub fn operations() -> Vec<(&'static str, Arc<dyn Operation>)> {
    vec![
        (SLICE, Arc::new(SliceOperation)),
        (SLAB, Arc::new(SlabOperation)),
        #[cfg(feature = "phantom")]
        (PHANTOM, Arc::new(PhantomOperation)),
        (MEASURE_VOLUME, Arc::new(MeasureVolumeOperation)),
        (WINDOW, Arc::new(WindowOperation)),
        (RESAMPLE, Arc::new(ResampleOperation)),
        (FILTER, Arc::new(FilterOperation)),
        (PIXELWISE, Arc::new(PixelwiseOperation)),
        (MEASURE, Arc::new(MeasureOperation)),
    ]
}

/// Registers the operations with the node of an embedded cluster.
pub(crate) fn register_operations(cluster: &Cluster) {
    for (name, operation) in operations() {
        cluster.add_operation(name, operation);
    }
}

/// Returns the error of a node's result that does not fit the request.
pub(crate) fn bad_result(error: impl fmt::Display) -> pario::Error {
    pario::Error::Other { text: format!("a node sent a result that does not fit: {error}") }
}
