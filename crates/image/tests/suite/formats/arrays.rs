//! NumPy arrays, made by hand as `np.save` makes them.

use std::io::Cursor;

use pario_image::Sample;
use pario_image::formats::{FormatError, FormatOptions, VolumeSource, read_volume};

use super::picture::{Picture, pixel};

/// A file of version 1 with a header that is padded to a multiple of 64.
fn saved(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), data].concat()
}

fn volume(file: &[u8]) -> Result<VolumeSource, FormatError> {
    read_volume("a.npy", Cursor::new(file.to_vec()), &FormatOptions::default())
}

#[test]
fn an_array_of_three_axes_is_a_volume() {
    let data: Vec<u8> = (0..24i16).flat_map(|value| (value - 12).to_le_bytes()).collect();
    let found = volume(&saved("<i2", "False", "(2, 3, 4)", &data)).unwrap();
    assert_eq!((found.size(), found.pixel()), ([4, 3, 2], pixel(Sample::I16, 1)));
    assert!(found.notes().is_empty());
    assert_eq!(Picture::of(found.into_rows()).unwrap().bytes, data);

    let colours = volume(&saved("|u1", "False", "(2, 2, 2, 3)", &[7; 24])).unwrap();
    assert_eq!((colours.size(), colours.pixel()), ([2, 2, 2], pixel(Sample::U8, 3)));
}

#[test]
fn an_array_of_two_axes_or_with_channels_is_a_picture() {
    let grey = saved(">f4", "False", "(1, 2)", &[1.5f32, -2.0].map(f32::to_be_bytes).concat());
    let picture = Picture::parse(&grey).unwrap();
    assert_eq!((picture.size, picture.pixel), ((2, 1), pixel(Sample::F32, 1)));
    assert_eq!(picture.bytes, [1.5f32, -2.0].map(f32::to_le_bytes).concat());
    let colours = Picture::parse(&saved("|u1", "False", "(2, 3, 4)", &[9; 24])).unwrap();
    assert_eq!((colours.size, colours.pixel), ((3, 2), pixel(Sample::U8, 4)));
}

#[test]
fn wide_numbers_become_floats_with_a_note() {
    let data = [-3i64, 1 << 20].map(i64::to_le_bytes).concat();
    let found = volume(&saved("<i8", "False", "(1, 1, 2)", &data)).unwrap();
    assert_eq!(found.pixel(), pixel(Sample::F32, 1));
    let note = "samples of i64 are stored as f32: whole numbers above 16,777,216 are rounded";
    assert_eq!(found.notes(), [note]);
    let floats = [-3f32, 1_048_576.0].map(f32::to_le_bytes).concat();
    assert_eq!(Picture::of(found.into_rows()).unwrap().bytes, floats);
}

#[test]
fn unsupported_arrays_say_what_to_do() {
    let text = |file: &[u8]| volume(file).unwrap_err().to_string();
    let fortran = text(&saved("<i2", "True", "(2, 3, 4)", &[0; 48]));
    assert!(fortran.contains("np.ascontiguousarray"), "{fortran}");
    let complex = text(&saved("<c8", "False", "(2, 3, 4)", &[0; 192]));
    assert!(complex.contains("\"<c8\"") && complex.contains("astype"), "{complex}");
    let line = text(&saved("<i2", "False", "(5,)", &[0; 10]));
    assert!(line.contains("[5] is not a volume") && line.contains("(z, y, x)"), "{line}");
    let short = text(&saved("<i2", "False", "(2, 3, 4)", &[0; 47]));
    assert!(short.contains("has 175 bytes, 176 are needed"), "{short}");
    let long = text(&saved("<i2", "False", "(2, 3, 4)", &[0; 49]));
    assert!(long.contains("has 177 bytes, 176 are needed"), "{long}");
    let huge = text(&saved("<f8", "False", "(9999999999, 9999999999, 9999999999)", &[]));
    assert!(huge.contains("a.npy"), "{huge}");
    for end in 0..140 {
        let file = saved("<i2", "False", "(2, 3, 4)", &[0; 48]);
        assert!(volume(&file[..end]).is_err());
    }
}
