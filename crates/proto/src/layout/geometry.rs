//! Sizes, positions and windows in images and volumes.
//!
//! Invariants: an image is a volume with one plane, so everything here has three axes; x runs
//! fastest, then y, then z. Pixels (voxels, in a volume) and tiles have different types where a
//! position is meant. Nothing here is checked against an image: that is done where one is known.

use std::fmt;

/// A size along each axis: of an image in pixels, of a tile in pixels, of a window in either.
///
/// ```
/// use pario_proto::Shape;
///
/// assert_eq!(Shape::image(640, 480), Shape::volume(640, 480, 1));
/// assert_eq!(Shape::volume(2048, 1216, 1878).to_string(), "2048 x 1216 x 1878");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Width.
    pub x: u64,
    /// Height.
    pub y: u64,
    /// Depth; 1 in an image.
    pub z: u64,
}

/// A tile, counted in tiles along each axis from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TilePosition {
    /// From the left.
    pub x: u64,
    /// From the top.
    pub y: u64,
    /// From the first plane; 0 in an image.
    pub z: u64,
}

/// A pixel or voxel, counted along each axis from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PixelPosition {
    /// From the left.
    pub x: u64,
    /// From the top.
    pub y: u64,
    /// From the first plane; 0 in an image.
    pub z: u64,
}

/// A box of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileWindow {
    /// The tile with the smallest position.
    pub start: TilePosition,
    /// How many tiles along each axis; a zero makes the window empty.
    pub size: Shape,
}

/// A box of pixels or voxels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PixelWindow {
    /// The pixel with the smallest position.
    pub start: PixelPosition,
    /// How many pixels along each axis; a zero makes the window empty.
    pub size: Shape,
}

impl Shape {
    /// The size of something in an image.
    pub fn image(x: u64, y: u64) -> Shape {
        Shape { x, y, z: 1 }
    }

    /// The size of something in a volume.
    pub fn volume(x: u64, y: u64, z: u64) -> Shape {
        Shape { x, y, z }
    }

    /// Whether the size along some axis is zero.
    pub fn is_empty(&self) -> bool {
        self.x == 0 || self.y == 0 || self.z == 0
    }

    /// The product of the three sizes; nothing if it needs more than 64 bits.
    pub(crate) fn product(&self) -> Option<u64> {
        if self.is_empty() {
            return Some(0);
        }
        self.x.checked_mul(self.y)?.checked_mul(self.z)
    }
}

impl TilePosition {
    /// A tile of an image.
    pub fn image(x: u64, y: u64) -> TilePosition {
        TilePosition { x, y, z: 0 }
    }

    /// A tile of a volume.
    pub fn volume(x: u64, y: u64, z: u64) -> TilePosition {
        TilePosition { x, y, z }
    }
}

impl PixelPosition {
    /// A pixel of an image.
    pub fn image(x: u64, y: u64) -> PixelPosition {
        PixelPosition { x, y, z: 0 }
    }

    /// A voxel of a volume.
    pub fn volume(x: u64, y: u64, z: u64) -> PixelPosition {
        PixelPosition { x, y, z }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.x, self.y, self.z)
    }
}

impl fmt::Display for TilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tile ({}, {}, {})", self.x, self.y, self.z)
    }
}

impl fmt::Display for PixelPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pixel ({}, {}, {})", self.x, self.y, self.z)
    }
}

impl fmt::Display for TileWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tiles from {} on", self.size, self.start)
    }
}

impl fmt::Display for PixelWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pixels from {} on", self.size, self.start)
    }
}
