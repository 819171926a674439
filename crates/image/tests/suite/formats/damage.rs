//! Truncated files and files with flipped bits: an error or pixels, never a panic, never much
//! memory.

use std::fs;
use std::io::Cursor;

use fastrand::Rng;
use pario_image::formats::{FormatError, FormatOptions, read_volume};
use pario_image::{Pixel, Sample};
use tempfile::tempdir;

use super::picture::{Picture, pixel};
use super::tiff_files::{PLAIN, TiffVariant};

/// Reads all pixels with little memory.
fn read(bytes: &[u8]) -> Result<Vec<u8>, FormatError> {
    let options = FormatOptions { memory_bytes: 1 << 20, ..FormatOptions::default() };
    let mut volume = read_volume("damaged", Cursor::new(bytes.to_vec()), &options)?;
    let [width, height, depth] = volume.size();
    let row_bytes = usize::try_from(width).unwrap() * volume.pixel().bytes();
    assert!(row_bytes <= options.memory_bytes);
    let mut row = vec![0; row_bytes];
    let mut pixels = Vec::new();
    for _ in 0..height * depth {
        volume.next_row(&mut row)?;
        pixels.extend_from_slice(&row);
    }
    Ok(pixels)
}

/// Files of every format, with the number of bytes at the end that do not matter.
fn files() -> Vec<(&'static str, Vec<u8>, usize)> {
    let dir = tempdir().unwrap();
    let mut files = Vec::new();
    let mut colours = Picture::random((13, 9), pixel(Sample::U16, 3), 1);
    colours.bytes.iter_mut().for_each(|byte| *byte /= 50);
    for ending in ["png", "ppm", "pam", "tif", "nrrd"] {
        let path = dir.path().join(format!("picture.{ending}"));
        colours.write(&path).unwrap();
        files.push((ending, fs::read(&path).unwrap(), 0));
    }
    let floats = Picture::random((5, 4), pixel(Sample::F32, 1), 2);
    let path = dir.path().join("picture.pfm");
    floats.write(&path).unwrap();
    files.push(("pfm", fs::read(&path).unwrap(), 0));
    files.push(("digits", b"P3\n# colours\n2 2\n255\n1 2 3 4 5 6\n7 8 9 10 11 12\n".to_vec(), 2));
    files.push(("bits", b"P1\n3 3\n1 0 1\n0 1 0\n111\n".to_vec(), 1));
    files.push(("packed bits", b"P4\n9 2\n\x55\x80\xaa\x00".to_vec(), 0));
    let tiles = TiffVariant { tile: Some((16, 16)), ..PLAIN };
    let variants = [
        ("lzw", TiffVariant { compression: 5, predictor: 2, ..PLAIN }),
        ("deflate", TiffVariant { compression: 8, bigtiff: true, big_endian: true, ..tiles }),
        ("packbits", TiffVariant { compression: 32_773, planar: true, ..tiles }),
    ];
    // A BigTIFF may end with the offset of a next page, which is not read.
    let spare = |variant: TiffVariant| if variant.bigtiff { 8 } else { 0 };
    files.extend(variants.map(|(name, variant)| (name, variant.file(&colours), spare(variant))));
    let variant = TiffVariant { compression: 8, predictor: 3, ..PLAIN };
    files.push(("float tiff", variant.file(&floats), 0));
    files
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    for (name, file, spare) in files() {
        assert!(read(&file).is_ok(), "{name}");
        for length in 0..file.len() - spare {
            let error = read(&file[..length]).expect_err(name);
            let text = error.to_string();
            assert!(text.starts_with("damaged: "), "{name} cut at {length}: {text}");
            let damage = matches!(
                error,
                FormatError::Damaged { .. }
                    | FormatError::Short { .. }
                    | FormatError::Unsupported { .. }
            );
            assert!(damage, "{name} cut at {length}: {text}");
        }
    }
}

#[test]
fn a_bit_flipped_anywhere_is_an_error_or_pixels() {
    for (name, file, _) in files() {
        let whole = read(&file).unwrap();
        let mut refused = 0;
        for bit in 0..file.len() * 8 {
            let mut file = file.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            match read(&file) {
                // A PNG has checksums: the pixels are right or it is rejected.
                Ok(pixels) => assert!(name != "png" || pixels == whole, "bit {bit} of PNG"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 0, "{name}");
    }
}

#[test]
fn random_changes_are_errors_or_pixels() {
    let mut rng = Rng::with_seed(21);
    for (_, file, _) in files() {
        for _ in 0..3_000 {
            let mut file = file.clone();
            for _ in 0..rng.usize(1..6) {
                let at = rng.usize(..file.len());
                file[at] = if rng.bool() { rng.u8(..) } else { 255 };
            }
            let _ = read(&file);
        }
    }
}

#[test]
fn bytes_that_only_begin_as_a_picture_are_errors_or_pixels() {
    let mut rng = Rng::with_seed(22);
    let heads: [&[u8]; 9] = [
        b"",
        b"P5 ",
        b"P7\n",
        b"NRRD0004\n",
        b"II*\0\x08\0\0\0",
        b"MM\0*\0\0\0\x08",
        b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0",
        b"\x89PNG\r\n\x1a\n",
        b"Pf 4 4 ",
    ];
    for head in heads {
        for _ in 0..2_000 {
            let mut file = head.to_vec();
            file.extend((0..rng.usize(..200)).map(|_| rng.u8(..)));
            let _ = read(&file);
        }
    }
}

#[test]
fn gzip_data_cut_or_changed_is_an_error() {
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    let picture = Picture::random((16, 16), Pixel::GREY, 3);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&picture.bytes).unwrap();
    let data = encoder.finish().unwrap();
    let head = b"NRRD0004\ntype: uint8\ndimension: 2\nsizes: 16 16\nencoding: gzip\n\n";
    let file = [&head[..], &data].concat();
    assert_eq!(read(&file).unwrap(), picture.bytes);
    // The last eight bytes are the checksum and the length.
    for length in 0..file.len() - 8 {
        assert!(read(&file[..length]).is_err(), "cut at {length}");
    }
    for at in 0..file.len() {
        let mut file = file.clone();
        file[at] ^= 0x10;
        let _ = read(&file);
    }
}
