//! Which filters there are.

use serde::{Deserialize, Serialize};

use crate::filter::{Framed, Pixels, Scratch, convolution, extreme, gaussian, median};

/// The farthest that a filter reaches, in pixels.
pub const RADIUS_LIMIT: u32 = 15;

/// The largest side of the kernel of a convolution.
pub const KERNEL_LIMIT: u32 = 2 * RADIUS_LIMIT + 1;

/// What becomes of each pixel, given those around it. Every channel is treated by itself.
///
/// ```
/// use pario_image::{Edge, Filter, Framed, TileGrid, Pixel, Pixels, Scratch};
/// use pario_proto::{Shape, TilePosition};
///
/// let image = Pixels::new(3, 1, Pixel::GREY, vec![10, 90, 20])?;
/// let grid = TileGrid::new(Shape::image(3, 1), Shape::image(3, 1))?;
/// let filter = Filter::Median { radius: 1 };
/// let tile = TilePosition::image(0, 0);
/// let parts = [(image.window(), &image)];
/// let framed = Framed::assemble(&grid, tile, filter.radius(), Edge::Clamp, parts)?;
/// assert_eq!(filter.apply(&framed, &mut Scratch::new())?.data(), [10, 20, 20]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Filter {
    /// The weighted sum of the pixels around, divided by the divisor, plus the offset.
    ///
    /// The weights lie on the image as they are written, row by row, with the middle one on the
    /// pixel. Products are added up in this order, beginning with 0: for samples of 8 bits in `f32`
    /// (which is exact for whole weights as long as sums stay below 2^24), for others in `f64`. The
    /// division and the offset follow in the same type. The result is rounded to the nearest sample,
    /// halves away from zero, and cut off at the ends.
    Convolution {
        /// The width of the kernel, odd, at most [`KERNEL_LIMIT`].
        width: u32,
        /// The height of the kernel, odd, at most [`KERNEL_LIMIT`].
        height: u32,
        /// The weights, `width * height` of them.
        weights: Vec<f32>,
        /// What the sum is divided by.
        divisor: f32,
        /// What is added then.
        offset: f32,
    },
    /// Smooths with a bell of this standard deviation, cut off at three of them.
    ///
    /// Weights are whole multiples of 2^-16 that make up exactly 1. First columns are smoothed, then
    /// rows. Samples of 8 bits are rounded to 7 binary places in between, those of 16 bits are not
    /// rounded before the end, and those of 32 bits are computed in `f32` from the middle outwards.
    Gaussian {
        /// In pixels; more than 0, at most 5.
        sigma: f64,
    },
    /// The value in the middle of those in the square around, when they are sorted.
    Median {
        /// How far the square reaches, at most [`RADIUS_LIMIT`].
        radius: u32,
    },
    /// The smallest value of those in the square around.
    Erosion {
        /// How far the square reaches, at most [`RADIUS_LIMIT`].
        radius: u32,
    },
    /// The greatest value of those in the square around.
    Dilation {
        /// How far the square reaches, at most [`RADIUS_LIMIT`].
        radius: u32,
    },
}

/// Why a filter is none, or cannot be applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FilterError {
    /// The kernel has no middle, or is too large.
    #[error(
        "a kernel of {width} x {height} weights: both sides must be odd and at most {KERNEL_LIMIT}"
    )]
    Kernel {
        /// The width given.
        width: u32,
        /// The height given.
        height: u32,
    },
    /// There are too few or too many weights.
    #[error("a kernel of {width} x {height} needs {} weights, not {given}", width * height)]
    Weights {
        /// The width of the kernel.
        width: u32,
        /// The height of the kernel.
        height: u32,
        /// The weights given.
        given: usize,
    },
    /// A weight, the divisor or the offset is no number.
    #[error("a kernel with {what} {value}: it must be a finite number")]
    NotFinite {
        /// Which of them.
        what: &'static str,
        /// The value.
        value: f32,
    },
    /// Nothing can be divided by 0.
    #[error("a kernel with the divisor 0: use 1 if sums are not to be divided")]
    Divisor,
    /// A bell of no width, or one that is too wide.
    #[error(
        "a Gaussian filter with sigma {sigma}: it must be more than 0, and three of them at most \
         {RADIUS_LIMIT} pixels"
    )]
    Sigma {
        /// The value given.
        sigma: f64,
    },
    /// The filter reaches too far.
    #[error("a filter with radius {radius}: at most {RADIUS_LIMIT} pixels are possible")]
    Radius {
        /// The radius given.
        radius: u32,
    },
    /// The border of the tile is too small.
    #[error("the filter reaches {radius} pixels far, but the tile has a border of {border}")]
    Border {
        /// How far it reaches.
        radius: u32,
        /// The border there is.
        border: u32,
    },
}

impl Filter {
    /// Whether the parameters make sense. To be asked about everything that comes from outside.
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

    /// How far it reaches: the border that a tile needs.
    pub fn radius(&self) -> u32 {
        match self {
            Filter::Convolution { width, height, .. } => width.max(height) / 2,
            Filter::Gaussian { sigma } => gaussian::radius(*sigma),
            Filter::Median { radius }
            | Filter::Erosion { radius }
            | Filter::Dilation { radius } => *radius,
        }
    }

    /// The pixels of the tile, filtered. The border may be larger than needed.
    pub fn apply(&self, framed: &Framed, scratch: &mut Scratch) -> Result<Pixels, FilterError> {
        self.validate()?;
        let (radius, border) = (self.radius(), framed.border());
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
                convolution::apply(&kernel, framed, scratch)
            }
            Filter::Gaussian { sigma } => gaussian::apply(*sigma, framed, scratch),
            Filter::Median { radius } => median::apply(*radius, framed, scratch),
            Filter::Erosion { radius } => extreme::erode(*radius, framed, scratch),
            Filter::Dilation { radius } => extreme::dilate(*radius, framed, scratch),
        };
        Ok(Pixels::made(framed.width(), framed.height(), framed.pixels().pixel(), data))
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
