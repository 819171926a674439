//! The smallest and the greatest value, and the mean.
//!
//! Invariants: there is one summary for each channel. Without samples, the minimum is infinity and
//! the maximum minus infinity; otherwise the minimum is not above the maximum. Totals of whole
//! numbers are exact.

use serde::{Deserialize, Serialize};

use crate::filter::Pixels;
use crate::filter::channel::SampleChannel;
use crate::{Pixel, Sample};

/// Extremes and totals of each channel. The summary of an image is the sum of those of its tiles.
///
/// ```
/// use pario_image::{Pixel, Pixels, Summary};
///
/// let mut summary = Summary::new(Pixel::GREY);
/// summary.count(&Pixels::new(2, 1, Pixel::GREY, vec![3, 9])?)?;
/// let grey = summary.channels()[0];
/// assert_eq!((grey.minimum, grey.maximum, grey.mean()), (3.0, 9.0, Some(6.0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredSummary")]
pub struct Summary {
    pixel: Pixel,
    channels: Vec<ChannelSummary>,
}

/// Extremes and total of the samples of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelSummary {
    /// Number of samples without NaN.
    pub count: u64,
    /// Number of NaN.
    pub not_numbers: u64,
    /// The smallest value.
    pub minimum: f64,
    /// The greatest value.
    pub maximum: f64,
    /// The sum of the samples.
    pub total: Total,
}

/// A sum of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Total {
    /// Of whole numbers that are not negative, exact.
    Whole(u128),
    /// Of floating-point numbers; the last bits depend on the order in which tiles are added.
    Real(f64),
    /// Of signed whole numbers, exact.
    Signed(i128),
}

/// A decoded summary that is not checked yet.
#[derive(Deserialize)]
struct StoredSummary {
    pixel: Pixel,
    channels: Vec<ChannelSummary>,
}

/// The error of summaries that cannot be decoded or added.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SummaryError {
    /// The values of a summary contradict each other.
    #[error("a summary of {pixel} with {channels} channels whose values contradict each other")]
    Contradiction {
        /// The pixels.
        pixel: Pixel,
        /// The number of channels given.
        channels: usize,
    },
    /// The pixels of two summaries differ.
    #[error("a summary of {pixel} and one of {other} do not add up")]
    Other {
        /// The pixels of this summary.
        pixel: Pixel,
        /// The pixels of the other one.
        other: Pixel,
    },
    /// The number of samples overflows.
    #[error("summaries of more than 2^64 samples of {pixel} do not add up")]
    TooMany {
        /// The pixels.
        pixel: Pixel,
    },
}

impl Summary {
    /// Creates a summary without samples.
    pub fn new(pixel: Pixel) -> Summary {
        let total = match pixel.sample() {
            Sample::U8 | Sample::U16 => Total::Whole(0),
            Sample::I8 | Sample::I16 => Total::Signed(0),
            Sample::F32 => Total::Real(0.0),
        };
        Summary { pixel, channels: vec![ChannelSummary::none(total); pixel.channels()] }
    }

    /// Returns the pixels of the summary.
    pub fn pixel(&self) -> Pixel {
        self.pixel
    }

    /// Returns the summaries of the channels.
    pub fn channels(&self) -> &[ChannelSummary] {
        &self.channels
    }

    /// Counts the samples of a tile.
    pub fn count(&mut self, pixels: &Pixels) -> Result<(), SummaryError> {
        if pixels.pixel() != self.pixel {
            return Err(SummaryError::Other { pixel: self.pixel, other: pixels.pixel() });
        }
        let seen = match self.pixel.sample() {
            Sample::U8 => whole::<u8>(pixels, unsigned),
            Sample::U16 => whole::<u16>(pixels, unsigned),
            Sample::I8 => whole::<i8>(pixels, |sum| Total::Signed(sum.into())),
            Sample::I16 => whole::<i16>(pixels, |sum| Total::Signed(sum.into())),
            Sample::F32 => reals(pixels),
        };
        self.add(&Summary { pixel: self.pixel, channels: seen })
    }

    /// Adds another summary.
    pub fn add(&mut self, other: &Summary) -> Result<(), SummaryError> {
        if other.pixel != self.pixel {
            return Err(SummaryError::Other { pixel: self.pixel, other: other.pixel });
        }
        let pairs = self.channels.iter().zip(&other.channels);
        let sums: Option<Vec<_>> = pairs.map(|(one, more)| one.plus(more)).collect();
        self.channels = sums.ok_or(SummaryError::TooMany { pixel: self.pixel })?;
        Ok(())
    }
}

impl ChannelSummary {
    fn none(total: Total) -> ChannelSummary {
        ChannelSummary {
            count: 0,
            not_numbers: 0,
            minimum: f64::INFINITY,
            maximum: f64::NEG_INFINITY,
            total,
        }
    }

    /// Returns the mean, if there are any samples.
    pub fn mean(&self) -> Option<f64> {
        let total = match self.total {
            Total::Whole(total) => total as f64,
            Total::Signed(total) => total as f64,
            Total::Real(total) => total,
        };
        (self.count > 0).then(|| total / self.count as f64)
    }

