//! What nodes can do with images and volumes.

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

/// A slice through a volume.
pub(crate) const SLICE: &str = "volume slice";
/// Several slices as one.
pub(crate) const SLAB: &str = "volume slab";
/// A body that does not exist.
#[cfg(feature = "phantom")]
pub(crate) const PHANTOM: &str = "volume phantom";
/// A histogram or summary of a volume.
pub(crate) const MEASURE_VOLUME: &str = "volume measure";
/// A window of an image.
pub(crate) const WINDOW: &str = "image window";
/// A window at another scale or turned.
pub(crate) const RESAMPLE: &str = "image resample";
/// A neighbourhood operation.
pub(crate) const FILTER: &str = "image filter";
/// A pixel-wise operation.
pub(crate) const PIXELWISE: &str = "image map";
/// A histogram or summary.
pub(crate) const MEASURE: &str = "image measure";

/// What a node must be able to do for images and volumes: with these it is started.
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

/// A node in this process can do it from now on.
pub(crate) fn register_operations(cluster: &Cluster) {
    for (name, operation) in operations() {
        cluster.add_operation(name, operation);
    }
}

/// Returns the error for a result of a node that does not fit into what the client asked for.
pub(crate) fn bad_result(error: impl fmt::Display) -> pario::Error {
    pario::Error::Other { text: format!("what a node has sent does not fit: {error}") }
}
