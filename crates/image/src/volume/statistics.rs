//! Extremes and percentiles of a grey volume: computed at the nodes and kept in its header.

use super::Volume;
use super::measure_operation::MeasureVolumeCall;
use crate::error::ImageError;
use crate::node::{self, bad_result};
use crate::picture::{Measurement, Quantity};
use crate::pixel::Sample;
use crate::pixelwise::{Bins, Histogram, Summary};
use crate::stored::{VoxelStatistics, write_description};

/// Number of bins for floating-point values.
const BINS: u32 = 65_536;

/// Limit for the passes over floating-point voxels; each pass narrows the range of the percentiles.
const PASSES: usize = 3;

/// Another pass must narrow the range by this factor.
const CLOSER: f64 = 64.0;

impl Volume {
    /// Counts the values of all voxels at the nodes.
    pub fn histogram(&self, bins: Bins) -> Result<Histogram, ImageError> {
        bins.validate(self.state.description.pixel)?;
        Ok(self.measure(Quantity::Histogram(bins))?.into_histogram())
    }

    /// Computes the smallest and the greatest value and the mean of each channel at the nodes.
    pub fn summary(&self) -> Result<Summary, ImageError> {
        Ok(self.measure(Quantity::Summary)?.into_summary())
    }

    /// Returns the statistics of the header: `None` for colours, and until
    /// [`Volume::record_statistics`] or [`Volume::compute_statistics`] is called. Later writes of
    /// voxels do not change them.
    pub fn statistics(&self) -> Option<VoxelStatistics> {
        *self.state.statistics.lock()
    }

    /// Computes extremes and percentiles at the nodes, and writes them into the header. Volumes of
    /// several channels and of values that are not finite have none.
    pub fn record_statistics(&self) -> Result<Option<VoxelStatistics>, ImageError> {
        let state = &self.state;
        let found = self.compute_statistics()?;
        write_description(&state.file, &state.tiles, &state.description, found, state.units)?;
        Ok(found)
    }

    /// Computes extremes and percentiles at the nodes without writing the header. Afterwards
    /// [`Volume::statistics`] of this volume and its clones returns them.
    pub fn compute_statistics(&self) -> Result<Option<VoxelStatistics>, ImageError> {
        let found = self.find_statistics()?.filter(VoxelStatistics::is_possible);
        *self.state.statistics.lock() = found;
        Ok(found)
    }

    fn find_statistics(&self) -> Result<Option<VoxelStatistics>, ImageError> {
        let pixel = self.state.description.pixel;
        if pixel.channels() != 1 {
            return Ok(None);
        }
        if pixel.sample() == Sample::F32 {
            return self.find_real_statistics();
        }
        let histogram = self.histogram(Bins::usual(pixel.sample()))?;
        let Some([low, high]) = percentile_bins(&histogram) else { return Ok(None) };
        let counts = histogram.channel(0);
        let (first, last) = (
            counts.iter().position(|count| *count > 0).unwrap_or(low),
            counts.iter().rposition(|count| *count > 0).unwrap_or(high),
        );
        Ok(Some(VoxelStatistics {
            minimum: histogram.start_of(first),
            maximum: histogram.start_of(last),
            percentile_1: histogram.start_of(low),
            percentile_99: histogram.start_of(high),
        }))
    }

    fn find_real_statistics(&self) -> Result<Option<VoxelStatistics>, ImageError> {
        let summary = self.summary()?;
        let Some(channel) = summary.channels().first() else { return Ok(None) };
        let (minimum, maximum) = (channel.minimum, channel.maximum);
        let mut found =
            VoxelStatistics { minimum, maximum, percentile_1: minimum, percentile_99: maximum };
        if !found.is_possible() {
            return Ok(None);
        }
        for _ in 0..PASSES {
            // Voxel values are f32, and so are these.
            #[expect(clippy::cast_possible_truncation, reason = "they came from f32 or are near")]
            let (low, high) = (found.percentile_1 as f32, found.percentile_99 as f32);
            if low >= high {
                break;
            }
            let histogram = self.histogram(Bins::Reals { low, high, bins: BINS })?;
            let Some([first, last]) = percentile_bins(&histogram) else { break };
            let before = found.percentile_99 - found.percentile_1;
            found.percentile_1 = histogram.start_of(first).clamp(minimum, maximum);
            found.percentile_99 = histogram.start_of(last + 1).clamp(minimum, maximum);
            if (found.percentile_99 - found.percentile_1) * CLOSER > before {
                break;
            }
        }
        Ok(Some(found))
    }

    fn measure(&self, quantity: Quantity) -> Result<Measurement, ImageError> {
        let state = &self.state;
        let pixel = state.description.pixel;
        let mut all = Measurement::empty(quantity, pixel).map_err(ImageError::Invalid)?;
        let call = MeasureVolumeCall { layout: state.layout.clone(), quantity };
        let work = state.cluster.process(&state.file).operation(node::MEASURE_VOLUME, call);
        work.for_each(|_, more: Measurement| all.add(&more).map_err(bad_result))?;
        let shape = self.shape();
        let voxels = shape.x.saturating_mul(shape.y).saturating_mul(shape.z);
        all.fill(voxels, quantity, pixel).map_err(bad_result)?;
        Ok(all)
    }
}

/// Returns the bins of the 1st and the 99th percentile; `None` without any number.
fn percentile_bins(histogram: &Histogram) -> Option<[usize; 2]> {
    let counts = histogram.channel(0);
    let [below, above, _] = histogram.outside(0);
    let total = counts.iter().sum::<u64>() + below + above;
    let last = total.checked_sub(1)?;
    // Find the voxel of a rank among all sorted voxels. Products of u64 need more bits.
    let find = |percent: u128| {
        let rank = u64::try_from(u128::from(last) * percent / 100).unwrap_or(last);
        let mut seen = below;
        counts.iter().position(|count| {
            seen += count;
            seen > rank
        })
    };
    let most = counts.len().checked_sub(1)?;
    Some([find(1).unwrap_or(most), find(99).unwrap_or(most)])
}
