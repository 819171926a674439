//! The available filters.

use serde::{Deserialize, Serialize};

use crate::filter::{FilterBuffers, PaddedTile, Pixels, convolution, extreme, gaussian, median};

/// Limit for the radius of a filter, in pixels.
pub const RADIUS_LIMIT: u32 = 15;

/// Limit for a side of the kernel of a convolution.
pub const KERNEL_LIMIT: u32 = 2 * RADIUS_LIMIT + 1;

/// A neighbourhood operation: the value of each pixel depends on the pixels around it. Each channel
/// is computed on its own.
///
/// ```
/// use pario_image::{Edge, Filter, FilterBuffers, PaddedTile, Pixel, Pixels, TileGrid};
/// use pario_proto::{Shape, TilePosition};
///
/// let image = Pixels::new(3, 1, Pixel::GREY, vec![10, 90, 20])?;
/// let grid = TileGrid::new(Shape::image(3, 1), Shape::image(3, 1))?;
/// let filter = Filter::Median { radius: 1 };
/// let tile = TilePosition::image(0, 0);
/// let parts = [(image.window(), &image)];
/// let padded = PaddedTile::assemble(&grid, tile, filter.radius(), Edge::Clamp, parts)?;
/// assert_eq!(filter.apply(&padded, &mut FilterBuffers::new())?.data(), [10, 20, 20]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Filter {
    /// The weighted sum of the pixels around, divided by the divisor, plus the offset.
    ///
    /// The weights lie on the image as they are written, row by row, with the middle one on the
    /// pixel. Products are added in this order, starting with 0: for samples of 8 bits in `f32`
    /// (which is exact for whole weights as long as sums stay below 2^24), for others in `f64`. The
    /// division and the offset use the same type. The result is rounded to the nearest sample,
    /// halves away from zero, and clamped to the range of the type.
    Convolution {
        /// Width of the kernel, odd, at most [`KERNEL_LIMIT`].
        width: u32,
        /// Height of the kernel, odd, at most [`KERNEL_LIMIT`].
        height: u32,
        /// The `width * height` weights.
        weights: Vec<f32>,
        /// Divisor of the sum.
        divisor: f32,
        /// Number that is added after the division.
        offset: f32,
    },
    /// Smooths with a Gaussian of this standard deviation, cut off at three standard deviations.
    ///
    /// Weights are whole multiples of 2^-16 whose sum is exactly 1. The filter smooths columns
    /// first, then rows. Between the two it rounds samples of 8 bits to 7 binary places; it rounds
    /// samples of 16 bits only at the end; it computes samples of 32 bits in `f32`, from the middle
    /// outwards.
    Gaussian {
        /// Standard deviation in pixels; more than 0, at most 5.
        sigma: f64,
    },
    /// The median of the square around the pixel.
    Median {
        /// Radius of the square, at most [`RADIUS_LIMIT`].
        radius: u32,
    },
    /// The smallest value of the square around the pixel.
    Erosion {
        /// Radius of the square, at most [`RADIUS_LIMIT`].
        radius: u32,
    },
    /// The greatest value of the square around the pixel.
    Dilation {
        /// Radius of the square, at most [`RADIUS_LIMIT`].
        radius: u32,
    },
}

/// The error of a filter that is not valid or cannot be applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FilterError {
    /// A side of the kernel is even or too large.
    #[error(
        "a kernel of {width} x {height} weights: both sides must be odd and at most {KERNEL_LIMIT}"
    )]
    Kernel {
        /// The width given.
        width: u32,
        /// The height given.
        height: u32,
    },
    /// The number of weights is wrong.
    #[error("a kernel of {width} x {height} needs {} weights, not {given}", width * height)]
    Weights {
        /// The width of the kernel.
        width: u32,
        /// The height of the kernel.
        height: u32,
        /// The number of weights given.
        given: usize,
    },
    /// A weight, the divisor or the offset is not finite.
    #[error("a kernel with {what} {value}: it must be a finite number")]
    NotFinite {
        /// The name of the parameter.
        what: &'static str,
        /// The value.
        value: f32,
    },
    /// The divisor is 0.
    #[error("a kernel with the divisor 0: use 1 if sums are not to be divided")]
    Divisor,
    /// The standard deviation is not positive or too large.
    #[error(
        "a Gaussian filter with sigma {sigma}: it must be more than 0, and three of them at most \
         {RADIUS_LIMIT} pixels"
    )]
    Sigma {
        /// The value given.
        sigma: f64,
    },
    /// The radius is too large.
    #[error("a filter with radius {radius}: at most {RADIUS_LIMIT} pixels are possible")]
    Radius {
        /// The radius given.
        radius: u32,
    },
    /// The border of the tile is smaller than the radius.
    #[error("the filter reaches {radius} pixels far, but the tile has a border of {border}")]
    Border {
        /// The radius of the filter.
        radius: u32,
        /// The border of the tile.
        border: u32,
    },
}

