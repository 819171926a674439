//! Encodes slices as pictures: maps values to 256 steps, and encodes these as PNG or JPEG.

use jpeg_encoder::ColorType as JpegColor;
use pario_image::{Pixel, Sample, Slice};
use png::{BitDepth, ColorType as PngColor, Compression};
use serde_json::{Value, json};
use thiserror::Error;

/// The format of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// PNG: lossless.
    Png,
    /// JPEG, with a quality from 1 to 100.
    Jpeg(u8),
    /// The values of the first pixel, as JSON.
    Values,
}

/// The appearance of pixels outside the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutsidePixels {
    /// Black.
    Black,
    /// Transparent; black in a JPEG.
    Transparent,
}

/// The values that are shown from black to white.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueWindow {
    /// This value and all below are black.
    pub low: f64,
    /// This value and all above are white.
    pub high: f64,
}

/// Encoding a picture failed.
#[derive(Debug, Error)]
pub enum PictureError {
    /// PNG.
    #[error("cannot encode the slice as PNG: {0}")]
    Png(#[from] png::EncodingError),
    /// JPEG.
    #[error("cannot encode the slice as JPEG: {0}")]
    Jpeg(#[from] jpeg_encoder::EncodingError),
}

impl PictureFormat {
    /// Returns the media type.
    pub fn media_type(self) -> &'static str {
        match self {
            PictureFormat::Png => "image/png",
            PictureFormat::Jpeg(_) => "image/jpeg",
            PictureFormat::Values => "application/json",
        }
    }
}

/// Encodes a slice.
pub fn encode(
    slice: &Slice,
    window: ValueWindow,
    outside: OutsidePixels,
    format: PictureFormat,
) -> Result<Vec<u8>, PictureError> {
    let (width, height, channels) = (slice.width(), slice.height(), slice.pixel().channels());
    match (format, outside, slice.coverage()) {
        (PictureFormat::Values, ..) => Ok(values(slice).to_string().into_bytes()),
        (PictureFormat::Png, OutsidePixels::Transparent, Some(covered)) if channels % 2 == 1 => {
            let steps = with_alpha(&steps(slice, window), channels, covered);
            png(&steps, width, height, channels + 1)
        }
        (PictureFormat::Png, ..) => png(&steps(slice, window), width, height, channels),
        (PictureFormat::Jpeg(quality), ..) => {
            jpeg(&steps(slice, window), width, height, channels, quality)
        }
    }
}

/// Returns the values of the first pixel: a list with one value per channel, `null` for NaN; `null`
/// instead of the list outside the volume.
fn values(slice: &Slice) -> Value {
    let pixel = slice.pixel();
    let is_there = slice.coverage().is_none_or(|covered| covered.first() == Some(&true));
    let channels = slice.data()[..pixel.bytes()].chunks_exact(pixel.sample().bytes());
    let values: Vec<f64> = channels.map(|bytes| pixel.sample().value(bytes)).collect();
    json!({ "values": is_there.then_some(values) })
}

/// Adds an alpha channel for covered pixels.
fn with_alpha(steps: &[u8], channels: usize, covered: &[bool]) -> Vec<u8> {
    let mut longer = Vec::with_capacity(covered.len() * (channels + 1));
    for (pixel, covered) in steps.chunks_exact(channels).zip(covered) {
        longer.extend_from_slice(pixel);
        longer.push(if *covered { u8::MAX } else { 0 });
    }
    longer
}

fn png(steps: &[u8], width: u32, height: u32, channels: usize) -> Result<Vec<u8>, PictureError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(match channels {
        1 => PngColor::Grayscale,
        2 => PngColor::GrayscaleAlpha,
        3 => PngColor::Rgb,
        _ => PngColor::Rgba,
    });
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(steps)?;
    writer.finish()?;
    Ok(bytes)
}

fn jpeg(
    steps: &[u8],
    width: u32,
    height: u32,
    channels: usize,
    quality: u8,
) -> Result<Vec<u8>, PictureError> {
    let side = |pixels: u32| u16::try_from(pixels).expect("slices are at most 4,096 pixels wide");
    let (width, height) = (side(width), side(height));
    let mut bytes = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut bytes, quality);
    match channels {
        1 => encoder.encode(steps, width, height, JpegColor::Luma)?,
        2 => encoder.encode(&on_black(steps, 2), width, height, JpegColor::Luma)?,
        3 => encoder.encode(steps, width, height, JpegColor::Rgb)?,
        _ => encoder.encode(&on_black(steps, 4), width, height, JpegColor::Rgb)?,
    }
    Ok(bytes)
}

/// Draws the picture on black, because JPEG has no transparency.
fn on_black(steps: &[u8], channels: usize) -> Vec<u8> {
    let mut color_channels = Vec::with_capacity(steps.len() / channels * (channels - 1));
    for pixel in steps.chunks_exact(channels) {
        let there = u32::from(pixel[channels - 1]);
        let shown = |step: &u8| u8::try_from(u32::from(*step) * there / 255).unwrap_or(u8::MAX);
        color_channels.extend(pixel[..channels - 1].iter().map(shown));
    }
    color_channels
}

/// Returns the pixel type of a slice after its mapping to 256 steps.
pub fn steps_pixel(pixel: Pixel) -> Pixel {
    let channels = u32::try_from(pixel.channels()).unwrap_or(u32::MAX);
    Pixel::new(Sample::U8, channels).expect("as many channels as before")
}

