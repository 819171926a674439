//! Outputs that can be computed from an image at another scale or turned.

use serde::{Deserialize, Serialize};

use crate::Sample;
use crate::filter::{AXIS_LIMIT, ImageWindow, Pixels};
use crate::resample::mapped::{self, WEIGHTS_BILINEAR};
use crate::resample::{AffineMap, Contribution, MapError, reduced};

/// Limit for the pixels of an output along one axis.
pub const OUTPUT_LIMIT: u32 = 65_536;

/// Limit for the pixels of an output.
const OUTPUT_PIXELS_LIMIT: u64 = 1 << 28;

/// How a value between pixels is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sampling {
    /// The pixel at the position.
    Nearest,
    /// The four pixels around the position, weighted by their distance along both axes in steps of
    /// 1/256 (rounded down). Beyond the edges the outermost pixels are repeated.
    Bilinear,
}

/// An output that is computed from an image.
///
/// ```
/// use pario_image::{Canvas, Contribution, ImageWindow, Pixel, Pixels, Resampling};
///
/// // An image of two tiles is halved; each tile contributes its part.
/// let image = ImageWindow { x: 0, y: 0, width: 4, height: 2 };
/// let half = Resampling::Reduction { window: image, factor: 2 };
/// let mut canvas = Canvas::new(half, Pixel::GREY, [0.0; 4])?;
/// let left = Pixels::new(3, 2, Pixel::GREY, vec![10, 20, 5, 30, 40, 5])?;
/// let right = Pixels::new(1, 2, Pixel::GREY, vec![7, 7])?;
/// for (x, tile) in [(0, &left), (3, &right)] {
///     let window = ImageWindow { x, ..tile.window() };
///     let mut contribution = Contribution::new();
///     half.contribute(image, window, tile, &mut contribution)?;
///     canvas.add(&contribution)?;
/// }
/// assert_eq!(canvas.finish().data(), [25, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resampling {
    /// The image at given positions: at any scale and angle.
    Mapped {
        /// Positions of the output pixels.
        map: AffineMap,
        /// The width of the output.
        width: u32,
        /// The height of the output.
        height: u32,
        /// How values between pixels are computed.
        interpolation: Sampling,
    },
    /// Each output pixel is the mean of a cell of pixels, rounded to the nearest sample, halves up.
    /// At the right and at the bottom of the window cells may be smaller.
    Reduction {
        /// The window to be reduced.
        window: ImageWindow,
        /// Width and height of a cell; 1 leaves pixels as they are.
        factor: u32,
    },
}

/// The error of an output that is not valid, or of a tile that cannot contribute to it.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ResamplingError {
    /// The positions of the output pixels are not valid.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The output is too large.
    #[error(
        "an output of {width} x {height} pixels: there may be {OUTPUT_LIMIT} along an axis, and \
         2^28 in all"
    )]
    Output {
        /// The width.
        width: u32,
        /// The height.
        height: u32,
    },
    /// The window cannot be reduced.
    #[error(
        "{window} cannot be reduced by the factor {factor}: the window must not be empty nor reach \
         beyond {AXIS_LIMIT}, and the factor be between 1 and {OUTPUT_LIMIT}"
    )]
    Reduction {
        /// The window given.
        window: ImageWindow,
        /// The factor given.
        factor: u32,
    },
    /// The size of a tile is wrong.
    #[error("a tile of {tile} in an image of {image} has {width} x {height} pixels")]
    Tile {
        /// The tile.
        tile: ImageWindow,
        /// The image.
        image: ImageWindow,
        /// The width of its pixels.
        width: u32,
        /// The height of its pixels.
        height: u32,
    },
}

