//! PNM, PAM and PFM, byte by byte as their manuals say.

use std::fs;

use pario_image::formats::FormatError;
use pario_image::{Pixel, Sample};
use tempfile::tempdir;

use super::picture::{Picture, pixel};

fn words(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[track_caller]
fn check(file: &[u8], size: (u64, u64), pixel: Pixel, bytes: Vec<u8>) {
    assert_eq!(Picture::parse(file).unwrap(), Picture { size, pixel, bytes });
}

#[test]
fn bitmaps_have_black_ones() {
    let bytes = vec![0, 255, 255, 255, 0, 0];
    check(b"P1\n# a comment\n3 2\n1 0 0\n011", (3, 2), Pixel::GREY, bytes.clone());
    check(b"P1 3 2 100 # in between\n 0 1 1\n", (3, 2), Pixel::GREY, bytes.clone());
    check(b"P4\n3 2\n\x80\x60", (3, 2), Pixel::GREY, bytes);
    let nine = vec![255, 0, 255, 0, 255, 0, 255, 0, 0];
    check(b"P4 9 1\n\x55\x80", (9, 1), Pixel::GREY, nine);
}

#[test]
fn grey_and_colour_come_in_digits_and_in_bytes() {
    check(b"P2\n2 2\n255\n0 1\n 17\t255", (2, 2), Pixel::GREY, vec![0, 1, 17, 255]);
    check(b"P5 2 2 255\n\x00\x01\x11\xff", (2, 2), Pixel::GREY, vec![0, 1, 17, 255]);
    check(b"P3\n1 2\n255\n1 2 3\n4 5 6\n", (1, 2), Pixel::RGB, vec![1, 2, 3, 4, 5, 6]);
    check(
        b"P6\n#a\n1#b\n2\n255\n\x01\x02\x03\x04\x05\x06",
        (1, 2),
        Pixel::RGB,
        vec![1, 2, 3, 4, 5, 6],
    );
    let grey = pixel(Sample::U16, 1);
    check(b"P2 2 1 65535 258 65535 ", (2, 1), grey, words(&[258, 65_535]));
    check(b"P5 2 1 65535\n\x01\x02\xff\xff", (2, 1), grey, words(&[258, 65_535]));
}

#[test]
fn the_first_byte_of_pixels_may_look_like_space_or_a_comment() {
    check(b"P5 2 1 255\n\n#", (2, 1), Pixel::GREY, vec![b'\n', b'#']);
}

#[test]
fn other_largest_values_are_stretched() {
    check(b"P2 3 1 1 0 1 0", (3, 1), Pixel::GREY, vec![0, 255, 0]);
    check(b"P5 3 1 100\n\x00\x32\x64", (3, 1), Pixel::GREY, vec![0, 128, 255]);
    let grey = pixel(Sample::U16, 1);
    check(b"P5 2 1 256\n\x01\x00\x00\x80", (2, 1), grey, words(&[65_535, 32_768]));
}

#[test]
fn samples_above_the_largest_value_are_damage() {
    for file in [&b"P2 2 1 100 0 101"[..], b"P5 2 1 100\n\x00\x65", b"P2 1 1 255 70000"] {
        let error = Picture::parse(file).unwrap_err();
        assert!(error.to_string().contains("more than the largest value"), "{error}");
        assert!(error.to_string().contains("in row 0"), "{error}");
    }
}

#[test]
fn pam_has_any_number_of_channels() {
    let head = b"P7\nWIDTH 1\n# a comment\nHEIGHT 2\nDEPTH 2\nMAXVAL 255\nTUPLTYPE GRAYSCALE_ALPHA\nENDHDR\n";
    let file = [&head[..], &[1, 2, 3, 4]].concat();
    check(&file, (1, 2), pixel(Sample::U8, 2), vec![1, 2, 3, 4]);
    let file =
        b"P7\nMAXVAL 65535\nDEPTH 4\nHEIGHT 1\nWIDTH 1\nENDHDR\n\x00\x01\x02\x03\x04\x05\x06\x07";
    check(file, (1, 1), pixel(Sample::U16, 4), words(&[1, 0x203, 0x405, 0x607]));
    let file =
        b"P7\nMAXVAL 1\nDEPTH 1\nHEIGHT 1\nWIDTH 2\nTUPLTYPE BLACKANDWHITE\nENDHDR\n\x00\x01";
    check(file, (2, 1), Pixel::GREY, vec![0, 255]);
}

#[test]
fn pfm_begins_with_the_lowest_row() {
    let grey = pixel(Sample::F32, 1);
    let little = [&b"Pf\n1 2\n-1.0\n"[..], &floats(&[3.5, -0.25])].concat();
    check(&little, (1, 2), grey, floats(&[-0.25, 3.5]));
    let big: Vec<u8> = [3.5f32, -0.25].iter().flat_map(|value| value.to_be_bytes()).collect();
    check(&[&b"Pf 1 2 1\n"[..], &big].concat(), (1, 2), grey, floats(&[-0.25, 3.5]));
    let colour = [&b"PF\n1 1\n-2\n"[..], &floats(&[1.0, 2.0, 3.0])].concat();
    check(&colour, (1, 1), pixel(Sample::F32, 3), floats(&[1.0, 2.0, 3.0]));
}

#[test]
fn headers_that_make_no_sense_are_damage() {
    let files: [&[u8]; 18] = [
        b"P5",
        b"P5 ",
        b"P5 3",
        b"P5 0 3 255\n",
        b"P5 3 0 255\n",
        b"P5 -3 3 255\n",
        b"P5 3 3 0\n",
        b"P5 3 3 65536\n",
        b"P5 three 3 255\n",
        b"P5 99999999999999999999999999 1 255\n",
        b"P5 18446744073709551615 18446744073709551615 255\n",
        b"P5 3 3 # no end",
        b"P5 3 3\x00255\n",
        b"Pf 1 1 0\n\x00\x00\x00\x00",
        b"Pf 1 1 nan\n\x00\x00\x00\x00",
        b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nENDHDR\n\x00",
        b"P7\nWIDTH 1\nSIZE 1\nENDHDR\n\x00",
        b"P1 2 2 01 21",
    ];
    for file in files {
        let error = Picture::parse(file).unwrap_err();
        let text = String::from_utf8_lossy(file);
        let known = matches!(error, FormatError::Damaged { .. } | FormatError::Unsupported { .. });
        assert!(known, "{text}: {error}");
        assert!(error.to_string().starts_with("picture: "), "{error}");
    }
    let error = Picture::parse(b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 5\nMAXVAL 9\nENDHDR\n").unwrap_err();
    assert!(error.to_string().contains("1 to 4 channels, not 5"), "{error}");
}

#[test]
fn sizes_beyond_the_file_or_memory_take_no_memory() {
    let error = Picture::parse(b"P5 60000 40000 255\n").unwrap_err();
    assert!(matches!(error, FormatError::Short { needed_bytes: 2_400_000_019, .. }), "{error}");
    let error = Picture::parse(b"P2 9999999999 1 255\n").unwrap_err();
    assert!(matches!(error, FormatError::TooLarge { .. }), "{error}");
}

#[test]
fn files_are_written_as_the_manuals_say() {
    let dir = tempdir().unwrap();
    let written = |ending: &str, size, pixel, bytes: Vec<u8>| {
        let path = dir.path().join(format!("picture.{ending}"));
        Picture { size, pixel, bytes }.write(&path).unwrap();
        fs::read(&path).unwrap()
    };
    let grey = written("pgm", (2, 1), pixel(Sample::U16, 1), words(&[1, 0x203]));
    assert_eq!(grey, b"P5\n2 1\n65535\n\x00\x01\x02\x03");
    assert_eq!(written("ppm", (1, 1), Pixel::RGB, vec![1, 2, 3]), b"P6\n1 1\n255\n\x01\x02\x03");
    assert_eq!(
        written("pam", (1, 1), pixel(Sample::U8, 4), vec![1, 2, 3, 4]),
        b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n\x01\x02\x03\x04"
    );
    let float = written("pfm", (1, 2), pixel(Sample::F32, 1), floats(&[1.0, 2.0]));
    assert_eq!(float, [&b"Pf\n1 2\n-1.0\n"[..], &floats(&[2.0, 1.0])].concat());
}
