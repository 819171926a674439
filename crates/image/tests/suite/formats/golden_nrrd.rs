//! NRRD as its manual says: attached and detached, raw and gzip.

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use pario_image::formats::{
    FormatError, FormatOptions, VolumeSource, create_volume, open_volume, read_volume,
};
use pario_image::{Pixel, Sample};
use tempfile::tempdir;

use super::picture::{Picture, pixel};

fn parse(file: &[u8]) -> Result<VolumeSource, FormatError> {
    read_volume("volume", Cursor::new(file.to_vec()), &FormatOptions::default())
}

fn voxels(volume: VolumeSource) -> Result<Vec<u8>, FormatError> {
    Ok(Picture::of(volume.into_rows())?.bytes)
}

fn open(path: &Path) -> Result<VolumeSource, FormatError> {
    open_volume(&[path.to_owned()], &FormatOptions::default())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A header of the lines, an empty one, and the data.
fn attached(lines: &str, data: &[u8]) -> Vec<u8> {
    [format!("NRRD0004\n{lines}\n\n").as_bytes(), data].concat()
}

const BYTES: &str = "type: uchar\ndimension: 3\nsizes: 5 2 2\nencoding: raw";

#[test]
fn a_volume_of_bytes() {
    let data: Vec<u8> = (0..20).collect();
    let volume = parse(&attached(BYTES, &data)).unwrap();
    assert_eq!((volume.size(), volume.pixel()), ([5, 2, 2], Pixel::GREY));
    assert_eq!(volume.spacing(), [1.0; 3]);
    assert_eq!(voxels(volume).unwrap(), data);
}

#[test]
fn words_floats_and_their_order() {
    let lines = "# made by hand\ntype: unsigned short\ndimension: 2\nsizes: 2 1\nkey:=value: x\n\
                 endian: big\nencoding: raw";
    let volume = parse(&attached(lines, &[1, 2, 3, 4])).unwrap();
    assert_eq!((volume.size(), volume.pixel()), ([2, 1, 1], pixel(Sample::U16, 1)));
    assert_eq!(voxels(volume).unwrap(), [2, 1, 4, 3]);

    let lines = "type: float\ndimension: 2\nsizes: 1 2\nendian: little\nencoding: raw";
    let volume = parse(&attached(lines, &[1, 2, 3, 4, 5, 6, 7, 8])).unwrap();
    assert_eq!(volume.pixel(), pixel(Sample::F32, 1));
    assert_eq!(voxels(volume).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn signed_samples_are_kept_and_wide_ones_become_floats() {
    let lines = "type: short\ndimension: 2\nsizes: 2 1\nendian: big\nencoding: raw";
    let volume = parse(&attached(lines, &[0xFC, 0x18, 0, 5])).unwrap();
    assert_eq!((volume.pixel(), volume.notes()), (pixel(Sample::I16, 1), vec![]));
    assert_eq!(voxels(volume).unwrap(), [(-1000i16).to_le_bytes(), [5, 0]].concat());

    let lines = "type: signed char\ndimension: 2\nsizes: 2 1\nencoding: raw";
    let volume = parse(&attached(lines, &[0xFF, 5])).unwrap();
    assert_eq!((volume.pixel(), volume.notes()), (pixel(Sample::I8, 1), vec![]));
    assert_eq!(voxels(volume).unwrap(), [0xFF, 5]);

    let lines = "type: double\ndimension: 2\nsizes: 2 1\nendian: little\nencoding: raw";
    let numbers = [1.5f64, -2e9].map(f64::to_le_bytes).concat();
    let volume = parse(&attached(lines, &numbers)).unwrap();
    assert_eq!(volume.pixel(), pixel(Sample::F32, 1));
    let note = "samples of f64 are stored as f32: values keep 24 bits of precision";
    assert_eq!(volume.notes(), [note]);
    assert_eq!(voxels(volume).unwrap(), [1.5f32, -2e9].map(f32::to_le_bytes).concat());

    let lines = "type: unsigned int\ndimension: 2\nsizes: 2 1\nendian: big\nencoding: raw";
    let volume = parse(&attached(lines, &[0, 0, 1, 0, 0, 0, 0, 9])).unwrap();
    assert!(volume.notes()[0].starts_with("samples of u32 are stored as f32"));
    assert_eq!(voxels(volume).unwrap(), [256f32, 9.0].map(f32::to_le_bytes).concat());
    let short = parse(&attached(lines, &[0; 7])).unwrap_err();
    assert!(short.to_string().contains("are needed for 2 x 1 pixels of 1 x u32"), "{short}");
}

#[test]
fn lines_may_end_as_on_windows() {
    let file =
        b"NRRD0001\r\ntype: uint8\r\ndimension: 2\r\nsizes: 2 1\r\nencoding: raw\r\n\r\n\x08\x09";
    assert_eq!(voxels(parse(file).unwrap()).unwrap(), [8, 9]);
}

#[test]
fn the_first_axis_can_be_the_channels() {
    let shape = |lines: &str| {
        let file = attached(&format!("type: uint8\nencoding: raw\n{lines}"), &[0; 60]);
        parse(&file).map(|volume| (volume.size(), volume.pixel().channels()))
    };
    assert_eq!(shape("dimension: 4\nsizes: 3 5 2 2").unwrap(), ([5, 2, 2], 3));
    assert_eq!(shape("dimension: 3\nsizes: 3 5 4").unwrap(), ([5, 4, 1], 3));
    assert_eq!(shape("dimension: 3\nsizes: 5 4 3").unwrap(), ([5, 4, 3], 1));
    let kinds = "dimension: 3\nsizes: 3 5 4\nkinds: domain domain domain";
    assert_eq!(shape(kinds).unwrap(), ([3, 5, 4], 1));
    let directions = "dimension: 3\nsizes: 3 5 4\nspace directions: (1,0,0) (0,1,0) (0,0,1)";
    assert_eq!(shape(directions).unwrap(), ([3, 5, 4], 1));
    let error = shape("dimension: 4\nsizes: 5 3 2 2").unwrap_err();
    assert!(error.to_string().contains("not 5"), "{error}");
    let error = shape("dimension: 3\nsizes: 6 5 2\nkinds: vector domain domain").unwrap_err();
    assert!(error.to_string().contains("not 6"), "{error}");
}

#[test]
fn distances_are_lengths() {
    let spacing = |lines: &str| parse(&attached(lines, &[0; 60])).map(|volume| volume.spacing());
    let with = |line: &str| spacing(&format!("{BYTES}\n{line}"));
    assert_eq!(with("spacings: 0.5 -2 3e1").unwrap(), [0.5, 2.0, 30.0]);
    assert_eq!(with("space directions: (3, 4, 0) (0,-2,0) (0,0,0.25)").unwrap(), [5.0, 2.0, 0.25]);
    let colour = "type: uint8\ndimension: 4\nsizes: 3 5 2 2\nencoding: raw\n";
    let line = "space directions: none (2,0,0) (0,3,0) (0,0,4)";
    assert_eq!(spacing(&format!("{colour}{line}")).unwrap(), [2.0, 3.0, 4.0]);
    assert_eq!(spacing(&format!("{colour}spacings: nan 2 3 nan")).unwrap(), [2.0, 3.0, 1.0]);
    for wrong in ["spacings: 1 1", "spacings: 1 1 0", "spacings: 1 1 x", "spacings: 1 1 inf"] {
        assert!(matches!(with(wrong), Err(FormatError::Damaged { .. })), "{wrong}");
    }
}

#[test]
fn gzip_is_unpacked_as_it_is_read() {
    let data: Vec<u8> = (0..20).collect();
    let lines = BYTES.replace("raw", "gzip");
    assert_eq!(voxels(parse(&attached(&lines, &gzip(&data))).unwrap()).unwrap(), data);
    let members = [gzip(&data[..7]), gzip(&data[7..])].concat();
    assert_eq!(voxels(parse(&attached(&lines, &members)).unwrap()).unwrap(), data);
    let skipped = [&[9; 4], &data[..]].concat();
    let lines = format!("{lines}\nbyte skip: 4");
    assert_eq!(voxels(parse(&attached(&lines, &gzip(&skipped))).unwrap()).unwrap(), data);
    let short = parse(&attached(&lines, &gzip(&data))).and_then(voxels);
    assert!(matches!(short, Err(FormatError::Damaged { .. })));
}

#[test]
fn bytes_and_lines_are_skipped() {
    let data: Vec<u8> = (0..20).collect();
    let before = [&b"one\ntwo\nabc"[..], &data].concat();
    let lines = format!("{BYTES}\nline skip: 2\nbyte skip: 3");
    assert_eq!(voxels(parse(&attached(&lines, &before)).unwrap()).unwrap(), data);
    let lines = format!("{BYTES}\nbyteskip: -1");
    assert_eq!(voxels(parse(&attached(&lines, &before)).unwrap()).unwrap(), data);
    let lines = format!("{BYTES}\nline skip: 9");
    assert!(matches!(parse(&attached(&lines, b"one\n")), Err(FormatError::Damaged { .. })));
}

#[test]
fn the_data_may_be_in_another_file() {
    let dir = tempdir().unwrap();
    fs::create_dir(dir.path().join("inner")).unwrap();
    let data: Vec<u8> = (0..20).collect();
    fs::write(dir.path().join("inner/data.raw"), &data).unwrap();
    fs::write(dir.path().join("outside.raw"), &data).unwrap();
    let header = dir.path().join("inner/volume.nhdr");
    let point_to = |file: &str| {
        fs::write(&header, format!("NRRD0004\n{BYTES}\ndata file: {file}\n")).unwrap();
    };
    point_to("data.raw");
    assert_eq!(voxels(open(&header).unwrap()).unwrap(), data);
    point_to("./data.raw");
    assert_eq!(voxels(open(&header).unwrap()).unwrap(), data);

    let absolute = dir.path().join("outside.raw").display().to_string();
    for outside in ["../outside.raw", "../inner/data.raw", absolute.as_str()] {
        point_to(outside);
        let error = open(&header).unwrap_err();
        assert!(error.to_string().contains("not in the directory of the header"), "{error}");
        let options = FormatOptions { data_anywhere: true, ..FormatOptions::default() };
        let volume = open_volume(std::slice::from_ref(&header), &options).unwrap();
        assert_eq!(voxels(volume).unwrap(), data);
    }
    point_to("missing.raw");
    let error = open(&header).unwrap_err();
    assert!(error.to_string().contains("missing.raw: cannot open the data file"), "{error}");
    point_to("LIST");
    assert!(matches!(open(&header), Err(FormatError::Unsupported { .. })));

    fs::write(dir.path().join("inner/data.raw"), &data[1..]).unwrap();
    point_to("data.raw");
    let error = open(&header).unwrap_err();
    assert!(error.to_string().contains("data.raw: has 19 bytes, 20 are needed"), "{error}");
}

#[test]
fn unsupported_files_are_named() {
    let with = |from: &str, to: &str| {
        parse(&attached(&BYTES.replace(from, to), &[0; 60])).unwrap_err().to_string()
    };
    assert!(with("uchar", "block").contains("samples of type \"block\""));
    assert!(with("raw", "bzip2").contains("encoding \"bzip2\""));
    assert!(with("dimension: 3", "dimension: 5").contains("5 axes"));
    assert!(with("dimension: 3", "dimension: 2").contains("3 values for 2 axes"));
    assert!(with("uchar", "ushort").contains("\"endian\""));
    assert!(with("sizes: 5 2 2", "sizes: 5 -2 2").contains("\"-2\""));
    assert!(with("sizes: 5 2 2", "sizes: 5 0 2").contains("no pixels"));
    assert!(with("sizes: 5 2 2\n", "").contains("\"sizes\" is missing"));
    assert!(with("encoding: raw", "encoding raw").contains("no colon"));
    let huge = "sizes: 18446744073709551615 18446744073709551615 18446744073709551615";
    assert!(with("sizes: 5 2 2", huge).contains("no file is so large"));
}

#[test]
fn volumes_are_written_with_their_distances() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("volume.nrrd");
    let picture = Picture::random((4, 6), pixel(Sample::U16, 2), 5);
    let mut sink = create_volume(&path, [4, 3, 2], [0.5, 1.0, 2.5], picture.pixel).unwrap();
    picture.rows().for_each(|row| sink.put_row(row).unwrap());
    sink.finish().unwrap();
    let header = "NRRD0004\ntype: uint16\ndimension: 4\nsizes: 2 4 3 2\nspacings: nan 0.5 1 2.5\n\
                  kinds: vector space space space\nendian: little\nencoding: raw\n\n";
    let expected = [header.as_bytes(), &picture.bytes].concat();
    assert_eq!(fs::read(&path).unwrap(), expected);
    let volume = open(&path).unwrap();
    assert_eq!((volume.size(), volume.spacing()), ([4, 3, 2], [0.5, 1.0, 2.5]));
    assert_eq!(Picture::of(volume.into_rows()).unwrap(), picture);

    let error = Picture::read(&path).unwrap_err();
    assert!(error.to_string().contains("a volume of 4 x 3 x 2, not a picture"), "{error}");
    assert!(create_volume(&path, [4, 3, 2], [0.0, 1.0, 1.0], picture.pixel).is_err());
}
