//! What values the voxels of a grey volume have.

use serde::{Deserialize, Serialize};

/// Extremes and percentiles of the voxels of a grey volume, as they were when it was imported. For
/// whole numbers they are exact. Voxels that are not numbers do not count.
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
    /// The values to show from black to white if the user asks for nothing else: between the
    /// percentiles, or between the extremes where these are equal. A volume of one value has none.
    pub fn window(&self) -> Option<[f64; 2]> {
        let window = |low: f64, high: f64| (low < high).then_some([low, high]);
        window(self.percentile_1, self.percentile_99).or_else(|| window(self.minimum, self.maximum))
    }

    /// Whether voxels can have led to it.
    pub(crate) fn is_possible(&self) -> bool {
        let order = [self.minimum, self.percentile_1, self.percentile_99, self.maximum];
        order.iter().all(|value| value.is_finite()) && order.is_sorted()
    }
}