/// Maps every channel to 256 steps. An alpha channel is mapped without the window. Pixels outside
/// the volume are black.
pub fn steps(slice: &Slice, window: ValueWindow) -> Vec<u8> {
    let pixel = slice.pixel();
    let whole = ValueWindow::of(pixel.sample());
    if pixel.sample() == Sample::U8 && window == whole {
        return slice.data().to_vec();
    }
    let color_channels = color_channels(pixel);
    let shade = |channel: usize, value: f64| {
        if channel < color_channels { window.step(value) } else { whole.step(value) }
    };
    let values =
        slice.data().chunks_exact(pixel.sample().bytes()).map(|bytes| pixel.sample().value(bytes));
    let mut steps: Vec<u8> =
        values.enumerate().map(|(at, value)| shade(at % pixel.channels(), value)).collect();
    for (pixel, covered) in
        steps.chunks_exact_mut(pixel.channels()).zip(slice.coverage().unwrap_or_default())
    {
        if !covered {
            pixel.fill(0);
        }
    }
    steps
}

/// Returns the number of colour channels: the last of two or four is alpha.
fn color_channels(pixel: Pixel) -> usize {
    match pixel.channels() {
        2 | 4 => pixel.channels() - 1,
        all => all,
    }
}

impl ValueWindow {
    /// Returns the default window of a sample type: usually its whole range.
    pub fn of(sample: Sample) -> Self {
        let [low, high] = sample.range();
        Self { low, high }
    }

    /// Maps a value to a step; NaN is black.
    fn step(self, value: f64) -> u8 {
        let share = (value - self.low) / (self.high - self.low);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 255"
        )]
        let step = (share.clamp(0.0, 1.0) * 255.0).round() as u8;
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_spreads_its_values_over_all_steps() {
        let window = ValueWindow { low: 100.0, high: 300.0 };
        let steps = [-5.0, 100.0, 200.0, 300.0, 9e9, f64::NAN].map(|value| window.step(value));
        assert_eq!(steps, [0, 0, 128, 255, 255, 0]);
        for step in 0..=255 {
            assert_eq!(ValueWindow::of(Sample::U8).step(f64::from(step)), step);
        }
        assert_eq!(ValueWindow::of(Sample::U16).step(65_535.0), 255);
        assert_eq!(ValueWindow::of(Sample::F32).step(1.0), 255);
        assert_eq!(ValueWindow::of(Sample::I16).step(-32_768.0), 0);
    }

    #[test]
    fn outside_of_the_volume_it_is_black_in_every_window() {
        for sample in Sample::ALL {
            for channels in 1..=4 {
                let pixel = Pixel::new(sample, channels).unwrap();
                let slice = Slice::blank(1, 1, pixel, &[]).with_coverage();
                for (low, high) in [(-160.0, 240.0), (-1.0, 0.0), (0.0, 1.0), (-1e6, 1e6)] {
                    let window = ValueWindow { low, high };
                    let black = vec![0; pixel.channels()];
                    assert_eq!(steps(&slice, window), black, "{pixel} {window:?}");
                }
            }
        }
        assert_eq!(with_alpha(&[7, 8], 1, &[true, false]), [7, 255, 8, 0]);
        assert_eq!(with_alpha(&[1, 2, 3], 3, &[true]), [1, 2, 3, 255]);
    }

    #[test]
    fn values_are_those_of_the_voxel() {
        let signed = Pixel::new(Sample::I16, 1).unwrap();
        let [low, high] = (-1000i16).to_le_bytes();
        let slice = Slice::blank(1, 1, signed, &[low, high]);
        assert_eq!(values(&slice).to_string(), r#"{"values":[-1000.0]}"#);
        assert_eq!(values(&slice.with_coverage()).to_string(), r#"{"values":null}"#);
        let real = Pixel::new(Sample::F32, 2).unwrap();
        let bytes = [f32::NAN.to_le_bytes(), 0.5f32.to_le_bytes()].concat();
        let slice = Slice::blank(1, 1, real, &bytes);
        assert_eq!(values(&slice).to_string(), r#"{"values":[null,0.5]}"#);
    }

    #[test]
    fn what_is_not_there_is_black_in_a_jpeg() {
        assert_eq!(on_black(&[200, 255, 200, 0], 2), [200, 0]);
        assert_eq!(on_black(&[1, 2, 3, 255, 9, 9, 9, 0], 4), [1, 2, 3, 0, 0, 0]);
    }

    #[test]
    fn the_window_leaves_alone_whether_something_is_there() {
        let two = Pixel::new(Sample::U8, 2).unwrap();
        let slice = Slice::blank(2, 1, two, &[100, 128]);
        assert_eq!(steps(&slice, ValueWindow { low: 0.0, high: 100.0 }), [255, 128, 255, 128]);
    }

    #[test]
    fn every_kind_of_pixel_becomes_both_kinds_of_picture() {
        for sample in Sample::ALL {
            for channels in 1..=4 {
                let pixel = Pixel::new(sample, channels).unwrap();
                for format in [PictureFormat::Png, PictureFormat::Jpeg(70)] {
                    let slice = Slice::blank(5, 3, pixel, &[]);
                    let bytes =
                        encode(&slice, ValueWindow::of(sample), OutsidePixels::Transparent, format)
                            .unwrap();
                    let start: &[u8] =
                        if format == PictureFormat::Png { b"\x89PNG" } else { b"\xff\xd8" };
                    assert!(bytes.starts_with(start), "{pixel} {format:?}");
                }
            }
        }
    }
}
