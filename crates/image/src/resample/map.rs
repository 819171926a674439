//! Positions of output pixels in an image.
//!
//! Invariants: positions are counted from the upper left corner of the image, so that the pixel in
//! column 3 reaches from 3 to 4 and has its middle at 3.5. All are whole multiples of 2^-32 pixels,
//! and those of a checked map are less than 2^30 pixels away from the corner: the difference of any
//! two fits into 64 bits.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::filter::{AXIS_LIMIT, ImageWindow};

/// The length of a pixel in the unit of positions.
pub const ONE_PIXEL: i64 = 1 << 32;

/// Limit for the distance of a position from the corner.
const FARTHEST: i64 = (1 << 62) - 1;

/// The middle of each output pixel in the image: column `i` of row `j` is at `origin + i * right +
/// j * down`. Each vector has an x and a y, in units of 2^-32 pixels.
///
/// ```
/// use pario_image::{AffineMap, ImageWindow, ONE_PIXEL};
///
/// // A window of 300 x 200 pixels as a picture of 100 x 100.
/// let window = ImageWindow { x: 10, y: 20, width: 300, height: 200 };
/// let map = AffineMap::scaled(window, 100, 100)?;
/// assert_eq!(map.right, [3 * ONE_PIXEL, 0]);
/// assert_eq!(map.position(1, 0), [14 * ONE_PIXEL + ONE_PIXEL / 2, 21 * ONE_PIXEL]);
/// # Ok::<(), pario_image::MapError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AffineMap {
    /// The middle of the first output pixel.
    pub origin: [i64; 2],
    /// The step from an output pixel to the next one of its row.
    pub right: [i64; 2],
    /// The step from an output pixel to the one below.
    pub down: [i64; 2],
}

/// The error of a map that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum MapError {
    /// The output is empty.
    #[error("an output of {width} x {height} pixels is empty: both sides must be at least 1")]
    Empty {
        /// The width of the output.
        width: u32,
        /// The height of the output.
        height: u32,
    },
    /// A number is not finite, or too large.
    #[error("{what} is {value}: it must be a number between -{AXIS_LIMIT} and {AXIS_LIMIT}")]
    Number {
        /// The name of the number.
        what: &'static str,
        /// The value given.
        value: f64,
    },
    /// An output pixel lies too far away.
    #[error(
        "the output of {width} x {height} pixels reaches {AXIS_LIMIT} pixels or more away from the \
         corner of the image: choose a smaller output, or smaller steps"
    )]
    TooFar {
        /// The width of the output.
        width: u32,
        /// The height of the output.
        height: u32,
    },
}

impl AffineMap {
    /// Maps a window to an output of a size. Steps are rounded down to 2^-32 pixels.
    pub fn scaled(window: ImageWindow, width: u32, height: u32) -> Result<AffineMap, MapError> {
        if width == 0 || height == 0 {
            return Err(MapError::Empty { width, height });
        }
        if window.right().max(window.bottom()) > u64::from(AXIS_LIMIT) {
            return Err(MapError::TooFar { width, height });
        }
        let axis = |start: u32, length: u32, outputs: u32| {
            let step = (i64::from(length) << 32) / i64::from(outputs);
            ((i64::from(start) << 32) + step / 2, step)
        };
        let (x, right) = axis(window.x, window.width, width);
        let (y, down) = axis(window.y, window.height, height);
        Ok(AffineMap { origin: [x, y], right: [right, 0], down: [0, down] })
    }

