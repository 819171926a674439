//! The contribution of a tile, or of all tiles of a node, to an output.

use serde::{Deserialize, Serialize};

use crate::filter::channel::SampleChannel;

/// Parts of an output: runs of complete pixels, and shares of others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contribution {
    /// Positions of the complete pixels.
    pub runs: Vec<PixelRun>,
    /// Bytes of the complete pixels, run by run.
    pub pixels: Vec<u8>,
    /// Shares of pixels of which other tiles have the rest.
    pub shares: Vec<PixelShare>,
}

/// Consecutive complete pixels of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PixelRun {
    /// Column of the first pixel.
    pub x: u32,
    /// Row of the pixels.
    pub y: u32,
    /// Number of pixels.
    pub length: u32,
}

/// A share of a pixel: some samples, each times its weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PixelShare {
    /// The column.
    pub x: u32,
    /// The row.
    pub y: u32,
    /// The sum of the weights.
    pub weight: u64,
    /// The weighted sum for each channel.
    pub sums: ChannelSums,
}

/// Weighted sums of samples; those of absent channels are 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ChannelSums {
    /// Of whole numbers; of signed ones the sums of their keys (`filter/channel.rs`).
    Whole([u64; 4]),
    /// Of floating-point numbers.
    Real([f64; 4]),
}

/// Samples that can be summed with weights.
pub(super) trait Summed: SampleChannel {
    /// The type of sums.
    type Sum: Copy + Default + std::ops::AddAssign;

    /// Returns the sample times a weight.
    fn weighed(self, weight: u64) -> Self::Sum;

    /// Returns the sum divided by the total weight.
    fn mean(sum: Self::Sum, total: u64) -> Self;

    /// Returns the sums of all channels.
    fn sums(sums: [Self::Sum; 4]) -> ChannelSums;
}

impl Contribution {
    /// Creates an empty contribution.
    pub fn new() -> Contribution {
        Contribution::default()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.shares.is_empty()
    }

    /// Appends the contribution of other tiles to the same output.
    pub fn append(&mut self, mut other: Contribution) {
        self.runs.append(&mut other.runs);
        self.pixels.append(&mut other.pixels);
        self.shares.append(&mut other.shares);
    }

    /// Adds up shares of the same pixel, so that the message gets smaller.
    pub fn merge_shares(&mut self) {
        self.shares.sort_by_key(|share| (share.y, share.x));
        self.shares
            .dedup_by(|more, share| (more.x, more.y) == (share.x, share.y) && share.add(more));
    }

    /// Adds the next pixel to the run that ends before it, or starts a run.
    pub(super) fn push(&mut self, x: u32, y: u32) {
        match self.runs.last_mut() {
            Some(run) if (run.x + run.length, run.y) == (x, y) => run.length += 1,
            _ => self.runs.push(PixelRun { x, y, length: 1 }),
        }
    }
}

impl PixelShare {
    /// Adds another share of the same pixel. Returns false if the sums are of different types or
    /// overflow.
    #[must_use]
    pub(super) fn add(&mut self, other: &PixelShare) -> bool {
        let Some(weight) = self.weight.checked_add(other.weight) else { return false };
        let sums = match (self.sums, other.sums) {
            (ChannelSums::Whole(one), ChannelSums::Whole(more)) => {
                let mut sums = [0; 4];
                for (sum, (one, more)) in sums.iter_mut().zip(one.into_iter().zip(more)) {
                    match one.checked_add(more) {
                        Some(both) => *sum = both,
                        None => return false,
                    }
                }
                ChannelSums::Whole(sums)
            }
            (ChannelSums::Real(one), ChannelSums::Real(more)) => {
                ChannelSums::Real(std::array::from_fn(|channel| one[channel] + more[channel]))
            }
            _ => return false,
        };
        (self.weight, self.sums) = (weight, sums);
        true
    }
}

impl Summed for u8 {
    type Sum = u64;

    fn weighed(self, weight: u64) -> u64 {
        u64::from(self) * weight
    }

    #[expect(clippy::cast_possible_truncation, reason = "a mean is not above the greatest sample")]
    fn mean(sum: u64, total: u64) -> u8 {
        ((sum + total / 2) / total) as u8
    }

    fn sums(sums: [u64; 4]) -> ChannelSums {
        ChannelSums::Whole(sums)
    }
}

impl Summed for u16 {
    type Sum = u64;

    fn weighed(self, weight: u64) -> u64 {
        u64::from(self) * weight
    }

    #[expect(clippy::cast_possible_truncation, reason = "a mean is not above the greatest sample")]
    fn mean(sum: u64, total: u64) -> u16 {
        ((sum + total / 2) / total) as u16
    }

    fn sums(sums: [u64; 4]) -> ChannelSums {
        ChannelSums::Whole(sums)
    }
}

impl Summed for i8 {
    type Sum = u64;

    fn weighed(self, weight: u64) -> u64 {
        self.key().weighed(weight)
    }

    fn mean(sum: u64, total: u64) -> i8 {
        i8::of_key(u8::mean(sum, total))
    }

    fn sums(sums: [u64; 4]) -> ChannelSums {
        ChannelSums::Whole(sums)
    }
}

impl Summed for i16 {
    type Sum = u64;

    fn weighed(self, weight: u64) -> u64 {
        self.key().weighed(weight)
    }

    fn mean(sum: u64, total: u64) -> i16 {
        i16::of_key(u16::mean(sum, total))
    }

    fn sums(sums: [u64; 4]) -> ChannelSums {
        ChannelSums::Whole(sums)
    }
}

impl Summed for f32 {
    type Sum = f64;

    fn weighed(self, weight: u64) -> f64 {
        f64::from(self) * weight as f64
    }

    fn mean(sum: f64, total: u64) -> f32 {
        f32::nearest(sum / total as f64)
    }

    fn sums(sums: [f64; 4]) -> ChannelSums {
        ChannelSums::Real(sums)
    }
}
