//! A tile with a border of the pixels that surround it.
//!
//! Invariant: every pixel of the border is the pixel of the image at that position, or the value
//! that the edge rule gives beyond the edge. So a filter need not know where the image ends.

use pario_proto::{Shape, TilePosition};
use serde::{Deserialize, Serialize};

use crate::Pixel;
use crate::filter::channel::{SampleChannel, sample_bytes};
use crate::filter::{ImageWindow, Pixels, PixelsError, TileGrid};

/// The rule for pixels beyond the edges of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Edge {
    /// Repeats the nearest pixel of the edge.
    #[default]
    Clamp,
    /// Mirrors the image at its outermost pixels, which are not repeated. An image that is smaller
    /// than the border is mirrored back and forth.
    Mirror,
    /// Uses this value in all channels, rounded and clamped where samples are whole numbers.
    Constant(f32),
}

/// A tile and a border around it.
///
/// ```
/// use pario_image::{Edge, ImageWindow, PaddedTile, Pixel, Pixels, TileGrid};
/// use pario_proto::{Shape, TilePosition};
///
/// // An image of 3 x 1 pixels whose last pixel is another tile.
/// let grid = TileGrid::new(Shape::image(3, 1), Shape::image(2, 1))?;
/// let own = Pixels::new(2, 1, Pixel::GREY, vec![10, 20])?;
/// let next = Pixels::new(1, 1, Pixel::GREY, vec![30])?;
/// let parts = [
///     (ImageWindow { x: 0, y: 0, width: 2, height: 1 }, &own),
///     (ImageWindow { x: 2, y: 0, width: 1, height: 1 }, &next),
/// ];
/// let padded = PaddedTile::assemble(&grid, TilePosition::image(0, 0), 1, Edge::Mirror, parts)?;
/// assert_eq!(padded.pixels().row(1), [20, 10, 20, 30]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PaddedTile {
    pixels: Pixels,
    border: u32,
}

/// The error of parts that do not make up a tile and its border.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PaddingError {
    /// The image has no such tile.
    #[error("{tile} does not exist: the image has {tiles} tiles, counted from 0")]
    Tile {
        /// The tile.
        tile: TilePosition,
        /// The number of tiles of the image along each axis.
        tiles: Shape,
    },
    /// A part came with the wrong number of pixels.
    #[error("the part of {window} has {width} x {height} pixels")]
    Size {
        /// The part.
        window: ImageWindow,
        /// The width of the pixels.
        width: u32,
        /// The height of the pixels.
        height: u32,
    },
    /// Two parts overlap.
    #[error("the part of {window} overlaps another one: each pixel may be delivered once")]
    Twice {
        /// The second part.
        window: ImageWindow,
    },
    /// Pixels are missing.
    #[error("of the {needed} pixels around the tile of {tile} only {delivered} were delivered")]
    Missing {
        /// The tile.
        tile: ImageWindow,
        /// Number of pixels that the tile and its border need.
        needed: u64,
        /// Number of pixels in the parts.
        delivered: u64,
    },
    /// The border is too large, or a part has other pixels.
    #[error(transparent)]
    Pixels(#[from] PixelsError),
}

impl Edge {
    /// Returns the pixel of an axis that stands for a position beyond its ends; `None` for a
    /// constant.
    pub fn pixel_at(self, position: i64, length: u32) -> Option<u32> {
        let last = i64::from(length) - 1;
        let inside = match self {
            _ if (0..=last).contains(&position) => position,
            Edge::Clamp => position.clamp(0, last),
            Edge::Mirror if last == 0 => 0,
            Edge::Mirror => {
                let there = position.rem_euclid(2 * last);
                there.min(2 * last - there)
            }
            Edge::Constant(_) => return None,
        };
        u32::try_from(inside).ok()
    }
}

impl PaddedTile {
    /// Assembles a tile and its border. The parts are the tile itself and what
    /// [`TileGrid::neighbours`](crate::TileGrid::neighbours) lists, in any order. Pixels of a part
    /// that are not needed are ignored.
    pub fn assemble<'a>(
        grid: &TileGrid,
        tile: TilePosition,
        border: u32,
        edge: Edge,
        parts: impl IntoIterator<Item = (ImageWindow, &'a Pixels)>,
    ) -> Result<PaddedTile, PaddingError> {
        let (Some(window), Some(needed)) = (grid.tile(tile), grid.surroundings(tile, border))
        else {
            return Err(PaddingError::Tile { tile, tiles: grid.tiles() });
        };
        let mut assembly = TileAssembly {
            image: grid.image(),
            tile: window,
            border,
            needed,
            pasted: Vec::new(),
            pixels: None,
        };
        for (window, part) in parts {
            assembly.paste(window, part)?;
        }
        assembly.finish(edge)
    }

    /// Returns the tile and the border.
    pub fn pixels(&self) -> &Pixels {
        &self.pixels
    }

    /// Returns the width of the border in pixels.
    pub fn border(&self) -> u32 {
        self.border
    }

    /// Returns the width of the tile.
    pub fn width(&self) -> u32 {
        self.pixels.width() - 2 * self.border
    }

    /// Returns the height of the tile.
    pub fn height(&self) -> u32 {
        self.pixels.height() - 2 * self.border
    }

