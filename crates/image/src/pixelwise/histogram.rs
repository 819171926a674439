//! Histograms.
//!
//! Invariants: there are as many counts as bins and channels. Every counted sample is in exactly
//! one count. No count wraps, and neither does their sum: it is at most `u64::MAX`.

use serde::{Deserialize, Serialize};

use crate::filter::Pixels;
use crate::filter::channel::{SampleChannel, zero_key};
use crate::{Pixel, Sample};

/// Limit for the bins of floating-point samples.
const BINS_LIMIT: u32 = 65_536;

/// The bins of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Bins {
    /// One bin for each value of 8 bits, the least first.
    Bytes,
    /// Equal ranges of the values of 16 bits, the least first.
    Words {
        /// Number of bins: a power of two, at most 65,536.
        bins: u32,
    },
    /// Equal ranges between two numbers; the upper number belongs to the last bin.
    Reals {
        /// Start of the first bin.
        low: f32,
        /// End of the last bin.
        high: f32,
        /// Number of bins, at most 65,536.
        bins: u32,
    },
}

/// Counts of the values of each channel. The histogram of an image is the sum of those of its
/// tiles.
///
/// ```
/// use pario_image::{Bins, Histogram, Pixel, Pixels};
///
/// let image = Pixels::new(3, 1, Pixel::GREY, vec![7, 255, 7])?;
/// let mut histogram = Histogram::new(Pixel::GREY, Bins::Bytes)?;
/// histogram.count(&image)?;
/// histogram.add(&histogram.clone())?;
/// assert_eq!((histogram.channel(0)[7], histogram.channel(0)[255]), (4, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredHistogram")]
pub struct Histogram {
    pixel: Pixel,
    bins: Bins,
    counts: Vec<u64>,
    /// Samples below the first bin, above the last bin, and NaN, for each channel.
    outside: Vec<[u64; 3]>,
}

/// A decoded histogram that is not checked yet.
#[derive(Deserialize)]
struct StoredHistogram {
    pixel: Pixel,
    bins: Bins,
    counts: Vec<u64>,
    outside: Vec<[u64; 3]>,
}

/// The error of a histogram that cannot be created, decoded or added.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HistogramError {
    /// The bins are for samples of another type.
    #[error("bins of {bins:?} are not for {pixel}")]
    Sample {
        /// The bins.
        bins: Bins,
        /// The pixels.
        pixel: Pixel,
    },
    /// The number of bins or their range is not valid.
    #[error(
        "bins of {bins:?}: there may be 1 to 65,536 of them, a power of two for u16 and i16, and for f32 \
         between two numbers of which the second is greater"
    )]
    Bins {
        /// The bins.
        bins: Bins,
    },
    /// The number of counts is wrong, or their sum overflows.
    #[error(
        "a histogram of {pixel} has {needed} counts for each channel, or more than 2^64 samples"
    )]
    Counts {
        /// The pixels.
        pixel: Pixel,
        /// The number of bins.
        needed: usize,
    },
    /// The pixels or bins of two histograms differ.
    #[error(
        "a histogram of {pixel} in {bins:?} and one of {other} in {other_bins:?} do not add up"
    )]
    Other {
        /// The pixels of this histogram.
        pixel: Pixel,
        /// The bins of this histogram.
        bins: Bins,
        /// The pixels of the other one.
        other: Pixel,
        /// The bins of the other one.
        other_bins: Bins,
    },
}

impl Bins {
    /// Returns the default bins: one for each whole number, or 256 between 0 and 1.
    pub fn usual(sample: Sample) -> Bins {
        match sample {
            Sample::U8 | Sample::I8 => Bins::Bytes,
            Sample::U16 | Sample::I16 => Bins::Words { bins: 65_536 },
            Sample::F32 => Bins::Reals { low: 0.0, high: 1.0, bins: 256 },
        }
    }

    /// Returns the number of bins.
    pub fn count(self) -> u32 {
        match self {
            Bins::Bytes => 256,
            Bins::Words { bins } | Bins::Reals { bins, .. } => bins,
        }
    }

    /// Checks the bins, also for these pixels.
    pub fn validate(self, pixel: Pixel) -> Result<(), HistogramError> {
        let sensible = match self {
            Bins::Bytes => true,
            Bins::Words { bins } => bins.is_power_of_two() && bins <= 65_536,
            Bins::Reals { low, high, bins } => {
                low < high
                    && low.is_finite()
                    && high.is_finite()
                    && (1..=BINS_LIMIT).contains(&bins)
            }
        };
        match (self, pixel.sample()) {
            _ if !sensible => Err(HistogramError::Bins { bins: self }),
            (Bins::Bytes, Sample::U8 | Sample::I8)
            | (Bins::Words { .. }, Sample::U16 | Sample::I16)
            | (Bins::Reals { .. }, Sample::F32) => Ok(()),
            _ => Err(HistogramError::Sample { bins: self, pixel }),
        }
    }
}

impl Histogram {
    /// Creates a histogram without samples.
    pub fn new(pixel: Pixel, bins: Bins) -> Result<Histogram, HistogramError> {
        bins.validate(pixel)?;
        let counts = vec![0; bins.count() as usize * pixel.channels()];
        Ok(Histogram { pixel, bins, counts, outside: vec![[0; 3]; pixel.channels()] })
    }

