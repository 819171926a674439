//! A tile with what surrounds it.
//!
//! Invariant: every pixel of the border is the pixel of the image at that place, or what the rule
//! says that lies beyond the edge. So a filter need not know where the image ends.

use pario_proto::{Shape, TilePosition};
use serde::{Deserialize, Serialize};

use crate::Pixel;
use crate::filter::channel::sample_bytes;
use crate::filter::{Pixels, PixelsError, TileGrid, Window};

/// What lies beyond the edges of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Edge {
    /// The nearest pixel of the edge, again and again.
    #[default]
    Clamp,
    /// The image in a mirror that stands on the outermost pixels: they are not repeated. An image
    /// that is smaller than the border is mirrored to and fro.
    Mirror,
    /// This value in all channels; rounded and cut off where samples are whole numbers.
    Constant(f32),
}

/// A tile and a border around it.
///
/// ```
/// use pario_image::{Edge, Framed, TileGrid, Pixel, Pixels, Window};
/// use pario_proto::{Shape, TilePosition};
///
/// // An image of 3 x 1 pixels of which the last one is another tile.
/// let grid = TileGrid::new(Shape::image(3, 1), Shape::image(2, 1))?;
/// let own = Pixels::new(2, 1, Pixel::GREY, vec![10, 20])?;
/// let next = Pixels::new(1, 1, Pixel::GREY, vec![30])?;
/// let parts = [
///     (Window { x: 0, y: 0, width: 2, height: 1 }, &own),
///     (Window { x: 2, y: 0, width: 1, height: 1 }, &next),
/// ];
/// let framed = Framed::assemble(&grid, TilePosition::image(0, 0), 1, Edge::Mirror, parts)?;
/// assert_eq!(framed.pixels().row(1), [20, 10, 20, 30]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Framed {
    pixels: Pixels,
    border: u32,
}

/// Why a tile cannot be surrounded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FrameError {
    /// The tile is not in the image.
    #[error("{tile} does not exist: the image has {tiles} tiles, counted from 0")]
    Tile {
        /// The tile.
        tile: TilePosition,
        /// The tiles of the image.
        tiles: Shape,
    },
    /// The pixels of a part are not as many as it has.
    #[error("the part of {window} came with {width} x {height} pixels")]
    Size {
        /// The part.
        window: Window,
        /// The width of what came.
        width: u32,
        /// The height of what came.
        height: u32,
    },
    /// A part is there twice.
    #[error("the part of {window} overlaps another one: each pixel may be delivered once")]
    Twice {
        /// The part.
        window: Window,
    },
    /// Something is missing.
    #[error("of the {needed} pixels around the tile of {tile} only {delivered} were delivered")]
    Missing {
        /// The tile.
        tile: Window,
        /// How many pixels are needed.
        needed: u64,
        /// How many there are.
        delivered: u64,
    },
    /// The border is too large, or a part has pixels of another kind.
    #[error(transparent)]
    Pixels(#[from] PixelsError),
}

impl Edge {
    /// Which pixel of an axis stands for a position that may lie beyond its ends; nothing if it is a
    /// constant.
    pub fn place(self, position: i64, length: u32) -> Option<u32> {
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

impl Framed {
    /// Puts a tile of an image together with its surroundings. The parts are the tile itself and
    /// what [`TileGrid::neighbours`](crate::TileGrid::neighbours) asks for, in any order; what of a part is
    /// not needed is left aside.
    pub fn assemble<'a>(
        grid: &TileGrid,
        tile: TilePosition,
        border: u32,
        edge: Edge,
        parts: impl IntoIterator<Item = (Window, &'a Pixels)>,
    ) -> Result<Framed, FrameError> {
        let (Some(window), Some(needed)) = (grid.tile(tile), grid.surroundings(tile, border))
        else {
            return Err(FrameError::Tile { tile, tiles: grid.tiles() });
        };
        let mut frame = Frame {
            image: grid.image(),
            tile: window,
            border,
            needed,
            pasted: Vec::new(),
            pixels: None,
        };
        for (window, part) in parts {
            frame.paste(window, part)?;
        }
        frame.finish(edge)
    }

    /// The tile and the border.
    pub fn pixels(&self) -> &Pixels {
        &self.pixels
    }

    /// How many pixels the border has at each side.
    pub fn border(&self) -> u32 {
        self.border
    }

    /// The width of the tile.
    pub fn width(&self) -> u32 {
        self.pixels.width() - 2 * self.border
    }

    /// The height of the tile.
    pub fn height(&self) -> u32 {
        self.pixels.height() - 2 * self.border
    }

    /// The rows of the tile and of so much of its border.
    pub(crate) fn rows(&self, across: u32, down: u32) -> impl Iterator<Item = &[u8]> {
        let first = self.border - down;
        let (x, length) = (self.border - across, self.width() + 2 * across);
        (first..first + self.height() + 2 * down).map(move |y| self.pixels.span(y, x, length))
    }
}

/// A framed tile that is being put together.
struct Frame {
    image: Window,
    tile: Window,
    border: u32,
    needed: Window,
    pasted: Vec<Window>,
    pixels: Option<Pixels>,
}

impl Frame {
    fn paste(&mut self, window: Window, part: &Pixels) -> Result<(), FrameError> {
        let (width, height) = (part.width(), part.height());
        if (width, height) != (window.width, window.height) {
            return Err(FrameError::Size { window, width, height });
        }
        let Some(used) = window.intersection(self.needed) else { return Ok(()) };
        if self.pasted.iter().any(|other| other.intersection(used).is_some()) {
            return Err(FrameError::Twice { window });
        }
        self.pasted.push(used);
        if self.pixels.is_none() {
            self.pixels = Some(self.blank(part.pixel())?);
        }
        let Some(pixels) = &mut self.pixels else { return Ok(()) };
        let from = Window { x: used.x - window.x, y: used.y - window.y, ..used };
        let x = used.x + self.border - self.tile.x;
        let y = used.y + self.border - self.tile.y;
        Ok(pixels.paste_window(x, y, part, from)?)
    }

    fn blank(&self, pixel: Pixel) -> Result<Pixels, PixelsError> {
        let side = |length: u32| {
            let both = self.border.checked_mul(2)?;
            length.checked_add(both)
        };
        let Window { width, height, .. } = self.tile;
        match (side(width), side(height)) {
            (Some(width), Some(height)) => Pixels::blank(width, height, pixel),
            _ => Err(PixelsError::TooLarge { width, height, pixel }),
        }
    }

    fn finish(self, edge: Edge) -> Result<Framed, FrameError> {
        let delivered = self.pasted.iter().map(Window::area).sum();
        let needed = self.needed.area();
        let Some(mut pixels) = self.pixels.filter(|_| delivered == needed) else {
            return Err(FrameError::Missing { tile: self.tile, needed, delivered });
        };
        let axis = |start: u32, length: u32, image: u32| -> Vec<Option<u32>> {
            let first = i64::from(start) - i64::from(self.border);
            let seen = |position| {
                let place = edge.place(position, image)?;
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
        Ok(Framed { pixels, border: self.border })
    }
}

/// Fills what lies to the left and to the right of the image, in the rows of the image.
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

/// Fills what lies above and below the image, when all columns of its rows are there.
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
