//! The pixels of a box, in memory.
//!
//! Invariants: neither side is 0, and there are exactly as many bytes as pixels of this kind need.

use crate::Pixel;
use crate::filter::Window;

/// The pixels of a box: rows from top to bottom, channels interleaved, bytes little-endian.
///
/// ```
/// use pario_image::{Pixel, Pixels, Window};
///
/// let mut image = Pixels::new(3, 2, Pixel::GREY, vec![1, 2, 3, 4, 5, 6])?;
/// let right = image.cut(Window { x: 1, y: 0, width: 2, height: 2 })?;
/// assert_eq!(right.data(), [2, 3, 5, 6]);
/// image.paste(0, 0, &right)?;
/// assert_eq!(image.row(1), [5, 6, 6]);
/// # Ok::<(), pario_image::PixelsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pixels {
    width: u32,
    height: u32,
    pixel: Pixel,
    data: Vec<u8>,
}

/// Why a box of pixels cannot be made, cut or pasted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PixelsError {
    /// A side is 0.
    #[error("{width} x {height} pixels are none: both sides must be at least 1")]
    Empty {
        /// The width asked for.
        width: u32,
        /// The height asked for.
        height: u32,
    },
    /// The bytes cannot be addressed.
    #[error("{width} x {height} pixels of {pixel} do not fit into memory: choose a smaller window")]
    TooLarge {
        /// The width asked for.
        width: u32,
        /// The height asked for.
        height: u32,
        /// The kind of pixels.
        pixel: Pixel,
    },
    /// There are too few or too many bytes.
    #[error("{width} x {height} pixels of {pixel} have {needed} bytes, but {given} were given")]
    Bytes {
        /// The width.
        width: u32,
        /// The height.
        height: u32,
        /// The kind of pixels.
        pixel: Pixel,
        /// The bytes that they have.
        needed: usize,
        /// The bytes given.
        given: usize,
    },
    /// A window leaves the box.
    #[error(
        "{window} are not all within {width} x {height} pixels: cut the window off at the edge"
    )]
    Outside {
        /// What was asked for.
        window: Window,
        /// The width there is.
        width: u32,
        /// The height there is.
        height: u32,
    },
    /// Pixels of different kinds do not mix.
    #[error("pixels of {given} cannot be pasted into pixels of {pixel}: convert them first")]
    OtherPixel {
        /// The kind of those that are pasted.
        given: Pixel,
        /// The kind of those that are there.
        pixel: Pixel,
    },
}

impl Pixels {
    /// Pixels of which the bytes are known.
    pub fn new(
        width: u32,
        height: u32,
        pixel: Pixel,
        data: Vec<u8>,
    ) -> Result<Pixels, PixelsError> {
        let needed = bytes(width, height, pixel)?;
        match data.len() {
            given if given == needed => Ok(Pixels { width, height, pixel, data }),
            given => Err(PixelsError::Bytes { width, height, pixel, needed, given }),
        }
    }

    /// Pixels that are 0 in all channels.
    pub fn blank(width: u32, height: u32, pixel: Pixel) -> Result<Pixels, PixelsError> {
        Ok(Pixels { width, height, pixel, data: vec![0; bytes(width, height, pixel)?] })
    }

    /// Pixels of which the bytes were made to measure.
    pub(crate) fn made(width: u32, height: u32, pixel: Pixel, data: Vec<u8>) -> Pixels {
        debug_assert_eq!(bytes(width, height, pixel), Ok(data.len()));
        Pixels { width, height, pixel, data }
    }

    /// How many columns.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// How many rows.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// What kind of pixels.
    pub fn pixel(&self) -> Pixel {
        self.pixel
    }

    /// All bytes.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// All bytes, without the knowledge of what they are.
    pub fn into_data(self) -> Vec<u8> {
        self.data
    }

    /// The box as a window of itself.
    pub fn window(&self) -> Window {
        Window { x: 0, y: 0, width: self.width, height: self.height }
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.width as usize * self.pixel.bytes()
    }

    /// The bytes of a row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn row(&self, y: u32) -> &[u8] {
        let bytes = self.row_bytes();
        &self.data[y as usize * bytes..][..bytes]
    }

    /// The bytes of a row, to be changed.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn row_mut(&mut self, y: u32) -> &mut [u8] {
        let bytes = self.row_bytes();
        &mut self.data[y as usize * bytes..][..bytes]
    }

    /// A copy of the pixels of a window.
    pub fn cut(&self, window: Window) -> Result<Pixels, PixelsError> {
        let needed = bytes(window.width, window.height, self.pixel)?;
        self.check(window)?;
        let mut data = Vec::with_capacity(needed);
        for y in window.y..window.y + window.height {
            data.extend_from_slice(self.span(y, window.x, window.width));
        }
        Ok(Pixels { width: window.width, height: window.height, pixel: self.pixel, data })
    }

    /// Puts other pixels of the same kind in place of those from a position on.
    pub fn paste(&mut self, x: u32, y: u32, part: &Pixels) -> Result<(), PixelsError> {
        self.paste_window(x, y, part, part.window())
    }

    /// The same with a window of the other pixels.
    pub fn paste_window(
        &mut self,
        x: u32,
        y: u32,
        part: &Pixels,
        window: Window,
    ) -> Result<(), PixelsError> {
        if part.pixel != self.pixel {
            return Err(PixelsError::OtherPixel { given: part.pixel, pixel: self.pixel });
        }
        part.check(window)?;
        self.check(Window { x, y, ..window })?;
        let (from, bytes) = (x as usize * self.pixel.bytes(), self.pixel.bytes());
        for down in 0..window.height {
            let source = part.span(window.y + down, window.x, window.width);
            let target = self.row_mut(y + down);
            target[from..][..window.width as usize * bytes].copy_from_slice(source);
        }
        Ok(())
    }

    /// The bytes of some pixels of a row.
    pub(crate) fn span(&self, y: u32, x: u32, length: u32) -> &[u8] {
        let bytes = self.pixel.bytes();
        &self.row(y)[x as usize * bytes..][..length as usize * bytes]
    }

    fn check(&self, window: Window) -> Result<(), PixelsError> {
        match self.window().contains(window) {
            true => Ok(()),
            false => Err(PixelsError::Outside { window, width: self.width, height: self.height }),
        }
    }
}

/// The bytes of a box.
fn bytes(width: u32, height: u32, pixel: Pixel) -> Result<usize, PixelsError> {
    if width == 0 || height == 0 {
        return Err(PixelsError::Empty { width, height });
    }
    (width as usize)
        .checked_mul(height as usize)
        .and_then(|pixels| pixels.checked_mul(pixel.bytes()))
        .filter(|bytes| isize::try_from(*bytes).is_ok())
        .ok_or(PixelsError::TooLarge { width, height, pixel })
}
