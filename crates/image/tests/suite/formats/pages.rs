//! TIFF files of several pages, and of wide numbers, as another library writes them.

use std::io::Cursor;

use pario_image::Sample;
use pario_image::formats::{FormatError, FormatOptions, VolumeSource, read_volume};
use tiff::encoder::TiffEncoder;
use tiff::encoder::colortype::{Gray8, Gray32, Gray64Float, GrayI16};
use tiff::tags::Tag;

use super::picture::{Picture, pixel};

fn volume(file: &[u8]) -> Result<VolumeSource, FormatError> {
    read_volume("pages.tif", Cursor::new(file.to_vec()), &FormatOptions::default())
}

fn pages(depth: i16) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut file).unwrap();
    for page in 0..depth {
        let plane: Vec<i16> = (0..6).map(|value| value - 1000 * page).collect();
        encoder.write_image::<GrayI16>(3, 2, &plane).unwrap();
    }
    file.into_inner()
}

#[test]
fn pages_are_the_planes_of_a_volume() {
    let found = volume(&pages(5)).unwrap();
    assert_eq!((found.size(), found.pixel()), ([3, 2, 5], pixel(Sample::I16, 1)));
    let expected: Vec<u8> = (0..5i16)
        .flat_map(|page| (0..6).map(move |value| value - 1000 * page))
        .flat_map(i16::to_le_bytes)
        .collect();
    assert_eq!(Picture::of(found.into_rows()).unwrap().bytes, expected);
}

#[test]
fn a_picture_of_many_pages_is_refused_and_the_volume_named() {
    let error = Picture::parse(&pages(5)).unwrap_err().to_string();
    assert!(error.contains("a TIFF of 5 pages") && error.contains("`pario volume import`"));
    assert_eq!(Picture::parse(&pages(1)).unwrap().size, (3, 2));
}

#[test]
fn smaller_copies_of_a_picture_are_no_pages() {
    let mut file = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut file).unwrap();
    encoder.write_image::<Gray8>(4, 2, &[9; 8]).unwrap();
    let mut copy = encoder.new_image::<Gray8>(2, 1).unwrap();
    copy.encoder().write_tag(Tag::NewSubfileType, 1u32).unwrap();
    copy.write_data(&[9; 2]).unwrap();
    let file = file.into_inner();
    assert_eq!(Picture::parse(&file).unwrap().size, (4, 2));
    assert_eq!(volume(&file).unwrap().size(), [4, 2, 1]);
}

#[test]
fn pages_that_differ_are_named() {
    let mut file = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut file).unwrap();
    encoder.write_image::<Gray8>(4, 2, &[9; 8]).unwrap();
    encoder.write_image::<Gray8>(2, 4, &[9; 8]).unwrap();
    let error = volume(file.get_ref()).unwrap_err().to_string();
    assert!(error.contains("pages.tif, page 2: is 2 x 4"), "{error}");
}

#[test]
fn a_loop_of_pages_is_damage() {
    let mut file = pages(2);
    // The offset of the next directory follows the entries of the last one: set it to the first.
    let first = u32::from_le_bytes(file[4..8].try_into().unwrap());
    let entries =
        |at: u32| u32::from(u16::from_le_bytes([file[at as usize], file[at as usize + 1]]));
    let next = |at: u32| at + 2 + 12 * entries(at);
    let place = next(first) as usize;
    let second = u32::from_le_bytes(file[place..place + 4].try_into().unwrap());
    let place = next(second) as usize;
    file[place..place + 4].copy_from_slice(&first.to_le_bytes());
    let error = volume(&file).unwrap_err().to_string();
    assert!(error.contains("is a loop"), "{error}");
}

#[test]
fn wide_numbers_become_floats_with_a_note() {
    let mut file = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut file).unwrap();
    encoder.write_image::<Gray32>(2, 1, &[7, 70_000]).unwrap();
    let found = volume(file.get_ref()).unwrap();
    assert!(found.notes()[0].starts_with("samples of u32 are stored as f32"));
    let floats = [7f32, 70_000.0].map(f32::to_le_bytes).concat();
    assert_eq!(Picture::of(found.into_rows()).unwrap().bytes, floats);

    let mut file = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut file).unwrap();
    encoder.write_image::<Gray64Float>(2, 1, &[0.5, -1e9]).unwrap();
    let found = Picture::parse(file.get_ref()).unwrap();
    assert_eq!(found.pixel, pixel(Sample::F32, 1));
    assert_eq!(found.bytes, [0.5f32, -1e9].map(f32::to_le_bytes).concat());
}