    /// Computes the tile row by row and returns its bytes: `compute` appends the samples of one
    /// row.
    pub(crate) fn compute_rows<T: SampleChannel>(
        &self,
        mut compute: impl FnMut(usize, &mut Vec<T>),
    ) -> Vec<u8> {
        let length = self.width() as usize * self.pixels.pixel().channels();
        let mut data = Vec::with_capacity(self.height() as usize * length * size_of::<T>());
        let mut values = Vec::with_capacity(length);
        for y in 0..self.height() as usize {
            values.clear();
            compute(y, &mut values);
            T::store(&values, &mut data);
        }
        data
    }

    /// Returns the rows of the tile with `across` and `down` pixels of its border.
    pub(crate) fn rows(&self, across: u32, down: u32) -> impl Iterator<Item = &[u8]> {
        let first = self.border - down;
        let (x, length) = (self.border - across, self.width() + 2 * across);
        (first..first + self.height() + 2 * down).map(move |y| self.pixels.span(y, x, length))
    }
}

/// A padded tile that is being assembled.
struct TileAssembly {
    image: ImageWindow,
    tile: ImageWindow,
    border: u32,
    needed: ImageWindow,
    pasted: Vec<ImageWindow>,
    pixels: Option<Pixels>,
}

impl TileAssembly {
    fn paste(&mut self, window: ImageWindow, part: &Pixels) -> Result<(), PaddingError> {
        let (width, height) = (part.width(), part.height());
        if (width, height) != (window.width, window.height) {
            return Err(PaddingError::Size { window, width, height });
        }
        let Some(used) = window.intersection(self.needed) else { return Ok(()) };
        if self.pasted.iter().any(|other| other.intersection(used).is_some()) {
            return Err(PaddingError::Twice { window });
        }
        self.pasted.push(used);
        if self.pixels.is_none() {
            self.pixels = Some(self.blank(part.pixel())?);
        }
        let Some(pixels) = &mut self.pixels else { return Ok(()) };
        let from = ImageWindow { x: used.x - window.x, y: used.y - window.y, ..used };
        let x = used.x + self.border - self.tile.x;
        let y = used.y + self.border - self.tile.y;
        Ok(pixels.paste_window(x, y, part, from)?)
    }

    fn blank(&self, pixel: Pixel) -> Result<Pixels, PixelsError> {
        let side = |length: u32| {
            let both = self.border.checked_mul(2)?;
            length.checked_add(both)
        };
        let ImageWindow { width, height, .. } = self.tile;
        match (side(width), side(height)) {
            (Some(width), Some(height)) => Pixels::blank(width, height, pixel),
            _ => Err(PixelsError::TooLarge { width, height, pixel }),
        }
    }

    fn finish(self, edge: Edge) -> Result<PaddedTile, PaddingError> {
        let delivered = self.pasted.iter().map(ImageWindow::area).sum();
        let needed = self.needed.area();
        let Some(mut pixels) = self.pixels.filter(|_| delivered == needed) else {
            return Err(PaddingError::Missing { tile: self.tile, needed, delivered });
        };
        let axis = |start: u32, length: u32, image: u32| -> Vec<Option<u32>> {
            let first = i64::from(start) - i64::from(self.border);
            let seen = |position| {
                let place = edge.pixel_at(position, image)?;
                u32::try_from(i64::from(place) - first).ok()
            };
            (first..first + i64::from(length)).map(seen).collect()
        };
        let columns = axis(self.tile.x, pixels.width(), self.image.width);
        let rows = axis(self.tile.y, pixels.height(), self.image.height);
        let beyond = match edge {
            Edge::Constant(value) => sample_bytes(pixels.pixel(), value),
            Edge::Clamp | Edge::Mirror => Vec::new(),
        };
        fill_columns(&mut pixels, &columns, &rows, &beyond);
        fill_rows(&mut pixels, &rows, &beyond);
        Ok(PaddedTile { pixels, border: self.border })
    }
}

/// Fills the pixels to the left and to the right of the image, in the rows of the image.
fn fill_columns(pixels: &mut Pixels, columns: &[Option<u32>], rows: &[Option<u32>], beyond: &[u8]) {
    let bytes = pixels.pixel().bytes();
    let others = || (0u32..).zip(columns).filter(|(x, from)| **from != Some(*x));
    if others().next().is_none() {
        return;
    }
    for y in (0u32..).zip(rows).filter(|(y, from)| **from == Some(*y)).map(|(y, _)| y) {
        let row = pixels.row_mut(y);
        for (x, from) in others() {
            let at = x as usize * bytes;
            match from {
                Some(from) => {
                    row.copy_within(*from as usize * bytes..(*from as usize + 1) * bytes, at)
                }
                None => row[at..at + bytes].copy_from_slice(beyond),
            }
        }
    }
}

/// Fills the rows above and below the image from rows whose columns are complete.
fn fill_rows(pixels: &mut Pixels, rows: &[Option<u32>], beyond: &[u8]) {
    for (y, from) in (0u32..).zip(rows).filter(|(y, from)| **from != Some(*y)) {
        match from {
            Some(from) => {
                let copy = pixels.row(*from).to_vec();
                pixels.row_mut(y).copy_from_slice(&copy);
            }
            None => {
                let row = pixels.row_mut(y);
                row.chunks_exact_mut(beyond.len()).for_each(|to| to.copy_from_slice(beyond));
            }
        }
    }
}
