//! Which pixel-wise operations there are.

use serde::{Deserialize, Serialize};

use crate::Pixel;
use crate::filter::Pixels;
use crate::pixelwise::Prepared;
use crate::pixelwise::power::powers;

/// What becomes of each pixel. White is the greatest value of whole numbers (255, 65,535, 127 or
/// 32,767) and 1 for floating-point numbers; a result is rounded to the nearest sample, halves away from zero, and cut off where samples end.
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
    /// `white * (value / white) ^ gamma`; what is negative or no number becomes 0.
    Gamma {
        /// The exponent, more than 0; below 1 it makes pictures brighter.
        gamma: f64,
    },
    /// One of two values.
    Threshold {
        /// What is less is below; what is no number is, too.
        at: f64,
        /// What those below become.
        below: f64,
        /// What the others become.
        above: f64,
    },
    /// Each channel is a sum of the channels with weights, plus an offset. Products are added to the
    /// offset in the order of the channels, in `f64`.
    ChannelMix {
        /// The weights: a row for each channel that comes out, as long as there are channels that
        /// go in.
        matrix: Vec<f64>,
        /// The offsets: one for each channel that comes out.
        offsets: Vec<f64>,
    },
    /// `white - value`; for signed whole numbers `-1 - value`, so that the least value becomes the
    /// greatest.
    Invert,
    /// A window of values is spread: `low` becomes 0 and `high` white, what is beyond is cut off.
    Levels {
        /// What becomes 0.
        low: f64,
        /// What becomes white; not the same.
        high: f64,
    },
}

/// Why an operation is none, or cannot be applied to such pixels.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PixelwiseError {
    /// A parameter is no number.
    #[error("{what} is {value}: it must be a finite number")]
    NotFinite {
        /// Which of them.
        what: &'static str,
        /// The value.
        value: f64,
    },
    /// The exponent makes no sense.
    #[error("gamma is {gamma}: it must be more than 0 and at most 1000")]
    Gamma {
        /// The exponent given.
        gamma: f64,
    },
    /// There is nothing between the two levels.
    #[error("both levels are {level}: they must be different")]
    Levels {
        /// The level given.
        level: f64,
    },
    /// The matrix is not a matrix for one to four channels.
    #[error(
        "a channel mix with {weights} weights and {offsets} offsets: there must be 1 to 4 offsets, \
         and for each 1 to 4 weights"
    )]
    Matrix {
        /// The weights given.
        weights: usize,
        /// The offsets given.
        offsets: usize,
    },
    /// The matrix is for other pixels.
    #[error("a channel mix with weights for {channels} channels cannot be applied to {pixel}")]
    Channels {
        /// The channels that the matrix is for.
        channels: usize,
        /// The pixels there are.
        pixel: Pixel,
    },
    /// What was prepared for other pixels cannot be applied to these.
    #[error("the operation was prepared for {prepared}, not for {pixel}")]
    OtherPixel {
        /// What it was prepared for.
        prepared: Pixel,
        /// The pixels there are.
        pixel: Pixel,
    },
}

impl Pixelwise {
    /// Whether the parameters make sense. To be asked about everything that comes from outside.
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

    /// What kind of pixels it makes of such pixels.
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

    /// Gets ready for many tiles of such pixels: tables are computed once.
    pub fn prepare(&self, input: Pixel) -> Result<Prepared, PixelwiseError> {
        Prepared::new(self, input)
    }

    /// What it makes of pixels. For more than a tile, [`Pixelwise::prepare`] is faster.
    pub fn apply(&self, pixels: &Pixels) -> Result<Pixels, PixelwiseError> {
        self.prepare(pixels.pixel())?.apply(pixels)
    }

    /// What becomes of some values; a mix of channels leaves them as they are.
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
