//! PNG files of other programs: palettes, few bits, transparency, interlacing.

use std::io::{Cursor, Write};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use pario_image::formats::{FormatError, FormatOptions, read_picture};
use pario_image::{Pixel, Sample};
use png::{BitDepth, ColorType, Encoder};

use super::picture::{Picture, pixel};

fn encode(
    size: (u32, u32),
    colour: ColorType,
    depth: BitDepth,
    data: &[u8],
    set: impl FnOnce(&mut Encoder<'_, &mut Vec<u8>>),
) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, size.0, size.1);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    set(&mut encoder);
    encoder.write_header().unwrap().write_image_data(data).unwrap();
    file
}

#[test]
fn few_bits_are_stretched_to_bytes() {
    let grey = |depth, data: &[u8]| {
        let file = encode((3, 1), ColorType::Grayscale, depth, data, |_| ());
        Picture::parse(&file).unwrap()
    };
    let expected =
        |bytes: &[u8]| Picture { size: (3, 1), pixel: Pixel::GREY, bytes: bytes.to_vec() };
    assert_eq!(grey(BitDepth::One, &[0b1010_0000]), expected(&[255, 0, 255]));
    assert_eq!(grey(BitDepth::Two, &[0b0110_1100]), expected(&[85, 170, 255]));
    assert_eq!(grey(BitDepth::Four, &[0x1f, 0x80]), expected(&[17, 255, 136]));
}

#[test]
fn palettes_become_colours() {
    let palette = &[10u8, 20, 30, 40, 50, 60, 70, 80, 90];
    let file = encode((3, 1), ColorType::Indexed, BitDepth::Two, &[0b1000_0100], |encoder| {
        encoder.set_palette(&palette[..]);
    });
    let bytes = vec![70, 80, 90, 10, 20, 30, 40, 50, 60];
    assert_eq!(Picture::parse(&file).unwrap(), Picture { size: (3, 1), pixel: Pixel::RGB, bytes });

    let file = encode((2, 1), ColorType::Indexed, BitDepth::Eight, &[0, 2], |encoder| {
        encoder.set_palette(&palette[..]);
        encoder.set_trns(&[7u8][..]);
    });
    let bytes = vec![10, 20, 30, 7, 70, 80, 90, 255];
    let expected = Picture { size: (2, 1), pixel: pixel(Sample::U8, 4), bytes };
    assert_eq!(Picture::parse(&file).unwrap(), expected);
}

#[test]
fn words_are_big_endian_in_the_file() {
    let file = encode((1, 1), ColorType::GrayscaleAlpha, BitDepth::Sixteen, &[1, 2, 3, 4], |_| ());
    let expected = Picture { size: (1, 1), pixel: pixel(Sample::U16, 2), bytes: vec![2, 1, 4, 3] };
    assert_eq!(Picture::parse(&file).unwrap(), expected);
}

fn chunk(file: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    let mut crc = Crc::new();
    crc.update(name);
    crc.update(data);
    file.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    file.extend(name);
    file.extend(data);
    file.extend(crc.sum().to_be_bytes());
}

/// An interlaced picture of bytes: seven passes over coarser grids.
fn interlaced(picture: &Picture) -> Vec<u8> {
    let side = |side: u64| usize::try_from(side).unwrap();
    let (width, height) = (side(picture.size.0), side(picture.size.1));
    let mut data = ZlibEncoder::new(Vec::new(), Compression::default());
    let passes = [
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ];
    for (x0, y0, dx, dy) in passes {
        for y in (y0..height).step_by(dy).filter(|_| x0 < width) {
            data.write_all(&[0]).unwrap();
            for x in (x0..width).step_by(dx) {
                data.write_all(&[picture.bytes[y * width + x]]).unwrap();
            }
        }
    }
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut head = Vec::new();
    head.extend(u32::try_from(width).unwrap().to_be_bytes());
    head.extend(u32::try_from(height).unwrap().to_be_bytes());
    head.extend([8, 0, 0, 0, 1]);
    chunk(&mut file, b"IHDR", &head);
    chunk(&mut file, b"IDAT", &data.finish().unwrap());
    chunk(&mut file, b"IEND", &[]);
    file
}

#[test]
fn interlaced_pictures_are_read_if_they_fit_into_memory() {
    for size in [(1, 1), (3, 2), (8, 8), (33, 21), (4, 60)] {
        let picture = Picture::random(size, Pixel::GREY, 3);
        assert_eq!(Picture::parse(&interlaced(&picture)).unwrap(), picture);
    }
    let file = interlaced(&Picture::random((300, 300), Pixel::GREY, 4));
    let options = FormatOptions { memory_bytes: 80_000, ..FormatOptions::default() };
    let error = read_picture("laced.png", Cursor::new(file), &options).err().unwrap();
    assert!(matches!(error, FormatError::TooLarge { needed_bytes: 90_000, .. }), "{error}");
    assert!(error.to_string().contains("laced.png: an interlaced picture"), "{error}");
}

#[test]
fn a_damaged_file_says_in_which_row() {
    let mut file = encode((64, 64), ColorType::Grayscale, BitDepth::Eight, &[7; 4096], |_| ());
    let length = file.len();
    file.truncate(length - 8);
    let error = Picture::parse(&file).unwrap_err();
    assert!(error.to_string().contains("in row 63: the file ends too early"), "{error}");
}
