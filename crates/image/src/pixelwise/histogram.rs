//! How often values occur.
//!
//! Invariants: there are as many counts as bins and channels; every sample that was seen is in
//! exactly one count; no count wraps, and neither does their sum: it is at most `u64::MAX`.

use serde::{Deserialize, Serialize};

use crate::filter::Pixels;
use crate::filter::channel::{Channel, zero_key};
use crate::{Pixel, Sample};

/// The most bins for floating-point samples.
const BINS_LIMIT: u32 = 65_536;

/// Into which bins values are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Bins {
    /// One for each value of 8 bits, the least first.
    Bytes,
    /// Equal ranges of the values of 16 bits, the least first.
    Words {
        /// How many: a power of two, at most 65,536.
        bins: u32,
    },
    /// Equal ranges between two numbers, of which the upper one belongs to the last bin.
    Reals {
        /// Where the first bin begins.
        low: f32,
        /// Where the last one ends.
        high: f32,
        /// How many, at most 65,536.
        bins: u32,
    },
}

/// How often values occur in each channel. Histograms of tiles are added up to that of an image.
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
#[serde(try_from = "Stored")]
pub struct Histogram {
    pixel: Pixel,
    bins: Bins,
    counts: Vec<u64>,
    /// Samples below the first bin, above the last one, and no numbers, for each channel.
    outside: Vec<[u64; 3]>,
}

/// A histogram of which nothing is known yet.
#[derive(Deserialize)]
struct Stored {
    pixel: Pixel,
    bins: Bins,
    counts: Vec<u64>,
    outside: Vec<[u64; 3]>,
}

/// Why a histogram cannot be made, read or added.
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
    /// The number of bins, or the range, makes no sense.
    #[error(
        "bins of {bins:?}: there may be 1 to 65,536 of them, a power of two for u16 and i16, and for f32 \
         between two numbers of which the second is greater"
    )]
    Bins {
        /// The bins.
        bins: Bins,
    },
    /// The counts cannot be those of a histogram.
    #[error(
        "a histogram of {pixel} has {needed} counts for each channel, or more than 2^64 samples"
    )]
    Counts {
        /// The pixels.
        pixel: Pixel,
        /// The number of bins.
        needed: usize,
    },
    /// Pixels or bins differ.
    #[error(
        "a histogram of {pixel} in {bins:?} and one of {other} in {other_bins:?} do not add up"
    )]
    Other {
        /// The pixels here.
        pixel: Pixel,
        /// The bins here.
        bins: Bins,
        /// The pixels there.
        other: Pixel,
        /// The bins there.
        other_bins: Bins,
    },
}

impl Bins {
    /// The usual ones: all values of whole numbers, or 256 between 0 and 1.
    pub fn usual(sample: Sample) -> Bins {
        match sample {
            Sample::U8 | Sample::I8 => Bins::Bytes,
            Sample::U16 | Sample::I16 => Bins::Words { bins: 65_536 },
            Sample::F32 => Bins::Reals { low: 0.0, high: 1.0, bins: 256 },
        }
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        match self {
            Bins::Bytes => 256,
            Bins::Words { bins } | Bins::Reals { bins, .. } => bins,
        }
    }

    /// Whether they make sense, and do so for such pixels.
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
    /// One without any samples.
    pub fn new(pixel: Pixel, bins: Bins) -> Result<Histogram, HistogramError> {
        bins.validate(pixel)?;
        let counts = vec![0; bins.count() as usize * pixel.channels()];
        Ok(Histogram { pixel, bins, counts, outside: vec![[0; 3]; pixel.channels()] })
    }

    /// The pixels it is for.
    pub fn pixel(&self) -> Pixel {
        self.pixel
    }

    /// Its bins.
    pub fn bins(&self) -> Bins {
        self.bins
    }

    /// The counts of a channel, one for each bin.
    ///
    /// # Panics
    ///
    /// If there is no such channel.
    pub fn channel(&self, channel: usize) -> &[u64] {
        let bins = self.bins.count() as usize;
        &self.counts[channel * bins..][..bins]
    }

    /// The value with which a bin begins; that of the bin behind the last one is where it ends.
    pub fn start_of(&self, bin: usize) -> f64 {
        let (low, high) = match self.bins {
            Bins::Bytes => (0.0, 256.0),
            Bins::Words { .. } => (0.0, 65_536.0),
            Bins::Reals { low, high, .. } => (low.real(), high.real()),
        };
        let share = bin as f64 / f64::from(self.bins.count());
        low + (high - low) * share - f64::from(zero_key(self.pixel.sample()))
    }

    /// How many samples of a channel were less than the first bin, more than the last one, and no
    /// numbers at all.
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
        // From the bits of a whole number to its place in the order of all.
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
                    let range = Range { low: low.real(), high: high.real(), bins };
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

    /// Adds what was counted elsewhere.
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
struct Range {
    low: f64,
    high: f64,
    bins: u32,
}

impl Range {
    /// The bin of a number; otherwise 0 if it is less, 1 if it is more, 2 if it is none.
    #[expect(clippy::cast_possible_truncation, reason = "cut off at the number of bins")]
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

impl TryFrom<Stored> for Histogram {
    type Error = HistogramError;

    fn try_from(stored: Stored) -> Result<Histogram, HistogramError> {
        let Stored { pixel, bins, counts, outside } = stored;
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
