//! JPEG, by the crate zune-jpeg, which the TIFF tests use already.
//!
//! The decoder decodes a whole picture, which must fit into the allowed memory.

use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::byte_io::ByteSource;
use super::raster::{Raster, RasterReader, copy_row, fitting};
use super::{FilePosition, FormatError, FormatOptions};
use crate::Pixel;

/// Rows of a JPEG file: one channel of u8 if it is grey, otherwise red, green and blue.
pub struct JpegRows {
    raster: Raster,
    whole: Vec<u8>,
}

/// Returns whether a file starts like a JPEG.
pub(super) fn is_jpeg(head: &[u8]) -> bool {
    head.starts_with(b"\xff\xd8\xff")
}

impl JpegRows {
    /// Decodes a JPEG.
    pub fn open<S: ByteSource>(
        name: &str,
        source: S,
        options: &FormatOptions,
    ) -> Result<JpegRows, FormatError> {
        // Strict: a truncated file is an error, not a picture with a grey end.
        let strict = DecoderOptions::default()
            .set_max_width(usize::from(u16::MAX))
            .set_max_height(usize::from(u16::MAX))
            .set_strict_mode(true);
        let mut decoder = JpegDecoder::new_with_options(source, strict);
        decoder.decode_headers().map_err(|error| decoding(name, FilePosition::Header, &error))?;
        let (pixel, colours) = match decoder.input_colorspace() {
            Some(ColorSpace::Luma) => (Pixel::GREY, ColorSpace::Luma),
            _ => (Pixel::RGB, ColorSpace::RGB),
        };
        let (width, height) = decoder.dimensions().unwrap_or((0, 0));
        let size = (width as u64, height as u64);
        let raster = Raster::new(name, size, pixel, options.memory_bytes)?;
        let what = "a JPEG, which is read as a whole,";
        let bytes = fitting(name, what, raster.data_bytes, options.memory_bytes)?;
        let wanted = decoder.options().jpeg_set_out_colorspace(colours);
        decoder.set_options(wanted);
        let mut whole = vec![0; bytes];
        decoder
            .decode_into(&mut whole)
            .map_err(|error| decoding(name, FilePosition::Header, &error))?;
        Ok(JpegRows { raster, whole })
    }
}

impl RasterReader for JpegRows {
    fn raster(&self) -> &Raster {
        &self.raster
    }

    fn raster_mut(&mut self) -> &mut Raster {
        &mut self.raster
    }

    fn read_row(&mut self, number: u64, row: &mut [u8]) -> Result<(), FormatError> {
        copy_row(&self.whole, number, row);
        Ok(())
    }
}

fn decoding(name: &str, position: FilePosition, error: &DecodeErrors) -> FormatError {
    match error {
        DecodeErrors::Unsupported(_) => {
            let advice = "convert it to a baseline or progressive JPEG, or to PNG";
            FormatError::unsupported(name, format!("this JPEG cannot be read: {error:?}"), advice)
        }
        _ => FormatError::damaged(name, position, format!("{error:?}")),
    }
}
