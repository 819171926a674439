//! Statistics of the voxel values of a grey volume.

use serde::{Deserialize, Serialize};

/// Extremes and percentiles of the voxels of a grey volume at the time of its import. They are
/// exact for whole numbers. Voxels that are NaN do not count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct VoxelStatistics {
    /// The smallest value.
    pub minimum: f64,
    /// The greatest value.
    pub maximum: f64,
    /// The value below which 1 % of the voxels lie.
    pub percentile_1: f64,
    /// The value below which 99 % of the voxels lie.
    pub percentile_99: f64,
}

impl VoxelStatistics {
    /// Returns the default grey window: the range between the percentiles, or between the extremes
    /// if the percentiles are equal. A volume of one value has no window.
    pub fn window(&self) -> Option<[f64; 2]> {
        let window = |low: f64, high: f64| (low < high).then_some([low, high]);
        window(self.percentile_1, self.percentile_99).or_else(|| window(self.minimum, self.maximum))
    }

    /// Returns whether voxels can have these statistics.
    pub(crate) fn is_possible(&self) -> bool {
        let order = [self.minimum, self.percentile_1, self.percentile_99, self.maximum];
        order.iter().all(|value| value.is_finite()) && order.is_sorted()
    }
}
