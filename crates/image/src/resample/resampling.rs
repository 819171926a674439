//! What can be computed of an image at another scale or turned.

use serde::{Deserialize, Serialize};

use crate::Sample;
use crate::filter::{AXIS_LIMIT, Pixels, Window};
use crate::resample::mapped::{self, WEIGHTS_BILINEAR};
use crate::resample::{AffineMap, Contribution, MapError, reduced};

/// The most pixels of an output along one axis.
pub const OUTPUT_LIMIT: u32 = 65_536;

/// The most pixels of an output.
const OUTPUT_PIXELS_LIMIT: u64 = 1 << 28;

/// How a value between pixels is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sampling {
    /// The pixel in which the position lies.
    Nearest,
    /// The four pixels around the position, by their distance along both axes in steps of 1/256
    /// (rounded down). Beyond the outermost pixels they are repeated.
    Bilinear,
}

/// An output that is made of an image: which pixels, and how they become those of the output.
///
/// ```
/// use pario_image::{Canvas, Contribution, Pixel, Pixels, Resampling, Window};
///
/// // An image of two tiles is halved; each contributes what it has.
/// let image = Window { x: 0, y: 0, width: 4, height: 2 };
/// let half = Resampling::Reduction { window: image, factor: 2 };
/// let mut canvas = Canvas::new(half, Pixel::GREY, [0.0; 4])?;
/// let left = Pixels::new(3, 2, Pixel::GREY, vec![10, 20, 5, 30, 40, 5])?;
/// let right = Pixels::new(1, 2, Pixel::GREY, vec![7, 7])?;
/// for (x, tile) in [(0, &left), (3, &right)] {
///     let window = Window { x, ..tile.window() };
///     let mut contribution = Contribution::new();
///     half.contribute(image, window, tile, &mut contribution)?;
///     canvas.add(&contribution)?;
/// }
/// assert_eq!(canvas.finish().data(), [25, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resampling {
    /// The image at given positions: at any scale, turned by any angle.
    Mapped {
        /// Where output pixels lie.
        map: AffineMap,
        /// The width of the output.
        width: u32,
        /// The height of the output.
        height: u32,
        /// What is between pixels.
        interpolation: Sampling,
    },
    /// Each output pixel is the mean of a box of pixels, rounded to the nearest sample, halves
    /// upwards. At the right and at the bottom of the window boxes may be smaller.
    Reduction {
        /// The pixels to be reduced.
        window: Window,
        /// The width and the height of a box; 1 leaves pixels as they are.
        factor: u32,
    },
}

/// Why there is no such output, or a tile cannot contribute to it.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ResamplingError {
    /// Output pixels lie nowhere.
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
        window: Window,
        /// The factor given.
        factor: u32,
    },
    /// The tile is not what it should be.
    #[error("a tile of {tile} in an image of {image} came with {width} x {height} pixels")]
    Tile {
        /// The tile.
        tile: Window,
        /// The image.
        image: Window,
        /// The width of what came.
        width: u32,
        /// The height of what came.
        height: u32,
    },
}

impl Resampling {
    /// Whether the parameters make sense. To be asked about everything that comes from outside.
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

    /// The width and the height of the output.
    pub fn size(&self) -> (u32, u32) {
        match *self {
            Resampling::Mapped { width, height, .. } => (width, height),
            Resampling::Reduction { window, factor } => {
                let factor = factor.max(1);
                (window.width.div_ceil(factor), window.height.div_ceil(factor))
            }
        }
    }

    /// A window of the image outside of which no pixel is needed; nothing if none is needed at all.
    pub fn source(&self, image: Window) -> Option<Window> {
        match self {
            Resampling::Mapped { map, width, height, interpolation } => {
                mapped::source(map, *width, *height, *interpolation).intersection(image)
            }
            Resampling::Reduction { window, .. } => window.intersection(image),
        }
    }

    /// Whether a tile of the image contributes anything.
    pub fn touches(&self, image: Window, tile: Window) -> bool {
        match self {
            Resampling::Mapped { map, width, height, interpolation } => {
                let (across, along) = mapped::reach(*interpolation, image, tile);
                (0..*height).any(|row| !map.columns(row, *width, &across, &along).is_empty())
            }
            Resampling::Reduction { window, .. } => window.intersection(tile).is_some(),
        }
    }

    /// Finds what a tile of the image contributes. The image begins at (0, 0).
    pub fn contribute(
        &self,
        image: Window,
        tile: Window,
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
                let work = mapped::Mapped { map, width, height, image, tile, pixels };
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
                let work = reduced::Reduced { window, factor, tile, pixels };
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

    /// All weights of an output pixel together.
    pub(super) fn total(&self, x: u32, y: u32) -> u64 {
        match *self {
            Resampling::Mapped { .. } => WEIGHTS_BILINEAR,
            Resampling::Reduction { window, factor } => reduced::cell(window, factor, x, y).area(),
        }
    }
}