impl Resampling {
    /// Checks the parameters. Every resampling that comes from another process must be checked.
    pub fn validate(&self) -> Result<(), ResamplingError> {
        match *self {
            Resampling::Mapped { map, width, height, .. } => map.validate(width, height)?,
            Resampling::Reduction { window, factor } => {
                let far = window.right().max(window.bottom()) > u64::from(AXIS_LIMIT);
                if window.is_empty() || far || !(1..=OUTPUT_LIMIT).contains(&factor) {
                    return Err(ResamplingError::Reduction { window, factor });
                }
            }
        }
        let (width, height) = self.size();
        let pixels = u64::from(width) * u64::from(height);
        if width.max(height) > OUTPUT_LIMIT || pixels > OUTPUT_PIXELS_LIMIT {
            return Err(ResamplingError::Output { width, height });
        }
        Ok(())
    }

    /// Returns the width and the height of the output.
    pub fn size(&self) -> (u32, u32) {
        match *self {
            Resampling::Mapped { width, height, .. } => (width, height),
            Resampling::Reduction { window, factor } => {
                let factor = factor.max(1);
                (window.width.div_ceil(factor), window.height.div_ceil(factor))
            }
        }
    }

    /// Returns a window of the image that contains all needed pixels; `None` if no pixel is needed.
    pub fn source(&self, image: ImageWindow) -> Option<ImageWindow> {
        match self {
            Resampling::Mapped { map, width, height, interpolation } => {
                mapped::source(map, *width, *height, *interpolation).intersection(image)
            }
            Resampling::Reduction { window, .. } => window.intersection(image),
        }
    }

    /// Returns whether a tile of the image contributes anything.
    pub fn touches(&self, image: ImageWindow, tile: ImageWindow) -> bool {
        match self {
            Resampling::Mapped { map, width, height, interpolation } => {
                let (across, along) = mapped::reach(*interpolation, image, tile);
                (0..*height).any(|row| !map.columns(row, *width, &across, &along).is_empty())
            }
            Resampling::Reduction { window, .. } => window.intersection(tile).is_some(),
        }
    }

    /// Adds the contribution of a tile of the image. The image starts at (0, 0).
    pub fn contribute(
        &self,
        image: ImageWindow,
        tile: ImageWindow,
        pixels: &Pixels,
        contribution: &mut Contribution,
    ) -> Result<(), ResamplingError> {
        self.validate()?;
        let (width, height) = (pixels.width(), pixels.height());
        let from_corner = (image.x, image.y) == (0, 0);
        let near = image.width.max(image.height) <= AXIS_LIMIT;
        let fits = (tile.width, tile.height) == (width, height) && image.contains(tile);
        if !from_corner || !near || !fits {
            return Err(ResamplingError::Tile { tile, image, width, height });
        }
        match *self {
            Resampling::Mapped { map, width, height, interpolation } => {
                let work = mapped::MappedTile { map, width, height, image, tile, pixels };
                match (interpolation, pixels.pixel().sample()) {
                    (Sampling::Nearest, _) => work.nearest(contribution),
                    (Sampling::Bilinear, Sample::U8) => work.bilinear::<u8>(contribution),
                    (Sampling::Bilinear, Sample::U16) => work.bilinear::<u16>(contribution),
                    (Sampling::Bilinear, Sample::I8) => work.bilinear::<i8>(contribution),
                    (Sampling::Bilinear, Sample::I16) => work.bilinear::<i16>(contribution),
                    (Sampling::Bilinear, Sample::F32) => work.bilinear::<f32>(contribution),
                }
            }
            Resampling::Reduction { window, factor } => {
                let work = reduced::ReducedTile { window, factor, tile, pixels };
                match pixels.pixel().sample() {
                    Sample::U8 => work.contribute::<u8>(contribution),
                    Sample::U16 => work.contribute::<u16>(contribution),
                    Sample::I8 => work.contribute::<i8>(contribution),
                    Sample::I16 => work.contribute::<i16>(contribution),
                    Sample::F32 => work.contribute::<f32>(contribution),
                }
            }
        }
        Ok(())
    }

    /// Returns the total weight of an output pixel.
    pub(super) fn total(&self, x: u32, y: u32) -> u64 {
        match *self {
            Resampling::Mapped { .. } => WEIGHTS_BILINEAR,
            Resampling::Reduction { window, factor } => reduced::cell(window, factor, x, y).area(),
        }
    }
}
