//! JPEG, by the crate zune-jpeg, which is already below the tests of TIFF.
//!
//! The decoder makes the whole picture at once, so it has to fit into the allowed memory.

use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::frame::{Frame, fitting};
use super::source::Source;
use super::{FormatError, OpenOptions, Place, Rows};
use crate::Pixel;

/// Rows of a JPEG file: one channel of u8 if it is grey, otherwise red, green and blue.
pub struct JpegRows {
    frame: Frame,
    whole: Vec<u8>,
}

/// Whether a file begins like a JPEG.
pub(super) fn is_jpeg(head: &[u8]) -> bool {
    head.starts_with(b"\xff\xd8\xff")
}

impl JpegRows {
    /// Decodes a JPEG.
    pub fn open<S: Source>(
        name: &str,
        source: S,
        options: &OpenOptions,
    ) -> Result<JpegRows, FormatError> {
        // Strict: a file that was cut short is an error, not a picture with a grey end.
        let strict = DecoderOptions::default()
            .set_max_width(usize::from(u16::MAX))
            .set_max_height(usize::from(u16::MAX))
            .set_strict_mode(true);
        let mut decoder = JpegDecoder::new_with_options(source, strict);
        decoder.decode_headers().map_err(|error| decoding(name, Place::Header, &error))?;
        let (pixel, colours) = match decoder.input_colorspace() {
            Some(ColorSpace::Luma) => (Pixel::GREY, ColorSpace::Luma),
            _ => (Pixel::RGB, ColorSpace::RGB),
        };
        let (width, height) = decoder.dimensions().unwrap_or((0, 0));
        let size = (width as u64, height as u64);
        let frame = Frame::new(name, size, pixel, options.memory_bytes)?;
        let what = "a JPEG, which is read as a whole,";
        let bytes = fitting(name, what, frame.data_bytes, options.memory_bytes)?;
        let wanted = decoder.options().jpeg_set_out_colorspace(colours);
        decoder.set_options(wanted);
        let mut whole = vec![0; bytes];
        decoder.decode_into(&mut whole).map_err(|error| decoding(name, Place::Header, &error))?;
        Ok(JpegRows { frame, whole })
    }
}

impl Rows for JpegRows {
    fn size(&self) -> (u64, u64) {
        (self.frame.width, self.frame.height)
    }

    fn pixel(&self) -> Pixel {
        self.frame.pixel
    }

    fn next_row(&mut self, row: &mut [u8]) -> Result<(), FormatError> {
        let number = self.frame.count_row(row.len())?;
        // It is in memory, so its length is a usize.
        #[allow(clippy::cast_possible_truncation)]
        let start = number as usize * row.len();
        row.copy_from_slice(&self.whole[start..start + row.len()]);
        Ok(())
    }
}

fn decoding(name: &str, place: Place, error: &DecodeErrors) -> FormatError {
    match error {
        DecodeErrors::Unsupported(_) => {
            let advice = "convert it to a baseline or progressive JPEG, or to PNG";
            FormatError::unsupported(name, format!("this JPEG cannot be read: {error:?}"), advice)
        }
        _ => FormatError::damaged(name, place, format!("{error:?}")),
    }
}
