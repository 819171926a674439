//! NIfTI files, made by hand: plain and gzip, in both byte orders, with slope and intercept.

use std::io::{Cursor, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use pario_image::Sample;
use pario_image::formats::{FormatError, FormatOptions, VolumeSource, read_volume};

use super::picture::{Picture, pixel};

/// The header fields that the tests set.
#[derive(Clone)]
struct Header {
    big: bool,
    dim: [i16; 8],
    datatype: i16,
    bits: i16,
    pixdim: [f32; 8],
    scale: (f32, f32),
    units: u8,
}

const HEADER: Header = Header {
    big: false,
    dim: [3, 3, 2, 2, 1, 1, 1, 1],
    datatype: 4,
    bits: 16,
    pixdim: [1.0, 0.5, -0.5, 2.0, 0.0, 0.0, 0.0, 0.0],
    scale: (0.0, 0.0),
    units: 2,
};

impl Header {
    fn file(&self, data: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 352];
        let mut put = |at: usize, bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            if self.big {
                bytes.reverse();
            }
            file[at..at + bytes.len()].copy_from_slice(&bytes);
        };
        put(0, &348i32.to_le_bytes());
        for (number, side) in self.dim.iter().enumerate() {
            put(40 + 2 * number, &side.to_le_bytes());
        }
        put(70, &self.datatype.to_le_bytes());
        put(72, &self.bits.to_le_bytes());
        for (number, length) in self.pixdim.iter().enumerate() {
            put(76 + 4 * number, &length.to_le_bytes());
        }
        put(108, &352f32.to_le_bytes());
        put(112, &self.scale.0.to_le_bytes());
        put(116, &self.scale.1.to_le_bytes());
        put(123, &[self.units]);
        file[344..348].copy_from_slice(b"n+1\0");
        file.extend(data);
        file
    }
}

fn packed(file: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(file).unwrap();
    encoder.finish().unwrap()
}

fn volume(file: &[u8]) -> Result<VolumeSource, FormatError> {
    read_volume("a.nii", Cursor::new(file.to_vec()), &FormatOptions::default())
}

fn values(volume: VolumeSource) -> Vec<f64> {
    let sample = volume.pixel().sample();
    let bytes = Picture::of(volume.into_rows()).unwrap().bytes;
    bytes.chunks(sample.bytes()).map(|bytes| sample.value(bytes)).collect()
}

#[test]
fn plain_and_packed_files_in_both_orders_are_volumes() {
    let expected: Vec<f64> = (0..12).map(|value| f64::from(value * 100 - 500)).collect();
    for big in [false, true] {
        let data: Vec<u8> = (0..12i16)
            .map(|value| value * 100 - 500)
            .flat_map(|value| if big { value.to_be_bytes() } else { value.to_le_bytes() })
            .collect();
        let file = Header { big, ..HEADER }.file(&data);
        for file in [file.clone(), packed(&file)] {
            let found = volume(&file).unwrap();
            assert_eq!((found.size(), found.pixel()), ([3, 2, 2], pixel(Sample::I16, 1)));
            assert_eq!((found.spacing(), found.notes()), ([0.5, 0.5, 2.0], vec![]));
            assert_eq!(values(found), expected);
        }
    }
}

#[test]
fn slope_and_intercept_make_physical_values() {
    let data: Vec<u8> = (0..12i16).flat_map(|value| (value * 100).to_le_bytes()).collect();
    let whole = Header { scale: (1.0, -1024.0), ..HEADER }.file(&data);
    for file in [whole.clone(), packed(&whole)] {
        let found = volume(&file).unwrap();
        assert_eq!(found.pixel(), pixel(Sample::I16, 1));
        let note = "samples of i16 are stored as i16: value = 1 * sample + -1024";
        assert_eq!(found.notes(), [note]);
        assert_eq!(values(found)[..2], [-1024.0, -924.0]);
    }
    let found = volume(&Header { scale: (0.5, 1.0), ..HEADER }.file(&data)).unwrap();
    assert_eq!(found.pixel(), pixel(Sample::F32, 1));
    assert_eq!(values(found)[..2], [1.0, 51.0]);
    let found = volume(&Header { scale: (1000.0, 0.0), ..HEADER }.file(&data)).unwrap();
    assert_eq!(found.pixel(), pixel(Sample::F32, 1));
    assert_eq!(values(found)[1], 100_000.0);
}

#[test]
fn types_and_units_are_understood() {
    let doubles = Header { datatype: 64, bits: 64, units: 3, ..HEADER };
    let data: Vec<u8> = (0..12).flat_map(|value| (f64::from(value) / 4.0).to_le_bytes()).collect();
    let found = volume(&doubles.file(&data)).unwrap();
    assert!(found.notes()[0].starts_with("samples of f64 are stored as f32"));
    assert_eq!(found.spacing(), [0.0005, 0.0005, 0.002]);
    assert_eq!(values(found)[3], 0.75);
    let found = volume(&Header { datatype: 128, bits: 24, ..HEADER }.file(&[5; 36])).unwrap();
    assert_eq!(found.pixel(), pixel(Sample::U8, 3));
    let found = volume(&Header { datatype: 256, bits: 8, ..HEADER }.file(&[0x80; 12])).unwrap();
    assert_eq!((found.pixel(), values(found)[0]), (pixel(Sample::I8, 1), -128.0));
}

#[test]
fn unsupported_files_say_why() {
    let text = |file: &[u8]| volume(file).unwrap_err().to_string();
    let times = Header { dim: [4, 3, 2, 2, 9, 1, 1, 1], ..HEADER };
    assert!(text(&times.file(&[0; 216])).contains("several"));
    assert!(text(&Header { datatype: 32, ..HEADER }.file(&[0; 96])).contains("type 32"));
    assert!(text(&HEADER.file(&[0; 23])).contains("has 375 bytes, 376 are needed"));
    let mut pair = HEADER.file(&[0; 24]);
    pair[344..348].copy_from_slice(b"ni1\0");
    assert!(text(&pair).contains(".img"));
    let mut two = HEADER.file(&[0; 300]);
    two[..4].copy_from_slice(&540i32.to_le_bytes());
    assert!(text(&two).contains("NIfTI-2"));
    let whole = packed(&HEADER.file(&[1; 24]));
    for end in 2..whole.len() {
        let read = volume(&whole[..end]).and_then(|volume| Picture::of(volume.into_rows()));
        assert!(read.is_err() || end >= whole.len() - 8, "{end} of {}", whole.len());
    }
    assert!(text(&packed(&[7; 500])).contains("not a NIfTI-1 header"));
}
