//! What a pixel is made of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The type of one channel of a pixel. In memory and in files the bytes are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Sample {
    /// Whole numbers from 0 to 255.
    U8,
    /// Whole numbers from 0 to 65,535.
    U16,
    /// Floating-point numbers, as a rule from 0 to 1.
    F32,
}

/// A pixel or voxel: one to four channels of the same type, one after the other.
///
/// ```
/// use pario_image::{Pixel, Sample};
///
/// let colour = Pixel::new(Sample::U8, 3)?;
/// assert_eq!((colour.bytes(), colour.to_string()), (3, "3 x u8".to_owned()));
/// assert!(Pixel::new(Sample::F32, 5).is_err());
/// # Ok::<(), pario_image::PixelError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "(Sample, u8)", into = "(Sample, u8)")]
pub struct Pixel {
    sample: Sample,
    channels: u8,
}

impl TryFrom<(Sample, u8)> for Pixel {
    type Error = PixelError;

    fn try_from((sample, channels): (Sample, u8)) -> Result<Pixel, PixelError> {
        Pixel::new(sample, channels.into())
    }
}

impl From<Pixel> for (Sample, u8) {
    fn from(pixel: Pixel) -> (Sample, u8) {
        (pixel.sample, pixel.channels)
    }
}

/// There are pixels of one to four channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pixel has 1 to 4 channels, not {channels}")]
pub struct PixelError {
    /// What was asked for.
    pub channels: u32,
}

impl Sample {
    /// Bytes of one channel.
    pub const fn bytes(self) -> usize {
        match self {
            Sample::U8 => 1,
            Sample::U16 => 2,
            Sample::F32 => 4,
        }
    }
}

impl Pixel {
    /// Grey, in 256 steps.
    pub const GREY: Pixel = Pixel { sample: Sample::U8, channels: 1 };
    /// Red, green and blue, in 256 steps each.
    pub const RGB: Pixel = Pixel { sample: Sample::U8, channels: 3 };

    /// A pixel of so many channels.
    pub fn new(sample: Sample, channels: u32) -> Result<Pixel, PixelError> {
        match u8::try_from(channels) {
            Ok(channels @ 1..=4) => Ok(Pixel { sample, channels }),
            _ => Err(PixelError { channels }),
        }
    }

    /// The type of its channels.
    pub const fn sample(self) -> Sample {
        self.sample
    }

    /// How many channels it has.
    pub const fn channels(self) -> usize {
        self.channels as usize
    }

    /// Its bytes.
    pub const fn bytes(self) -> usize {
        self.sample.bytes() * self.channels as usize
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sample::U8 => "u8",
            Sample::U16 => "u16",
            Sample::F32 => "f32",
        })
    }
}

impl fmt::Display for Pixel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.channels, self.sample)
    }
}
