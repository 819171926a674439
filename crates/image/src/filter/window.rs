//! A box of pixels of an image.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A box of pixels of a two-dimensional image, counted from its upper left corner.
///
/// ```
/// use pario_image::Window;
///
/// let tile = Window { x: 256, y: 0, width: 256, height: 256 };
/// let image = Window { x: 0, y: 0, width: 500, height: 400 };
/// let seen = tile.grown(3).intersection(image).unwrap();
/// assert_eq!(seen, Window { x: 253, y: 0, width: 247, height: 259 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Window {
    /// The first column.
    pub x: u32,
    /// The first row.
    pub y: u32,
    /// How many columns.
    pub width: u32,
    /// How many rows.
    pub height: u32,
}

impl Window {
    /// The column after the last one.
    pub fn right(&self) -> u64 {
        u64::from(self.x) + u64::from(self.width)
    }

    /// The row after the last one.
    pub fn bottom(&self) -> u64 {
        u64::from(self.y) + u64::from(self.height)
    }

    /// How many pixels it has.
    pub fn area(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Whether it has no pixels.
    pub fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0
    }

    /// Whether all pixels of the other are in this one.
    pub fn contains(&self, other: Window) -> bool {
        self.x <= other.x
            && self.y <= other.y
            && other.right() <= self.right()
            && other.bottom() <= self.bottom()
    }

    /// The pixels that are in both, unless there are none.
    pub fn intersection(&self, other: Window) -> Option<Window> {
        let (x, y) = (self.x.max(other.x), self.y.max(other.y));
        let width = between(x, self.right().min(other.right()))?;
        let height = between(y, self.bottom().min(other.bottom()))?;
        Some(Window { x, y, width, height })
    }

    /// The same with so many pixels more at each side; at the left and at the top not beyond 0.
    pub fn grown(&self, radius: u32) -> Window {
        let (x, y) = (self.x.saturating_sub(radius), self.y.saturating_sub(radius));
        let end = |end: u64, start: u32| {
            u32::try_from(end + u64::from(radius) - u64::from(start)).unwrap_or(u32::MAX)
        };
        Window { x, y, width: end(self.right(), x), height: end(self.bottom(), y) }
    }
}

/// The pixels from `start` to `end`, if there are any. Both come from windows that overlap there, so
/// there are no more than one of these has.
fn between(start: u32, end: u64) -> Option<u32> {
    let length = end.checked_sub(u64::from(start))?;
    u32::try_from(length).ok().filter(|length| *length > 0)
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} pixels from ({}, {}) on", self.width, self.height, self.x, self.y)
    }
}
