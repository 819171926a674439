//! JPEG files of another library.

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use pario_image::Pixel;
use pario_image::formats::FormatOptions;
use pario_image::formats::{FormatError, read_picture, read_volume};

use super::picture::Picture;

/// A picture whose values change slowly, so that compression loses little.
fn smooth(pixel: Pixel, width: u16, height: u16) -> Picture {
    let mut bytes = Vec::new();
    for y in 0..height {
        for x in 0..width {
            for channel in 0..u16::try_from(pixel.channels()).unwrap() {
                bytes.push(u8::try_from((x * 2 + y * 3 + channel * 40) % 256).unwrap());
            }
        }
    }
    Picture { size: (width.into(), height.into()), pixel, bytes }
}

fn encoded(picture: &Picture, progressive: bool) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, 100);
    encoder.set_progressive(progressive);
    encoder.set_sampling_factor(SamplingFactor::R_4_4_4);
    let colours = if picture.pixel == Pixel::GREY { ColorType::Luma } else { ColorType::Rgb };
    let [width, height] = [picture.size.0, picture.size.1].map(|side| u16::try_from(side).unwrap());
    encoder.encode(&picture.bytes, width, height, colours).unwrap();
    file
}

#[test]
fn grey_and_colour_come_back_nearly() {
    for pixel in [Pixel::GREY, Pixel::RGB] {
        for progressive in [false, true] {
            let picture = smooth(pixel, 37, 21);
            let found = Picture::parse(&encoded(&picture, progressive)).unwrap();
            assert_eq!((found.size, found.pixel), (picture.size, picture.pixel));
            let worst = found.bytes.iter().zip(&picture.bytes).map(|(a, b)| a.abs_diff(*b)).max();
            assert!(worst.unwrap() <= 4, "{pixel} {progressive}: {worst:?}");
        }
    }
}

#[test]
fn a_jpeg_that_was_cut_or_is_too_large_is_refused() {
    let file = encoded(&smooth(Pixel::RGB, 64, 64), false);
    for end in [3, 20, file.len() / 2] {
        let error = Picture::parse(&file[..end]).unwrap_err();
        assert!(error.to_string().contains("picture: "), "{error}");
    }
    let options = FormatOptions { memory_bytes: 64 * 64, ..FormatOptions::default() };
    let error = read_picture("a.jpg", std::io::Cursor::new(file), &options).err().unwrap();
    assert!(matches!(error, FormatError::TooLarge { .. }), "{error}");
}

#[test]
fn a_jpeg_is_a_volume_of_one_plane() {
    let file = encoded(&smooth(Pixel::GREY, 8, 8), false);
    let source = std::io::Cursor::new(file);
    let volume = read_volume("a.jpg", source, &FormatOptions::default()).unwrap();
    assert_eq!((volume.size(), volume.pixel()), ([8, 8, 1], Pixel::GREY));
}
