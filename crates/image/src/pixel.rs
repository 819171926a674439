//! Samples and pixels.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::filter::channel::append_sample;

/// The type of one channel of a pixel. In memory and in files the bytes are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Sample {
    /// Whole numbers from 0 to 255.
    U8,
    /// Whole numbers from 0 to 65,535.
    U16,
    /// Floating-point numbers, usually from 0 to 1.
    F32,
    /// Whole numbers from -128 to 127.
    I8,
    /// Whole numbers from -32,768 to 32,767, such as Hounsfield units.
    I16,
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

/// The error of a pixel without channels or with more than four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pixel has 1 to 4 channels, not {channels}")]
pub struct PixelError {
    /// The requested number of channels.
    pub channels: u32,
}

impl Sample {
    /// All sample types.
    pub const ALL: [Sample; 5] = [Sample::U8, Sample::U16, Sample::I8, Sample::I16, Sample::F32];

    /// Returns the bytes of one channel.
    pub const fn bytes(self) -> usize {
        match self {
            Sample::U8 | Sample::I8 => 1,
            Sample::U16 | Sample::I16 => 2,
            Sample::F32 => 4,
        }
    }

    /// Returns the least and the greatest value of whole numbers; 0 and 1 for floating-point
    /// numbers, whose values have no limits.
    pub const fn range(self) -> [f64; 2] {
        match self {
            Sample::U8 => [0.0, 255.0],
            Sample::U16 => [0.0, 65_535.0],
            Sample::I8 => [-128.0, 127.0],
            Sample::I16 => [-32_768.0, 32_767.0],
            Sample::F32 => [0.0, 1.0],
        }
    }

    /// Appends the bytes of the sample that is nearest to a value. Rounds halves away from zero and
    /// clamps to the range of the type.
    pub fn append(self, value: f64, bytes: &mut Vec<u8>) {
        append_sample(self, value, bytes);
    }

    /// Returns the value of the channel in these bytes.
    ///
    /// # Panics
    ///
    /// If there are fewer bytes than a channel has.
    pub fn value(self, bytes: &[u8]) -> f64 {
        match self {
            Sample::U8 => bytes[0].into(),
            Sample::I8 => bytes[0].cast_signed().into(),
            Sample::U16 => u16::from_le_bytes([bytes[0], bytes[1]]).into(),
            Sample::I16 => i16::from_le_bytes([bytes[0], bytes[1]]).into(),
            Sample::F32 => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into(),
        }
    }
}

impl Pixel {
    /// Grey, in 256 steps.
    pub const GREY: Pixel = Pixel { sample: Sample::U8, channels: 1 };
    /// Red, green and blue, in 256 steps each.
    pub const RGB: Pixel = Pixel { sample: Sample::U8, channels: 3 };

    /// Returns a pixel of 1 to 4 channels.
    pub fn new(sample: Sample, channels: u32) -> Result<Pixel, PixelError> {
        match u8::try_from(channels) {
            Ok(channels @ 1..=4) => Ok(Pixel { sample, channels }),
            _ => Err(PixelError { channels }),
        }
    }

    /// Returns the type of the channels.
    pub const fn sample(self) -> Sample {
        self.sample
    }

    /// Returns the number of channels.
    pub const fn channels(self) -> usize {
        self.channels as usize
    }

    /// Returns the bytes of a pixel.
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
            Sample::I8 => "i8",
            Sample::I16 => "i16",
        })
    }
}

impl fmt::Display for Pixel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.channels, self.sample)
    }
}
