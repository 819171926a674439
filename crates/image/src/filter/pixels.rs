//! The pixels of a rectangle, in memory.
//!
//! Invariants: neither side is 0, and the number of bytes is exactly that of the pixels.

use crate::Pixel;
use crate::filter::ImageWindow;

/// The pixels of a rectangle: rows from top to bottom, channels interleaved, bytes little-endian.
///
/// ```
/// use pario_image::{ImageWindow, Pixel, Pixels};
///
/// let mut image = Pixels::new(3, 2, Pixel::GREY, vec![1, 2, 3, 4, 5, 6])?;
/// let right = image.cut(ImageWindow { x: 1, y: 0, width: 2, height: 2 })?;
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

/// The error of pixels that cannot be created, cut or pasted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PixelsError {
    /// A side is 0.
    #[error("{width} x {height} pixels are empty: both sides must be at least 1")]
    Empty {
        /// The requested width.
        width: u32,
        /// The requested height.
        height: u32,
    },
    /// The bytes exceed the address space.
    #[error("{width} x {height} pixels of {pixel} do not fit into memory: choose a smaller window")]
    TooLarge {
        /// The requested width.
        width: u32,
        /// The requested height.
        height: u32,
        /// The pixel.
        pixel: Pixel,
    },
    /// The number of bytes is wrong.
    #[error("{width} x {height} pixels of {pixel} have {needed} bytes, but {given} were given")]
    Bytes {
        /// The width.
        width: u32,
        /// The height.
        height: u32,
        /// The pixel.
        pixel: Pixel,
        /// The number of bytes of these pixels.
        needed: usize,
        /// The number of bytes given.
        given: usize,
    },
    /// A window leaves the pixels.
    #[error(
        "{window} are not all within {width} x {height} pixels: cut the window off at the edge"
    )]
    Outside {
        /// The requested window.
        window: ImageWindow,
        /// The width of the pixels.
        width: u32,
        /// The height of the pixels.
        height: u32,
    },
    /// The pixels are of different types.
    #[error("pixels of {given} cannot be pasted into pixels of {pixel}: convert them first")]
    OtherPixel {
        /// The type of the pasted pixels.
        given: Pixel,
        /// The type of the pixels that they are pasted into.
        pixel: Pixel,
    },
}

impl Pixels {
    /// Creates pixels from their bytes.
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

    /// Creates pixels that are 0 in all channels.
    pub fn blank(width: u32, height: u32, pixel: Pixel) -> Result<Pixels, PixelsError> {
        Ok(Pixels { width, height, pixel, data: vec![0; bytes(width, height, pixel)?] })
    }

    /// Creates pixels from bytes whose number the caller guarantees.
    pub(crate) fn from_checked(width: u32, height: u32, pixel: Pixel, data: Vec<u8>) -> Pixels {
        debug_assert_eq!(bytes(width, height, pixel), Ok(data.len()));
        Pixels { width, height, pixel, data }
    }

    /// Returns the number of columns.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns the number of rows.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Returns the type of the pixels.
    pub fn pixel(&self) -> Pixel {
        self.pixel
    }

    /// Returns all bytes.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Returns all bytes and drops size and type.
    pub fn into_data(self) -> Vec<u8> {
        self.data
    }

    /// Returns all of these pixels as a window.
    pub fn window(&self) -> ImageWindow {
        ImageWindow { x: 0, y: 0, width: self.width, height: self.height }
    }

    /// Returns the number of bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.width as usize * self.pixel.bytes()
    }

    /// Returns the bytes of a row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn row(&self, y: u32) -> &[u8] {
        let bytes = self.row_bytes();
        &self.data[y as usize * bytes..][..bytes]
    }

    /// Returns the bytes of a row for writing.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn row_mut(&mut self, y: u32) -> &mut [u8] {
        let bytes = self.row_bytes();
        &mut self.data[y as usize * bytes..][..bytes]
    }

    /// Returns a copy of the pixels of a window.
    pub fn cut(&self, window: ImageWindow) -> Result<Pixels, PixelsError> {
        let needed = bytes(window.width, window.height, self.pixel)?;
        self.check(window)?;
        let mut data = Vec::with_capacity(needed);
        for y in window.y..window.y + window.height {
            data.extend_from_slice(self.span(y, window.x, window.width));
        }
        Ok(Pixels { width: window.width, height: window.height, pixel: self.pixel, data })
    }

    /// Replaces pixels from a position on by other pixels of the same type.
    pub fn paste(&mut self, x: u32, y: u32, part: &Pixels) -> Result<(), PixelsError> {
        self.paste_window(x, y, part, part.window())
    }

    /// Replaces pixels from a position on by a window of other pixels of the same type.
    pub fn paste_window(
        &mut self,
        x: u32,
        y: u32,
        part: &Pixels,
        window: ImageWindow,
    ) -> Result<(), PixelsError> {
        if part.pixel != self.pixel {
            return Err(PixelsError::OtherPixel { given: part.pixel, pixel: self.pixel });
        }
        part.check(window)?;
        self.check(ImageWindow { x, y, ..window })?;
        let (from, bytes) = (x as usize * self.pixel.bytes(), self.pixel.bytes());
        for down in 0..window.height {
            let source = part.span(window.y + down, window.x, window.width);
            let target = self.row_mut(y + down);
            target[from..][..window.width as usize * bytes].copy_from_slice(source);
        }
        Ok(())
    }

    /// Returns the bytes of some pixels of a row.
    pub(crate) fn span(&self, y: u32, x: u32, length: u32) -> &[u8] {
        let bytes = self.pixel.bytes();
        &self.row(y)[x as usize * bytes..][..length as usize * bytes]
    }

    fn check(&self, window: ImageWindow) -> Result<(), PixelsError> {
        match self.window().contains(window) {
            true => Ok(()),
            false => Err(PixelsError::Outside { window, width: self.width, height: self.height }),
        }
    }
}

/// Returns the number of bytes of a rectangle.
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
