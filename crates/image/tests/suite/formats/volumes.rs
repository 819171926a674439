//! Stacks of pictures.

use std::cmp::Ordering;
use std::path::PathBuf;

use pario_image::formats::{FormatError, FormatOptions, open_volume};
use pario_image::formats::{PictureStack, VolumeSource, natural_order};
use pario_image::{Pixel, Sample};
use proptest::prelude::*;
use tempfile::{TempDir, tempdir};

use super::picture::{Picture, pixel};

const SIZE: (u64, u64) = (7, 5);

/// Pictures of these names, each with its own seed.
fn directory(names: &[&str]) -> (TempDir, Vec<PathBuf>) {
    let dir = tempdir().unwrap();
    let paths: Vec<PathBuf> = names.iter().map(|name| dir.path().join(name)).collect();
    for (seed, path) in (0..).zip(&paths) {
        Picture::random(SIZE, Pixel::RGB, seed).write(path).unwrap();
    }
    (dir, paths)
}

/// The planes of these seeds, one below the other.
fn planes(seeds: &[u64]) -> Vec<u8> {
    seeds.iter().flat_map(|seed| Picture::random(SIZE, Pixel::RGB, *seed).bytes).collect()
}

#[test]
fn a_directory_is_a_volume_in_natural_order() {
    let (dir, paths) = directory(&["img10.png", "img9.tif", "img1.ppm", "img011.nrrd"]);
    std::fs::write(dir.path().join(".hidden"), "not a picture").unwrap();
    let expected = planes(&[2, 1, 0, 3]);
    for given in [vec![dir.path().to_owned()], paths] {
        let volume = open_volume(&given, &FormatOptions::default()).unwrap();
        assert_eq!((volume.size(), volume.pixel()), ([7, 5, 4], Pixel::RGB));
        assert!(Picture::of(volume.into_rows()).unwrap().bytes == expected);
    }
}

#[test]
fn one_picture_is_a_volume_of_one_plane() {
    let (_dir, paths) = directory(&["img.png"]);
    let volume = open_volume(&paths, &FormatOptions::default()).unwrap();
    assert_eq!(volume.size(), [7, 5, 1]);
    assert!(Picture::of(volume.into_rows()).unwrap().bytes == planes(&[0]));
}

#[test]
fn a_stack_keeps_the_order_and_the_distances_it_is_given() {
    let (_dir, paths) = directory(&["b.png", "a.png"]);
    let stack = PictureStack::open(paths, &FormatOptions::default()).unwrap();
    let volume = VolumeSource::stack(stack, [0.5, 0.5, 2.0]);
    assert_eq!((volume.size(), volume.spacing()), ([7, 5, 2], [0.5, 0.5, 2.0]));
    assert!(Picture::of(volume.into_rows()).unwrap().bytes == planes(&[0, 1]));
}

#[test]
fn a_picture_that_differs_is_named_with_how() {
    let (_dir, paths) = directory(&["a1.png", "a2.png", "a3.png"]);
    Picture::random((7, 6), Pixel::RGB, 0).write(&paths[2]).unwrap();
    let error = open_volume(&paths, &FormatOptions::default()).unwrap_err().to_string();
    let both = error.contains("a3.png: is 7 x 6 of 3 x u8") && error.contains("a1.png");
    assert!(both && error.contains("is 7 x 5 of 3 x u8"), "{error}");

    Picture::random(SIZE, pixel(Sample::U16, 3), 0).write(&paths[1]).unwrap();
    let error = open_volume(&paths, &FormatOptions::default()).unwrap_err().to_string();
    assert!(error.contains("a2.png: is 7 x 5 of 3 x u16"), "{error}");
}

#[test]
fn a_picture_that_changes_while_the_stack_is_read_is_found() {
    let (_dir, paths) = directory(&["a1.ppm", "a2.ppm"]);
    let mut volume = open_volume(&paths, &FormatOptions::default()).unwrap();
    Picture::random((6, 5), Pixel::RGB, 0).write(&paths[1]).unwrap();
    let mut row = [0; 21];
    for _ in 0..5 {
        volume.next_row(&mut row).unwrap();
    }
    assert!(matches!(volume.next_row(&mut row), Err(FormatError::Differs { .. })));
}

#[test]
fn files_that_are_not_pictures_are_named() {
    let (dir, paths) = directory(&["a1.png"]);
    std::fs::write(dir.path().join("notes.txt"), "hello there").unwrap();
    let error = open_volume(&[dir.path().to_owned()], &FormatOptions::default()).unwrap_err();
    assert!(error.to_string().contains("notes.txt: its format is not known"), "{error}");

    std::fs::write(&paths[0], "hello there").unwrap();
    let error = open_volume(&paths, &FormatOptions::default()).unwrap_err();
    assert!(error.to_string().contains("does not begin as PNG does"), "{error}");
    std::fs::write(&paths[0], "").unwrap();
    let error = open_volume(&paths, &FormatOptions::default()).unwrap_err();
    assert!(error.to_string().contains("the file is empty"), "{error}");

    let empty = tempdir().unwrap();
    let error = open_volume(&[empty.path().to_owned()], &FormatOptions::default()).unwrap_err();
    assert!(error.to_string().contains("no files in this directory"), "{error}");
    assert!(open_volume(&[], &FormatOptions::default()).is_err());
    let missing = empty.path().join("missing.png");
    let error = open_volume(&[missing], &FormatOptions::default()).unwrap_err();
    assert!(matches!(error, FormatError::Io { action: "open", .. }), "{error}");
}

#[test]
fn numbers_in_names_are_ordered_as_numbers() {
    let ordered = ["a", "a1", "a01", "a2", "a10", "a10b", "a11", "ab", "b", "é1", "é2"];
    for (i, a) in ordered.iter().enumerate() {
        for (j, b) in ordered.iter().enumerate() {
            // Leading zeros only decide between names that are otherwise the same.
            if !matches!((*a, *b), ("a1", "a01") | ("a01", "a1")) {
                assert_eq!(natural_order(a, b), i.cmp(&j), "{a} {b}");
            }
        }
    }
}

proptest! {
    #[test]
    fn natural_order_is_an_order(a in "[a01é]{0,6}", b in "[a01é]{0,6}", c in "[a01é]{0,6}") {
        prop_assert_eq!(natural_order(&a, &b), natural_order(&b, &a).reverse());
        prop_assert_eq!(natural_order(&a, &b) == Ordering::Equal, a == b);
        if natural_order(&a, &b).is_le() && natural_order(&b, &c).is_le() {
            prop_assert!(natural_order(&a, &c).is_le());
        }
    }

    #[test]
    fn numbers_in_names_keep_their_order(a: u32, b: u32) {
        let order = natural_order(&format!("img{a}.png"), &format!("img{b}.png"));
        prop_assert_eq!(order, a.cmp(&b));
    }
}
