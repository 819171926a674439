//! Every format reads back what it wrote, byte by byte, and rejects what it cannot hold.

use std::fs;
use std::io::{self, Seek, SeekFrom, Write};

use pario_image::formats::{
    ByteOrder, FormatError, FormatOptions, PngSink, PnmKind, PnmSink, RawLayout, RawSink, RowSink,
    VolumeSource, create_picture, nrrd_sink, tiff_sink,
};
use pario_image::{Pixel, Sample};
use proptest::prelude::*;
use tempfile::tempdir;

use super::picture::{Picture, all_pixels, pixel};

/// Whether files with this extension can have such pixels.
fn holds(ending: &str, pixel: Pixel) -> bool {
    let float = pixel.sample() == Sample::F32;
    let unsigned = matches!(pixel.sample(), Sample::U8 | Sample::U16);
    match ending {
        "png" | "pam" => unsigned,
        "pgm" => unsigned && pixel.channels() == 1,
        "ppm" => unsigned && pixel.channels() == 3,
        "pfm" => float && pixel.channels() % 2 == 1,
        "pnm" => unsigned || float && pixel.channels() % 2 == 1,
        "tif" | "TIFF" | "nrrd" => true,
        ending => panic!("{ending} is not tested"),
    }
}

const ENDINGS: [&str; 9] = ["png", "pam", "pgm", "ppm", "pfm", "pnm", "tif", "TIFF", "nrrd"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

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
            let layout = RawLayout { size, pixel: pixel.into(), order, skip_bytes };
            let options = FormatOptions::default();
            let volume = VolumeSource::raw(&path, &layout, [1.0; 3], &options).unwrap();
            prop_assert_eq!(volume.size(), size);
            prop_assert!(Picture::of(volume.into_rows()).unwrap() == picture);

            fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
            let error = VolumeSource::raw(&path, &layout, [1.0; 3], &options).unwrap_err();
            prop_assert!(matches!(error, FormatError::Short { .. }), "{}", error);

            let longer = [&bytes[..], &[7]].concat();
            fs::write(&path, &longer).unwrap();
            let error = VolumeSource::raw(&path, &layout, [1.0; 3], &options).unwrap_err();
            let lengths = format!("has {} bytes, {} are needed", longer.len(), bytes.len());
            prop_assert!(error.to_string().contains(&lengths), "{}", error);
            prop_assert!(matches!(error, FormatError::Long { .. }), "{}", error);
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
            fs::write(&path, "precious").unwrap();
            let Err(error) = create_picture(&path, 3, 3, pixel) else {
                panic!("{ending} of {pixel} was not refused")
            };
            let text = error.to_string();
            assert!(text.contains("picture.") && text.contains("TIFF"), "{text}");
            assert_eq!(fs::read(&path).unwrap(), b"precious");
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

/// An output with space for a limited number of bytes.
struct Disk {
    left: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match bytes.len().min(self.left) {
            0 if !bytes.is_empty() => Err(io::ErrorKind::StorageFull.into()),
            taken => {
                self.left -= taken;
                Ok(taken)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Disk {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Ok(0)
    }
}

type Make = fn(Disk) -> Result<Box<dyn RowSink>, FormatError>;

#[test]
fn every_format_reports_a_disk_that_is_full_at_any_byte() {
    const SIZE: (u64, u64) = (8, 3);
    let makes: [Make; 6] = [
        |disk| Ok(Box::new(PngSink::new("full", disk, SIZE, Pixel::GREY)?)),
        |disk| Ok(Box::new(tiff_sink("full", disk, SIZE, Pixel::GREY)?)),
        |disk| Ok(Box::new(PnmSink::new("full", disk, PnmKind::Pgm, SIZE, Pixel::GREY)?)),
        |disk| {
            let size = (2, 3);
            Ok(Box::new(PnmSink::new("full", disk, PnmKind::Pfm, size, pixel(Sample::F32, 1))?))
        },
        |disk| Ok(Box::new(nrrd_sink("full", disk, [8, 3, 1], [1.0; 3], Pixel::GREY)?)),
        |disk| Ok(Box::new(RawSink::new("full", disk, SIZE, Pixel::GREY)?)),
    ];
    for make in makes {
        let write = |left| {
            let mut sink = make(Disk { left })?;
            (0..SIZE.1).try_for_each(|_| sink.put_row(&[7; 8]))?;
            sink.finish()
        };
        let needed = (0..1_000).find(|bytes| write(*bytes).is_ok()).expect("it fits");
        assert!(needed >= 24);
        // A disk that is large enough succeeds; every smaller one reports an error.
        assert!((needed..1_000).all(|bytes| write(bytes).is_ok()));
        let error = write(needed - 1).unwrap_err();
        assert!(matches!(error, FormatError::Io { action: "write", .. }), "{error}");
    }
}

#[test]
fn a_file_is_as_long_as_the_disk_it_needs() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("picture.png");
    let picture = Picture { size: (8, 3), pixel: Pixel::GREY, bytes: vec![7; 24] };
    picture.write(&path).unwrap();
    let length = usize::try_from(fs::metadata(&path).unwrap().len()).unwrap();
    let write = |left| {
        let mut sink = Box::new(PngSink::new("full", Disk { left }, picture.size, Pixel::GREY)?);
        picture.rows().try_for_each(|row| sink.put_row(row))?;
        sink.finish()
    };
    assert!(write(length).is_ok());
    // The last bytes are written when the encoder is dropped.
    assert!(write(length - 1).is_err() && write(length - 12).is_err());
}
