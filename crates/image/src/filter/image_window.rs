//! A rectangle of an image.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A rectangle of pixels of a two-dimensional image, counted from its upper left corner.
///
/// ```
/// use pario_image::ImageWindow;
///
/// let tile = ImageWindow { x: 256, y: 0, width: 256, height: 256 };
/// let image = ImageWindow { x: 0, y: 0, width: 500, height: 400 };
/// let visible = tile.grown(3).intersection(image).unwrap();
/// assert_eq!(visible, ImageWindow { x: 253, y: 0, width: 247, height: 259 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ImageWindow {
    /// The first column.
    pub x: u32,
    /// The first row.
    pub y: u32,
    /// Number of columns.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
}

impl ImageWindow {
    /// Returns the column after the last one.
    pub fn right(&self) -> u64 {
        u64::from(self.x) + u64::from(self.width)
    }

    /// Returns the row after the last one.
    pub fn bottom(&self) -> u64 {
        u64::from(self.y) + u64::from(self.height)
    }

    /// Returns the number of pixels.
    pub fn area(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Returns whether the window has no pixels.
    pub fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0
    }

    /// Returns whether all pixels of the other window are in this one.
    pub fn contains(&self, other: ImageWindow) -> bool {
        self.x <= other.x
            && self.y <= other.y
            && other.right() <= self.right()
            && other.bottom() <= self.bottom()
    }

    /// Returns the pixels that are in both windows; `None` if there are none.
    pub fn intersection(&self, other: ImageWindow) -> Option<ImageWindow> {
        let (x, y) = (self.x.max(other.x), self.y.max(other.y));
        let width = between(x, self.right().min(other.right()))?;
        let height = between(y, self.bottom().min(other.bottom()))?;
        Some(ImageWindow { x, y, width, height })
    }

    /// Returns the window with `radius` pixels more at each side; at the left and at the top it
    /// stops at 0.
    pub fn grown(&self, radius: u32) -> ImageWindow {
        let (x, y) = (self.x.saturating_sub(radius), self.y.saturating_sub(radius));
        let end = |end: u64, start: u32| {
            u32::try_from(end + u64::from(radius) - u64::from(start)).unwrap_or(u32::MAX)
        };
        ImageWindow { x, y, width: end(self.right(), x), height: end(self.bottom(), y) }
    }
}

/// Returns the number of pixels from `start` to `end`, if there are any. Both come from windows
/// that overlap there, so the number fits into 32 bits.
fn between(start: u32, end: u64) -> Option<u32> {
    let length = end.checked_sub(u64::from(start))?;
    u32::try_from(length).ok().filter(|length| *length > 0)
}

impl fmt::Display for ImageWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} pixels from ({}, {}) on", self.width, self.height, self.x, self.y)
    }
}