    fn plus(&self, other: &ChannelSummary) -> Option<ChannelSummary> {
        Some(ChannelSummary {
            count: self.count.checked_add(other.count)?,
            not_numbers: self.not_numbers.checked_add(other.not_numbers)?,
            minimum: self.minimum.min(other.minimum),
            maximum: self.maximum.max(other.maximum),
            total: match (self.total, other.total) {
                (Total::Whole(one), Total::Whole(more)) => Total::Whole(one.checked_add(more)?),
                (Total::Signed(one), Total::Signed(more)) => Total::Signed(one.checked_add(more)?),
                (Total::Real(one), Total::Real(more)) => Total::Real(one + more),
                _ => return None,
            },
        })
    }

    /// Returns whether samples of this type can have this summary.
    fn is_possible(&self, sample: Sample) -> bool {
        let ChannelSummary { count, not_numbers, minimum, maximum, total } = *self;
        let [least, greatest] = sample.range();
        let whole = |value: f64| value.trunc() == value && (least..=greatest).contains(&value);
        match (sample, total) {
            (Sample::F32, Total::Real(total)) if count == 0 => {
                (minimum, maximum, total) == (f64::INFINITY, f64::NEG_INFINITY, 0.0)
            }
            (Sample::F32, Total::Real(_)) => minimum <= maximum,
            (Sample::U8 | Sample::U16, Total::Whole(0))
            | (Sample::I8 | Sample::I16, Total::Signed(0))
                if count == 0 =>
            {
                (minimum, maximum, not_numbers) == (f64::INFINITY, f64::NEG_INFINITY, 0)
            }
            (Sample::U8 | Sample::U16, Total::Whole(_))
            | (Sample::I8 | Sample::I16, Total::Signed(_)) => {
                let total = match total {
                    Total::Whole(total) => i128::try_from(total).ok(),
                    Total::Signed(total) => Some(total),
                    Total::Real(_) => None,
                };
                let bounds = bound(minimum, count)..=bound(maximum, count);
                let numbers = whole(minimum) && whole(maximum) && not_numbers == 0;
                count > 0 && numbers && total.is_some_and(|total| bounds.contains(&total))
            }
            _ => false,
        }
    }
}

/// Returns the total of `count` samples of this value. Values outside of the range are rejected
/// elsewhere.
#[expect(clippy::cast_possible_truncation, reason = "samples have 16 bits")]
fn bound(value: f64, count: u64) -> i128 {
    i128::from(value.clamp(-32_768.0, 65_535.0) as i64) * i128::from(count)
}

/// Returns a total of samples without signs.
fn unsigned(sum: i64) -> Total {
    Total::Whole(sum.unsigned_abs().into())
}

fn whole<T: SampleChannel + Ord + Into<i64>>(
    pixels: &Pixels,
    total: impl Fn(i64) -> Total,
) -> Vec<ChannelSummary> {
    let mut samples: Vec<T> = Vec::new();
    let channels = pixels.pixel().channels();
    let mut sums = [0i64; 4];
    let mut extremes = [None; 4];
    for y in 0..pixels.height() {
        samples.clear();
        T::load(pixels.row(y), &mut samples);
        for channel in 0..channels {
            let values = || samples.iter().copied().skip(channel).step_by(channels);
            let row = values().map(|value| (value, value, value.into()));
            let row = row.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1), a.2 + b.2));
            let Some((least, most, sum)) = row else { continue };
            sums[channel] += sum;
            let (low, high) = extremes[channel].unwrap_or((least, most));
            extremes[channel] = Some((least.min(low), most.max(high)));
        }
    }
    let count = pixels.window().area();
    let summary = |(sum, extremes): (i64, Option<(T, T)>)| match extremes {
        None => ChannelSummary::none(total(0)),
        Some((low, high)) => ChannelSummary {
            count,
            not_numbers: 0,
            minimum: low.real(),
            maximum: high.real(),
            total: total(sum),
        },
    };
    sums.into_iter().zip(extremes).take(channels).map(summary).collect()
}

fn reals(pixels: &Pixels) -> Vec<ChannelSummary> {
    let channels = pixels.pixel().channels();
    let (samples, _) = pixels.data().as_chunks();
    let of_channel = |channel: usize| {
        let mut summary = ChannelSummary::none(Total::Real(0.0));
        let mut total = 0.0;
        for sample in samples.iter().skip(channel).step_by(channels) {
            let value = f32::from_le_bytes(*sample).real();
            if value.is_nan() {
                summary.not_numbers += 1;
                continue;
            }
            summary.count += 1;
            summary.minimum = summary.minimum.min(value);
            summary.maximum = summary.maximum.max(value);
            total += value;
        }
        ChannelSummary { total: Total::Real(total), ..summary }
    };
    (0..channels).map(of_channel).collect()
}

impl TryFrom<StoredSummary> for Summary {
    type Error = SummaryError;

    fn try_from(stored: StoredSummary) -> Result<Summary, SummaryError> {
        let StoredSummary { pixel, channels } = stored;
        let possible = channels.iter().all(|channel| channel.is_possible(pixel.sample()));
        match possible && channels.len() == pixel.channels() {
            true => Ok(Summary { pixel, channels }),
            false => Err(SummaryError::Contradiction { pixel, channels: channels.len() }),
        }
    }
}
