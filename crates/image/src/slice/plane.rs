//! The positions of the pixels of a slice.
//!
//! Invariants: a coordinate is a whole number in units of 2⁻³² of a voxel, and voxel centres lie at
//! whole voxels; so the position of a pixel is an exact sum, wherever a box starts. No pixel of a
//! slice lies further than [`REACH_VOXELS`] from voxel 0 along any axis, so neither sums nor
//! differences overflow.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::query::SliceQuery;

/// Limit for the width and the height of a slice, in pixels.
pub const SLICE_LIMIT: u32 = 65_536;

/// Limit for the distance of a pixel of a slice from voxel 0 along an axis, and for the length of a
/// volume.
pub const REACH_VOXELS: u64 = 1 << 29;

/// One voxel, as a coordinate.
pub(crate) const VOXEL: i64 = 1 << 32;

/// Half a voxel, as a coordinate.
pub(crate) const HALF: i64 = VOXEL / 2;

const REACH: i64 = 1 << 61;

/// A slice through a volume: pixel (i, j) lies at origin + i · right + j · down, in voxels.
///
/// ```
/// use pario_image::Plane;
///
/// // Voxels of 0.5 x 0.5 x 1.5 mm; one pixel is as wide as the smallest side of a voxel.
/// let plane = Plane::through([50.0, 40.0, 30.0])
///     .normal([1.0, 1.0, 1.0])
///     .size(512, 512)
///     .in_volume([0.5, 0.5, 1.5])?;
/// assert_eq!((plane.width(), plane.height()), (512, 512));
/// let error = Plane::through([0.0; 3]).normal([0.0; 3]).size(512, 512).in_volume([1.0; 3]);
/// assert!(error.unwrap_err().to_string().contains("normal"));
/// # Ok::<(), pario_image::PlaneError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Plane {
    origin: [i64; 3],
    right: [i64; 3],
    down: [i64; 3],
    width: u32,
    height: u32,
}

/// The error of a plane that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum PlaneError {
    /// A number is not finite.
    #[error("the {what} of the slice has a coordinate {value}: give finite numbers")]
    NotFinite {
        /// The name of the argument.
        what: &'static str,
        /// The number.
        value: f64,
    },
    /// A direction is (0, 0, 0).
    #[error("the {what} of the slice is (0, 0, 0): give a direction with a length")]
    ZeroDirection {
        /// Which direction.
        what: &'static str,
    },
    /// The direction up does not determine the orientation of the slice.
    #[error(
        "the direction up is parallel to the normal of the slice: choose one within the slice, or \
         omit it"
    )]
    UpAlongNormal,
    /// The zoom is not positive.
    #[error("the zoom of the slice is {zoom}: give a number above 0, 1 for the volume's own size")]
    Zoom {
        /// The zoom given.
        zoom: f64,
    },
    /// The spacing of voxels is not positive.
    #[error("the voxels of the volume are {spacing} apart: give spacings above 0 for each axis")]
    Spacing {
        /// The spacing given.
        spacing: f64,
    },
    /// Width or height is 0 or too large.
    #[error(
        "a slice of {width} x {height} pixels cannot be made: width and height are 1 to {SLICE_LIMIT}"
    )]
    Size {
        /// The width given.
        width: u32,
        /// The height given.
        height: u32,
    },
    /// The number of slices is 0 or too large.
    #[error("a slab of {depth} slices cannot be made: give 1 to {SLICE_LIMIT} slices")]
    Depth {
        /// The number given.
        depth: u32,
    },
    /// Some pixels are too far away.
    #[error(
        "some pixels of the slice lie more than {REACH_VOXELS} voxels away from the first voxel: \
         move the slice to the volume, or choose a larger zoom"
    )]
    TooFar,
    /// Pixels are too close to each other.
    #[error(
        "the {what} of the slice is a step of less than 2^-32 voxels: choose a smaller zoom or a \
         longer direction"
    )]
    TooFine {
        /// Which direction.
        what: &'static str,
    },
}

impl Plane {
    /// Describes a slice with its middle at a point of the world, where voxel (x, y, z) lies at x,
    /// y and z times its spacing. The methods of [`SliceQuery`] set the rest.
    pub fn through(center: [f64; 3]) -> SliceQuery {
        SliceQuery::through(center)
    }

    /// Describes a slice by the point of pixel (0, 0) and by the steps from a pixel to its
    /// neighbours on the right and below, all in the world.
    pub fn spanned(origin: [f64; 3], right: [f64; 3], down: [f64; 3]) -> SliceQuery {
        SliceQuery::spanned(origin, right, down)
    }

    /// Describes a slice across the z axis, with x to the right and y down.
    pub fn axial(center: [f64; 3]) -> SliceQuery {
        SliceQuery::through(center).normal([0.0, 0.0, 1.0]).up([0.0, -1.0, 0.0])
    }