    /// Maps an output of a size around a point of the image, turned by an angle, with `step` pixels
    /// of the image between neighbours. At 90 degrees, rows of the output run down the image.
    ///
    /// ```
    /// use pario_image::{AffineMap, ONE_PIXEL};
    ///
    /// let map = AffineMap::turned([50.0, 40.0], 90.0, 2.0, 3, 1)?;
    /// assert_eq!(map.right, [0, 2 * ONE_PIXEL]);
    /// assert_eq!(map.origin, [50 * ONE_PIXEL, 38 * ONE_PIXEL]);
    /// # Ok::<(), pario_image::MapError>(())
    /// ```
    pub fn turned(
        middle: [f64; 2],
        degrees: f64,
        step: f64,
        width: u32,
        height: u32,
    ) -> Result<AffineMap, MapError> {
        let [x, y] = middle;
        let middle = [fixed("the column", x)?, fixed("the row", y)?];
        fixed("the step", step)?;
        fixed("the angle", degrees)?;
        let (sin, cos) = degrees.to_radians().sin_cos();
        let (sin, cos) = (fixed("the step", sin * step)?, fixed("the step", cos * step)?);
        let (right, down) = ([cos, sin], [-sin, cos]);
        if width == 0 || height == 0 {
            return Err(MapError::Empty { width, height });
        }
        let first = |axis: usize| {
            let across = i128::from(right[axis]) * i128::from(width - 1);
            let along = i128::from(down[axis]) * i128::from(height - 1);
            i64::try_from(i128::from(middle[axis]) - (across + along) / 2)
                .map_err(|_| MapError::TooFar { width, height })
        };
        let map = AffineMap { origin: [first(0)?, first(1)?], right, down };
        map.validate(width, height)?;
        Ok(map)
    }

    /// Checks that all pixels of an output of this size have a position.
    pub fn validate(&self, width: u32, height: u32) -> Result<(), MapError> {
        if width == 0 || height == 0 {
            return Err(MapError::Empty { width, height });
        }
        let near = |position: i128| position.unsigned_abs() <= FARTHEST.unsigned_abs().into();
        for axis in 0..2 {
            let (right, down) = (i128::from(self.right[axis]), i128::from(self.down[axis]));
            let across = right * i128::from(width - 1);
            let along = down * i128::from(height - 1);
            // Positions between the corners are not farther away than the corners.
            let corners = [0, across, along, across + along];
            let mut corners = corners.iter().map(|corner| i128::from(self.origin[axis]) + corner);
            if !near(right) || !near(down) || !corners.all(near) {
                return Err(MapError::TooFar { width, height });
            }
        }
        Ok(())
    }

    /// Returns the position of an output pixel.
    pub fn position(&self, column: u32, row: u32) -> [i64; 2] {
        [0, 1].map(|axis| {
            let row = self.origin[axis] + self.down[axis] * i64::from(row);
            row + self.right[axis] * i64::from(column)
        })
    }

    /// Returns the columns of a row of `width` output pixels whose positions lie in `across` and
    /// `along`.
    pub(super) fn columns(
        &self,
        row: u32,
        width: u32,
        across: &Range<i64>,
        along: &Range<i64>,
    ) -> Range<u32> {
        let start = self.position(0, row);
        let all = 0..i64::from(width);
        let by_x = meet(all, steps(start[0], self.right[0], across));
        let both = meet(by_x, steps(start[1], self.right[1], along));
        match (u32::try_from(both.start), u32::try_from(both.end)) {
            (Ok(start), Ok(end)) if start < end => start..end,
            _ => 0..0,
        }
    }
}

/// Returns the intersection of two ranges.
fn meet(one: Range<i64>, other: Range<i64>) -> Range<i64> {
    one.start.max(other.start)..one.end.min(other.end)
}

/// Returns the numbers of steps that lead from a position into a range.
fn steps(start: i64, step: i64, range: &Range<i64>) -> Range<i64> {
    let (to_start, to_end) = (range.start - start, range.end - start);
    match step {
        0 if range.contains(&start) => 0..i64::MAX,
        0 => 0..0,
        1.. => -(-to_start).div_euclid(step)..-(-to_end).div_euclid(step),
        _ => (-to_end).div_euclid(-step) + 1..(-to_start).div_euclid(-step) + 1,
    }
}

/// Converts pixels to units of 2^-32.
#[expect(clippy::cast_possible_truncation, reason = "checked to be small enough")]
fn fixed(what: &'static str, value: f64) -> Result<i64, MapError> {
    match value.abs() < f64::from(AXIS_LIMIT) {
        true => Ok((value * 4_294_967_296.0).round() as i64),
        false => Err(MapError::Number { what, value }),
    }
}