    /// Returns the pixels of the histogram.
    pub fn pixel(&self) -> Pixel {
        self.pixel
    }

    /// Returns the bins.
    pub fn bins(&self) -> Bins {
        self.bins
    }

    /// Returns the counts of a channel, one for each bin.
    ///
    /// # Panics
    ///
    /// If there is no such channel.
    pub fn channel(&self, channel: usize) -> &[u64] {
        let bins = self.bins.count() as usize;
        &self.counts[channel * bins..][..bins]
    }

    /// Returns the value with which a bin starts; for the number of bins, the end of the last one.
    pub fn start_of(&self, bin: usize) -> f64 {
        let (low, high) = match self.bins {
            Bins::Bytes => (0.0, 256.0),
            Bins::Words { .. } => (0.0, 65_536.0),
            Bins::Reals { low, high, .. } => (low.real(), high.real()),
        };
        let share = bin as f64 / f64::from(self.bins.count());
        low + (high - low) * share - f64::from(zero_key(self.pixel.sample()))
    }

    /// Returns how many samples of a channel are below the first bin, above the last bin, and NaN.
    ///
    /// # Panics
    ///
    /// If there is no such channel.
    pub fn outside(&self, channel: usize) -> [u64; 3] {
        self.outside[channel]
    }

    /// Counts the samples of a tile.
    pub fn count(&mut self, pixels: &Pixels) -> Result<(), HistogramError> {
        if pixels.pixel() != self.pixel {
            return Err(self.differs(pixels.pixel(), self.bins));
        }
        let channels = self.pixel.channels();
        let bins = self.bins.count() as usize;
        // Maps the bits of a whole number to its position in the order of all.
        let flip = zero_key(self.pixel.sample());
        for (channel, counts) in self.counts.chunks_exact_mut(bins).enumerate() {
            match self.bins {
                Bins::Bytes => {
                    let samples = pixels.data().iter().skip(channel).step_by(channels);
                    samples.for_each(|value| counts[usize::from(u16::from(*value) ^ flip)] += 1);
                }
                Bins::Words { bins } => {
                    let shift = 16 - bins.ilog2();
                    let (samples, _) = pixels.data().as_chunks();
                    for sample in samples.iter().skip(channel).step_by(channels) {
                        counts[usize::from(u16::from_le_bytes(*sample) ^ flip) >> shift] += 1;
                    }
                }
                Bins::Reals { low, high, bins } => {
                    let range = BinRange { low: low.real(), high: high.real(), bins };
                    let (samples, _) = pixels.data().as_chunks();
                    for sample in samples.iter().skip(channel).step_by(channels) {
                        match range.bin(f32::from_le_bytes(*sample).real()) {
                            Ok(bin) => counts[bin] += 1,
                            Err(side) => self.outside[channel][side] += 1,
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &Histogram) -> Result<(), HistogramError> {
        if (other.pixel, other.bins) != (self.pixel, self.bins) {
            return Err(self.differs(other.pixel, other.bins));
        }
        let needed = self.bins.count() as usize;
        if self.total().checked_add(other.total()).is_none() {
            return Err(HistogramError::Counts { pixel: self.pixel, needed });
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        let outside = self.outside.iter_mut().flatten().zip(other.outside.iter().flatten());
        outside.for_each(|(count, more)| *count += more);
        Ok(())
    }

    fn total(&self) -> u64 {
        self.counts.iter().chain(self.outside.iter().flatten()).sum()
    }

    fn differs(&self, other: Pixel, other_bins: Bins) -> HistogramError {
        HistogramError::Other { pixel: self.pixel, bins: self.bins, other, other_bins }
    }
}

/// Equal ranges between two numbers.
struct BinRange {
    low: f64,
    high: f64,
    bins: u32,
}

impl BinRange {
    /// Returns the bin of a number, or the index in [`Histogram::outside`]: 0 below, 1 above, 2
    /// NaN.
    #[expect(clippy::cast_possible_truncation, reason = "clamped to the number of bins")]
    fn bin(&self, value: f64) -> Result<usize, usize> {
        if value.is_nan() {
            Err(2)
        } else if value < self.low {
            Err(0)
        } else if value > self.high {
            Err(1)
        } else {
            let place = (value - self.low) / (self.high - self.low) * f64::from(self.bins);
            Ok((place as usize).min(self.bins as usize - 1))
        }
    }
}

impl TryFrom<StoredHistogram> for Histogram {
    type Error = HistogramError;

    fn try_from(stored: StoredHistogram) -> Result<Histogram, HistogramError> {
        let StoredHistogram { pixel, bins, counts, outside } = stored;
        bins.validate(pixel)?;
        let needed = bins.count() as usize;
        let fits = counts.len() == needed * pixel.channels() && outside.len() == pixel.channels();
        let mut all = counts.iter().chain(outside.iter().flatten());
        if !fits || all.try_fold(0u64, |sum, count| sum.checked_add(*count)).is_none() {
            return Err(HistogramError::Counts { pixel, needed });
        }
        Ok(Histogram { pixel, bins, counts, outside })
    }
}
