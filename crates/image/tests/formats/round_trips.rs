//! What was written is read back, byte by byte; what a format cannot hold is refused.

use std::fs;

use pario_image::formats::{ByteOrder, VolumeSource};
use pario_image::formats::{FormatError, OpenOptions, RawLayout, create_picture};
use pario_image::{Pixel, Sample};
use proptest::prelude::*;
use tempfile::tempdir;

use crate::pictures::{Picture, all_pixels, pixel};

/// Whether names with this ending can have such pixels.
fn holds(ending: &str, pixel: Pixel) -> bool {
    let float = pixel.sample() == Sample::F32;
    match ending {
        "png" | "pam" => !float,
        "pgm" => !float && pixel.channels() == 1,
        "ppm" => !float && pixel.channels() == 3,
        "pfm" => float && pixel.channels() % 2 == 1,
        "pnm" => !float || pixel.channels() % 2 == 1,
        "tif" | "TIFF" | "nrrd" => true,
        ending => panic!("{ending} is not tested"),
    }
}

const ENDINGS: [&str; 9] = ["png", "pam", "pgm", "ppm", "pfm", "pnm", "tif", "TIFF", "nrrd"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_format_gives_back_what_it_was_given(
        width in 1u64..70,
        height in 1u64..40,
        seed: u64,
    ) {
        let dir = tempdir().unwrap();
        for pixel in all_pixels() {
            let picture = Picture::random((width, height), pixel, seed);
            for ending in ENDINGS.into_iter().filter(|ending| holds(ending, pixel)) {
                let path = dir.path().join(format!("picture.{ending}"));
                picture.write(&path).unwrap();
                prop_assert!(Picture::read(&path).unwrap() == picture, "{ending} of {pixel}");
            }
        }
    }

    #[test]
    fn raw_pixels_are_what_the_caller_says(
        size in (1u64..20, 1u64..20, 1u64..6),
        skip_bytes in 0u64..50,
        seed: u64,
        big: bool,
    ) {
        let dir = tempdir().unwrap();
        let path = dir.path().join("voxels.raw");
        for pixel in all_pixels() {
            let picture = Picture::random((size.0, size.1 * size.2), pixel, seed);
            let mut bytes = vec![7; usize::try_from(skip_bytes).unwrap()];
            let sample = pixel.sample().bytes();
            for value in picture.bytes.chunks(sample) {
                let order: Vec<u8> = match big {
                    true => value.iter().rev().copied().collect(),
                    false => value.to_vec(),
                };
                bytes.extend(order);
            }
            fs::write(&path, &bytes).unwrap();
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let size = [size.0, size.1, size.2];
            let layout = RawLayout { size, pixel, order, skip_bytes };
            let options = OpenOptions::default();
            let volume = VolumeSource::raw(&path, &layout, [1.0; 3], &options).unwrap();
            prop_assert_eq!(volume.size(), size);
            prop_assert!(Picture::of(volume.into_rows()).unwrap() == picture);

            fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
            let error = VolumeSource::raw(&path, &layout, [1.0; 3], &options).unwrap_err();
            prop_assert!(matches!(error, FormatError::Short { .. }), "{}", error);
        }
    }
}

#[test]
fn raw_is_written_without_a_header() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("picture.raw");
    let picture = Picture::random((9, 4), pixel(Sample::U16, 3), 1);
    picture.write(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), picture.bytes);
}

#[test]
fn what_a_format_cannot_hold_is_refused_by_name() {
    let dir = tempdir().unwrap();
    for pixel in all_pixels() {
        for ending in ENDINGS.into_iter().filter(|ending| !holds(ending, pixel)) {
            let path = dir.path().join(format!("picture.{ending}"));
            let Err(error) = create_picture(&path, 3, 3, pixel) else {
                panic!("{ending} of {pixel} was not refused")
            };
            let text = error.to_string();
            assert!(text.contains("picture.") && text.contains("TIFF"), "{text}");
        }
    }
    let error = create_picture(&dir.path().join("picture.jpg"), 3, 3, Pixel::GREY).err().unwrap();
    assert!(error.to_string().contains("\"jpg\""), "{error}");
    let error = create_picture(&dir.path().join("none/a.png"), 3, 3, Pixel::GREY).err().unwrap();
    assert!(matches!(error, FormatError::Io { action: "create", .. }), "{error}");
}

#[test]
fn rows_of_a_wrong_length_or_number_are_refused() {
    let dir = tempdir().unwrap();
    for ending in ["png", "pgm", "pam", "tif", "nrrd", "raw"] {
        let path = dir.path().join(format!("picture.{ending}"));
        for (width, height) in [(0, 3), (3, 0), (u64::MAX, 2)] {
            let error = create_picture(&path, width, height, Pixel::GREY).err().unwrap();
            assert!(matches!(error, FormatError::Misuse { .. }), "{ending}: {error}");
        }

        let mut sink = create_picture(&path, 4, 1, Pixel::GREY).unwrap();
        let error = sink.put_row(&[0; 5]).unwrap_err();
        assert!(error.to_string().contains("a row has 4 bytes, not 5"), "{error}");
        sink.put_row(&[0; 4]).unwrap();
        assert!(matches!(sink.put_row(&[0; 4]), Err(FormatError::Misuse { .. })));
        sink.finish().unwrap();

        let mut sink = create_picture(&path, 4, 2, Pixel::GREY).unwrap();
        sink.put_row(&[0; 4]).unwrap();
        let error = sink.finish().unwrap_err();
        assert!(error.to_string().contains("only 1 of 2 rows"), "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_by_every_format() {
    use pario_image::formats::{NrrdSink, PngSink, PnmKind, PnmSink, RawSink, RowSink, TiffSink};
    use std::fs::File;
    use std::io::BufWriter;

    let full = || BufWriter::with_capacity(1 << 20, File::create("/dev/full").unwrap());
    let (size, grey) = ((8, 1), Pixel::GREY);
    let sinks: [Box<dyn RowSink>; 5] = [
        Box::new(PngSink::new("full", full(), size, grey).unwrap()),
        Box::new(TiffSink::new("full", full(), size, grey).unwrap()),
        Box::new(PnmSink::new("full", full(), PnmKind::Pgm, size, grey).unwrap()),
        Box::new(NrrdSink::new("full", full(), [8, 1, 1], [1.0; 3], grey).unwrap()),
        Box::new(RawSink::new("full", full(), size, grey).unwrap()),
    ];
    for mut sink in sinks {
        sink.put_row(&[0; 8]).unwrap();
        assert!(matches!(sink.finish(), Err(FormatError::Io { action: "write", .. })));
    }
}