impl Filter {
    /// Checks the parameters. Every filter that comes from another process must be checked.
    pub fn validate(&self) -> Result<(), FilterError> {
        match self {
            Filter::Convolution { width, height, weights, divisor, offset } => {
                check_kernel(*width, *height, weights)?;
                check_finite("the divisor", *divisor)?;
                check_finite("the offset", *offset)?;
                if *divisor == 0.0 { Err(FilterError::Divisor) } else { Ok(()) }
            }
            Filter::Gaussian { sigma } => {
                match *sigma > 0.0 && 3.0 * sigma <= f64::from(RADIUS_LIMIT) {
                    true => Ok(()),
                    false => Err(FilterError::Sigma { sigma: *sigma }),
                }
            }
            Filter::Median { radius }
            | Filter::Erosion { radius }
            | Filter::Dilation { radius } => match *radius {
                ..=RADIUS_LIMIT => Ok(()),
                radius => Err(FilterError::Radius { radius }),
            },
        }
    }

    /// Returns the radius of the filter: the border that a tile needs.
    pub fn radius(&self) -> u32 {
        match self {
            Filter::Convolution { width, height, .. } => width.max(height) / 2,
            Filter::Gaussian { sigma } => gaussian::radius(*sigma),
            Filter::Median { radius }
            | Filter::Erosion { radius }
            | Filter::Dilation { radius } => *radius,
        }
    }

    /// Filters a tile. Its border may be larger than the radius.
    pub fn apply(
        &self,
        padded: &PaddedTile,
        buffers: &mut FilterBuffers,
    ) -> Result<Pixels, FilterError> {
        self.validate()?;
        let (radius, border) = (self.radius(), padded.border());
        if radius > border {
            return Err(FilterError::Border { radius, border });
        }
        let data = match self {
            Filter::Convolution { width, height, weights, divisor, offset } => {
                let kernel = convolution::Kernel {
                    across: width / 2,
                    down: height / 2,
                    weights,
                    divisor: *divisor,
                    offset: *offset,
                };
                convolution::apply(&kernel, padded, buffers)
            }
            Filter::Gaussian { sigma } => gaussian::apply(*sigma, padded, buffers),
            Filter::Median { radius } => median::apply(*radius, padded, buffers),
            Filter::Erosion { radius } => extreme::erode(*radius, padded, buffers),
            Filter::Dilation { radius } => extreme::dilate(*radius, padded, buffers),
        };
        Ok(Pixels::from_checked(padded.width(), padded.height(), padded.pixels().pixel(), data))
    }
}

fn check_kernel(width: u32, height: u32, weights: &[f32]) -> Result<(), FilterError> {
    let side = |length: u32| length % 2 == 1 && length <= KERNEL_LIMIT;
    if !side(width) || !side(height) {
        return Err(FilterError::Kernel { width, height });
    }
    if weights.len() != (width * height) as usize {
        return Err(FilterError::Weights { width, height, given: weights.len() });
    }
    weights.iter().try_for_each(|weight| check_finite("the weight", *weight))
}

fn check_finite(what: &'static str, value: f32) -> Result<(), FilterError> {
    if value.is_finite() { Ok(()) } else { Err(FilterError::NotFinite { what, value }) }
}