    /// Describes a slice across the y axis, with x to the right and z down.
    pub fn coronal(center: [f64; 3]) -> SliceQuery {
        SliceQuery::through(center).normal([0.0, -1.0, 0.0]).up([0.0, 0.0, -1.0])
    }

    /// Describes a slice across the x axis, with y to the right and z down.
    pub fn sagittal(center: [f64; 3]) -> SliceQuery {
        SliceQuery::through(center).normal([1.0, 0.0, 0.0]).up([0.0, 0.0, -1.0])
    }

    /// Creates a slice from coordinates in voxels.
    ///
    /// ```
    /// use pario_image::Plane;
    ///
    /// let plane = Plane::in_voxels([0.0, 0.0, 9.5], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], 640, 480)?;
    /// assert_eq!(plane.voxel_at(3, 7), [3.0, 7.0, 9.5]);
    /// # Ok::<(), pario_image::PlaneError>(())
    /// ```
    pub fn in_voxels(
        origin: [f64; 3],
        right: [f64; 3],
        down: [f64; 3],
        width: u32,
        height: u32,
    ) -> Result<Plane, PlaneError> {
        check_size(width, height)?;
        let plane = Plane {
            origin: coordinates("origin", origin)?,
            right: direction("direction right", right)?,
            down: direction("direction down", down)?,
            width,
            height,
        };
        plane.validate()?;
        Ok(plane)
    }

    /// Checks a plane from another process. All computations rely on it.
    pub fn validate(&self) -> Result<(), PlaneError> {
        self.validate_with([0; 3], 1)
    }

    /// Checks this slice and `depth` parallel ones, a step apart.
    pub(super) fn validate_with(&self, step: [i64; 3], depth: u32) -> Result<(), PlaneError> {
        let (width, height) = (self.width, self.height);
        check_size(width, height)?;
        if !(1..=SLICE_LIMIT).contains(&depth) {
            return Err(PlaneError::Depth { depth });
        }
        for (what, direction) in [("direction right", self.right), ("direction down", self.down)] {
            if direction == [0; 3] {
                return Err(PlaneError::TooFine { what });
            }
        }
        for axis in 0..3 {
            let part = |step: i64, times: u32| u128::from(step.unsigned_abs()) * u128::from(times);
            // One more step than pixels, so that neighbours are within reach, too.
            let reach = part(self.origin[axis], 1)
                + part(self.right[axis], width)
                + part(self.down[axis], height)
                + part(step[axis], depth);
            if reach >= u128::from(REACH.unsigned_abs()) {
                return Err(PlaneError::TooFar);
            }
        }
        Ok(())
    }

    /// Returns the number of pixels in a row.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns the number of rows.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Returns the position of a pixel, in voxels.
    pub fn voxel_at(&self, i: u32, j: u32) -> [f64; 3] {
        self.position(i, j).map(|at| at as f64 / VOXEL as f64)
    }

    /// Returns the position of a pixel, as coordinates.
    pub(crate) fn position(&self, i: u32, j: u32) -> [i64; 3] {
        let (i, j) = (i64::from(i), i64::from(j));
        [0, 1, 2].map(|axis| self.origin[axis] + i * self.right[axis] + j * self.down[axis])
    }

    /// Returns the step to the pixel on the right.
    pub(crate) fn right(&self) -> [i64; 3] {
        self.right
    }

    /// Returns the step to the pixel below.
    pub(crate) fn down(&self) -> [i64; 3] {
        self.down
    }

    /// Returns the plane moved by some steps.
    pub(super) fn moved(&self, step: [i64; 3], times: u32) -> Plane {
        let times = i64::from(times);
        let origin = [0, 1, 2].map(|axis| self.origin[axis] + times * step[axis]);
        Plane { origin, ..*self }
    }
}

fn check_size(width: u32, height: u32) -> Result<(), PlaneError> {
    let is_good = |pixels: u32| (1..=SLICE_LIMIT).contains(&pixels);
    if is_good(width) && is_good(height) { Ok(()) } else { Err(PlaneError::Size { width, height }) }
}

/// Returns the coordinates of a point or a step in voxels.
pub(super) fn coordinates(what: &'static str, voxels: [f64; 3]) -> Result<[i64; 3], PlaneError> {
    let mut found = [0; 3];
    for (slot, value) in found.iter_mut().zip(voxels) {
        if !value.is_finite() {
            return Err(PlaneError::NotFinite { what, value });
        }
        let scaled = (value * VOXEL as f64).round();
        if scaled.abs() >= REACH as f64 {
            return Err(PlaneError::TooFar);
        }
        *slot = whole(scaled);
    }
    Ok(found)
}

fn direction(what: &'static str, voxels: [f64; 3]) -> Result<[i64; 3], PlaneError> {
    if voxels == [0.0; 3] {
        return Err(PlaneError::ZeroDirection { what });
    }
    coordinates(what, voxels)
}

#[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^61")]
fn whole(number: f64) -> i64 {
    number as i64
}
