//! Assembly of a slice from its parts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::parts::{PartsError, PartsView, SliceParts};
use super::sums;
use super::trilinear::WEIGHT;
use crate::pixel::Pixel;

/// The pixels of a slice, row by row. Pixels without a part are background.
#[derive(Clone, Debug)]
pub struct Slice {
    width: u32,
    height: u32,
    pixel: Pixel,
    data: Vec<u8>,
    open: OpenPixels,
    covered: Option<Vec<bool>>,
}

/// Pixels that lack shares, by position.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenPixels {
    pixels: HashMap<u64, OpenPixel>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OpenPixel {
    weight: u32,
    sums: [u64; 4],
}

impl Slice {
    /// Creates a slice that is all background. The background has the bytes of one pixel; missing
    /// bytes are 0.
    pub fn blank(width: u32, height: u32, pixel: Pixel, background: &[u8]) -> Slice {
        let mut one = vec![0; pixel.bytes()];
        for (byte, &given) in one.iter_mut().zip(background) {
            *byte = given;
        }
        let data = one.repeat(width as usize * height as usize);
        Slice { width, height, pixel, data, open: OpenPixels::default(), covered: None }
    }

    /// Returns the slice with recording of the pixels that parts cover.
    #[must_use]
    pub fn with_coverage(mut self) -> Slice {
        self.covered = Some(vec![false; self.width as usize * self.height as usize]);
        self
    }

    /// Returns whether a part covers each pixel, row by row; `None` if it was not recorded.
    pub fn coverage(&self) -> Option<&[bool]> {
        self.covered.as_deref()
    }

    /// Returns the number of pixels in a row.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns the number of rows.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Returns the pixel type.
    pub fn pixel(&self) -> Pixel {
        self.pixel
    }

    /// Returns the bytes of all pixels, row by row.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Returns the bytes of all pixels, row by row. Fails if pixels lack shares.
    pub fn into_data(self) -> Result<Vec<u8>, PartsError> {
        self.check_finished()?;
        Ok(self.data)
    }

    /// Fails if a pixel has some of its shares but not all.
    pub fn check_finished(&self) -> Result<(), PartsError> {
        match self.open.pixels.len() {
            0 => Ok(()),
            pixels => Err(PartsError::Unfinished { pixels }),
        }
    }

    /// Pastes parts of this slice, in any order. Rejects parts of other slices; the slice may then
    /// have some of them.
    pub fn paste(&mut self, parts: &SliceParts) -> Result<(), PartsError> {
        self.paste_view(parts.view())
    }

    /// Pastes parts from a message.
    pub fn paste_message(&mut self, message: &[u8]) -> Result<(), PartsError> {
        self.paste_view(PartsView::decode(message)?)
    }

    fn paste_view(&mut self, parts: PartsView<'_>) -> Result<(), PartsError> {
        let (size, width, pixel) = ((self.width, self.height), self.width as usize, self.pixel);
        let (data, mut covered) = (&mut self.data, self.covered.as_deref_mut());
        let place =
            |column: u32, row: u32| (row as usize * width + column as usize) * pixel.bytes();
        parts.for_runs(size, pixel, |span, pixels| {
            let start = place(span.first, span.row);
            data[start..start + pixels.len()].copy_from_slice(pixels);
            if let Some(covered) = &mut covered {
                let first = start / pixel.bytes();
                covered[first..first + pixels.len() / pixel.bytes()].fill(true);
            }
        })?;
        parts.for_shares(size, pixel, |layer, column, row, weight, sums| {
            if layer != 0 {
                return Err(PartsError::Layer { layer: layer.into(), depth: 1 });
            }
            let start = place(column, row);
            let out = &mut data[start..start + pixel.bytes()];
            if self.open.add(pixel, (0, column, row), weight, sums, out)?
                && let Some(covered) = &mut covered
            {
                covered[start / pixel.bytes()] = true;
            }
            Ok(())
        })
    }

    /// Returns the bytes of one pixel for writing.
    pub(super) fn pixel_mut(&mut self, column: u32, row: u32) -> &mut [u8] {
        let bytes = self.pixel.bytes();
        let start = (row as usize * self.width as usize + column as usize) * bytes;
        &mut self.data[start..start + bytes]
    }
}

impl OpenPixels {
    /// Returns the number of pixels that lack shares.
    pub fn count(&self) -> usize {
        self.pixels.len()
    }

    /// Adds a share of a pixel, given by layer, column and row. With the last share it writes the
    /// pixel to `out` and returns true.
    pub fn add(
        &mut self,
        pixel: Pixel,
        (layer, column, row): (u16, u32, u32),
        weight: u32,
        sums: [u64; 4],
        out: &mut [u8],
    ) -> Result<bool, PartsError> {
        let key = u64::from(layer) << 32 | u64::from(row) << 16 | u64::from(column);
        let mut entry = match self.pixels.entry(key) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry(OpenPixel::default()),
        };
        let open = entry.get_mut();
        open.weight = open.weight.saturating_add(weight);
        if open.weight > WEIGHT {
            return Err(PartsError::TooMuch { column, row });
        }
        for (sum, more) in open.sums.iter_mut().zip(sums) {
            *sum = sums::add(pixel.sample(), *sum, more);
        }
        if open.weight < WEIGHT {
            return Ok(false);
        }
        let open = entry.remove();
        for (sum, out) in open.sums.into_iter().zip(out.chunks_exact_mut(pixel.sample().bytes())) {
            sums::put(pixel.sample(), sum, WEIGHT.into(), out);
        }
        Ok(true)
    }
}
