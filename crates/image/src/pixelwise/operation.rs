//! The available pixel-wise operations.

use serde::{Deserialize, Serialize};

use crate::Pixel;
use crate::filter::Pixels;
use crate::pixelwise::PreparedPixelwise;
use crate::pixelwise::power::powers;

/// An operation on each pixel. White is the greatest value of whole numbers (255, 65,535, 127 or
/// 32,767) and 1 for floating-point numbers. A result is rounded to the nearest sample, halves away
/// from zero, and clamped to the range of the type.
///
/// ```
/// use pario_image::{Pixel, Pixels, Pixelwise};
///
/// let image = Pixels::new(2, 1, Pixel::RGB, vec![255, 0, 0, 90, 90, 90])?;
/// let grey = Pixelwise::ChannelMix { matrix: vec![0.299, 0.587, 0.114], offsets: vec![0.0] };
/// assert_eq!(grey.output_pixel(Pixel::RGB)?, Pixel::GREY);
/// assert_eq!(grey.apply(&image)?.data(), [76, 90]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pixelwise {
    /// `white * (value / white) ^ gamma`; negative values and NaN become 0.
    Gamma {
        /// The exponent, more than 0; below 1 it makes pictures brighter.
        gamma: f64,
    },
    /// One of two values.
    Threshold {
        /// The threshold; smaller values and NaN are below it.
        at: f64,
        /// The result for values below.
        below: f64,
        /// The result for all others.
        above: f64,
    },
    /// Each output channel is a weighted sum of the input channels plus an offset. Products are
    /// added to the offset in the order of the channels, in `f64`.
    ChannelMix {
        /// The weights: a row for each output channel with a weight for each input channel.
        matrix: Vec<f64>,
        /// The offsets, one for each output channel.
        offsets: Vec<f64>,
    },
    /// `white - value`; for signed whole numbers `-1 - value`, so that the least value becomes the
    /// greatest.
    Invert,
    /// Stretches a range of values: `low` becomes 0, `high` becomes white, and values beyond are
    /// clamped.
    Levels {
        /// The value that becomes 0.
        low: f64,
        /// The value that becomes white; different from `low`.
        high: f64,
    },
}

/// The error of an operation that is not valid or cannot be applied to these pixels.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PixelwiseError {
    /// A parameter is not finite.
    #[error("{what} is {value}: it must be a finite number")]
    NotFinite {
        /// The name of the parameter.
        what: &'static str,
        /// The value.
        value: f64,
    },
    /// The exponent is not in its range.
    #[error("gamma is {gamma}: it must be more than 0 and at most 1000")]
    Gamma {
        /// The exponent given.
        gamma: f64,
    },
    /// Both levels are equal.
    #[error("both levels are {level}: they must be different")]
    Levels {
        /// The level given.
        level: f64,
    },
    /// The matrix is not one for 1 to 4 channels.
    #[error(
        "a channel mix with {weights} weights and {offsets} offsets: there must be 1 to 4 offsets, \
         and for each 1 to 4 weights"
    )]
    Matrix {
        /// The number of weights given.
        weights: usize,
        /// The number of offsets given.
        offsets: usize,
    },
    /// The matrix is for another number of channels.
    #[error("a channel mix with weights for {channels} channels cannot be applied to {pixel}")]
    Channels {
        /// The number of input channels of the matrix.
        channels: usize,
        /// The pixels of the image.
        pixel: Pixel,
    },
    /// The operation was prepared for other pixels.
    #[error("the operation was prepared for {prepared}, not for {pixel}")]
    OtherPixel {
        /// The pixels that it was prepared for.
        prepared: Pixel,
        /// The pixels that it was applied to.
        pixel: Pixel,
    },
}

impl Pixelwise {
    /// Checks the parameters. Every operation that comes from another process must be checked.
    pub fn validate(&self) -> Result<(), PixelwiseError> {
        match self {
            Pixelwise::Gamma { gamma } => match *gamma > 0.0 && *gamma <= 1_000.0 {
                true => Ok(()),
                false => Err(PixelwiseError::Gamma { gamma: *gamma }),
            },
            Pixelwise::Threshold { at, below, above } => {
                check_finite("the threshold", *at)?;
                check_finite("the value below the threshold", *below)?;
                check_finite("the value above the threshold", *above)
            }
            Pixelwise::ChannelMix { matrix, offsets } => {
                let (weights, rows) = (matrix.len(), offsets.len());
                let fits = (1..=4).contains(&rows)
                    && weights % rows == 0
                    && (1..=4).contains(&(weights / rows));
                if !fits {
                    return Err(PixelwiseError::Matrix { weights, offsets: rows });
                }
                matrix.iter().try_for_each(|weight| check_finite("a weight", *weight))?;
                offsets.iter().try_for_each(|offset| check_finite("an offset", *offset))
            }
            Pixelwise::Invert => Ok(()),
            Pixelwise::Levels { low, high } => {
                check_finite("the lower level", *low)?;
                check_finite("the upper level", *high)?;
                if low == high { Err(PixelwiseError::Levels { level: *low }) } else { Ok(()) }
            }
        }
    }

    /// Returns the pixel that the operation produces.
    pub fn output_pixel(&self, input: Pixel) -> Result<Pixel, PixelwiseError> {
        self.validate()?;
        let Pixelwise::ChannelMix { matrix, offsets } = self else { return Ok(input) };
        let (weights, rows) = (matrix.len(), offsets.len());
        if weights / rows != input.channels() {
            return Err(PixelwiseError::Channels { channels: weights / rows, pixel: input });
        }
        u32::try_from(rows)
            .ok()
            .and_then(|channels| Pixel::new(input.sample(), channels).ok())
            .ok_or(PixelwiseError::Matrix { weights, offsets: rows })
    }

    /// Prepares the operation for many tiles: computes its tables once.
    pub fn prepare(&self, input: Pixel) -> Result<PreparedPixelwise, PixelwiseError> {
        PreparedPixelwise::new(self, input)
    }

    /// Applies the operation to pixels. For more than one tile, use [`Pixelwise::prepare`].
    pub fn apply(&self, pixels: &Pixels) -> Result<Pixels, PixelwiseError> {
        self.prepare(pixels.pixel())?.apply(pixels)
    }

    /// Computes the results for some values; a channel mix returns them unchanged.
    pub(super) fn values<const N: usize>(
        &self,
        values: [f64; N],
        black: f64,
        white: f64,
    ) -> [f64; N] {
        match self {
            Pixelwise::Gamma { gamma } => {
                let bases = values.map(|value| (value / white).max(0.0));
                powers(bases, *gamma).map(|power| white * power)
            }
            Pixelwise::Threshold { at, below, above } => {
                values.map(|value| if value >= *at { *above } else { *below })
            }
            Pixelwise::ChannelMix { .. } => values,
            Pixelwise::Invert => values.map(|value| black + white - value),
            Pixelwise::Levels { low, high } => {
                values.map(|value| ((value - low) / (high - low) * white).clamp(0.0, white))
            }
        }
    }
}

fn check_finite(what: &'static str, value: f64) -> Result<(), PixelwiseError> {
    if value.is_finite() { Ok(()) } else { Err(PixelwiseError::NotFinite { what, value }) }
}
