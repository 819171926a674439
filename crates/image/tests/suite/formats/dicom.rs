//! Series of DICOM slices, made by hand.

use std::fs;
use std::path::Path;

use pario_image::formats::{FormatOptions, VolumeSource, open_picture, open_volume};
use pario_image::{LengthUnit, Sample, ValueUnit, VoxelUnits};
use tempfile::{TempDir, tempdir};

use super::picture::{Picture, pixel};

const EXPLICIT: &str = "1.2.840.10008.1.2.1";

/// One slice of 3 x 2 pixels of 16 bits.
#[derive(Clone)]
struct Slice {
    syntax: &'static str,
    modality: &'static str,
    rescale_type: Option<&'static str>,
    series: &'static str,
    description: &'static str,
    instance: u32,
    position: Option<[f64; 3]>,
    rows_along: [f64; 3],
    columns_along: [f64; 3],
    size: [u16; 2],
    bits_stored: u16,
    is_signed: bool,
    rescale: Option<(f64, f64)>,
    values: Vec<u16>,
}

const CT: Slice = Slice {
    syntax: EXPLICIT,
    modality: "CT",
    rescale_type: None,
    series: "1.2.3",
    description: "head",
    instance: 1,
    position: Some([0.0, 0.0, 0.0]),
    rows_along: [1.0, 0.0, 0.0],
    columns_along: [0.0, 1.0, 0.0],
    size: [3, 2],
    bits_stored: 12,
    is_signed: false,
    rescale: Some((1.0, -1024.0)),
    values: Vec::new(),
};

impl Slice {
    /// A slice at a height, which its first value identifies.
    fn at(height: f64, first: u16) -> Slice {
        let values = (0..6).map(|value| first + value).collect();
        Slice { position: Some([-10.0, 5.0, height]), values, ..CT }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut meta = Vec::new();
        put(&mut meta, 0x0002, 0x0001, "OB", &[0, 1]);
        put(&mut meta, 0x0002, 0x0002, "UI", b"1.2.840.10008.5.1.4.1.1.2");
        put(&mut meta, 0x0002, 0x0003, "UI", b"1.2.3.4");
        put(&mut meta, 0x0002, 0x0010, "UI", self.syntax.as_bytes());
        put(&mut meta, 0x0002, 0x0012, "UI", b"1.2.3.5");
        let mut file = vec![0; 128];
        file.extend(b"DICM");
        let length = u32::try_from(meta.len()).unwrap().to_le_bytes();
        put(&mut file, 0x0002, 0x0000, "UL", &length);
        file.extend(meta);

        let numbers = |numbers: &[f64]| {
            let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            texts.join("\\").into_bytes()
        };
        let word = |value: u16| value.to_le_bytes();
        let [columns, rows] = self.size;
        put(&mut file, 0x0008, 0x0060, "CS", self.modality.as_bytes());
        put(&mut file, 0x0008, 0x103E, "LO", self.description.as_bytes());
        put(&mut file, 0x0018, 0x0050, "DS", b"2.5");
        put(&mut file, 0x0020, 0x000E, "UI", self.series.as_bytes());
        put(&mut file, 0x0020, 0x0013, "IS", self.instance.to_string().as_bytes());
        if let Some(position) = self.position {
            put(&mut file, 0x0020, 0x0032, "DS", &numbers(&position));
            let directions = [self.rows_along, self.columns_along].concat();
            put(&mut file, 0x0020, 0x0037, "DS", &numbers(&directions));
        }
        put(&mut file, 0x0028, 0x0002, "US", &word(1));
        put(&mut file, 0x0028, 0x0004, "CS", b"MONOCHROME2");
        put(&mut file, 0x0028, 0x0010, "US", &word(rows));
        put(&mut file, 0x0028, 0x0011, "US", &word(columns));
        put(&mut file, 0x0028, 0x0030, "DS", &numbers(&[0.5, 0.25]));
        put(&mut file, 0x0028, 0x0100, "US", &word(16));
        put(&mut file, 0x0028, 0x0101, "US", &word(self.bits_stored));
        put(&mut file, 0x0028, 0x0102, "US", &word(self.bits_stored - 1));
        put(&mut file, 0x0028, 0x0103, "US", &word(self.is_signed.into()));
        if let Some((slope, intercept)) = self.rescale {
            put(&mut file, 0x0028, 0x1052, "DS", &numbers(&[intercept]));
            put(&mut file, 0x0028, 0x1053, "DS", &numbers(&[slope]));
        }
        if let Some(kind) = self.rescale_type {
            put(&mut file, 0x0028, 0x1054, "LO", kind.as_bytes());
        }
        let pixels: Vec<u8> = self.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        put(&mut file, 0x7FE0, 0x0010, "OW", &pixels);
        file
    }

    fn write(&self, path: &Path) {
        fs::write(path, self.bytes()).unwrap();
    }
}

/// Appends an element with its type, its length and its value, padded to an even length.
fn put(file: &mut Vec<u8>, group: u16, element: u16, vr: &str, value: &[u8]) {
    file.extend(group.to_le_bytes());
    file.extend(element.to_le_bytes());
    file.extend(vr.as_bytes());
    let length = value.len().next_multiple_of(2);
    match vr {
        "OB" | "OW" => {
            file.extend([0, 0]);
            file.extend(u32::try_from(length).unwrap().to_le_bytes());
        }
        _ => file.extend(u16::try_from(length).unwrap().to_le_bytes()),
    }
    file.extend(value);
    if length > value.len() {
        file.push(if vr == "UI" { 0 } else { b' ' });
    }
}

/// A directory of slices, whose names do not give the order.
fn directory(slices: &[Slice]) -> TempDir {
    let dir = tempdir().unwrap();
    for (number, slice) in slices.iter().enumerate() {
        slice.write(&dir.path().join(format!("{:02}.dcm", 99 - number)));
    }
    dir
}

fn open(dir: &TempDir) -> Result<VolumeSource, String> {
    open_volume(&[dir.path().to_owned()], &FormatOptions::default())
        .map_err(|error| error.to_string())
}

fn values(volume: VolumeSource) -> Vec<f64> {
    let sample = volume.pixel().sample();
    let bytes = Picture::of(volume.into_rows()).unwrap().bytes;
    bytes.chunks(sample.bytes()).map(|bytes| sample.value(bytes)).collect()
}

#[test]
fn slices_are_sorted_by_position_and_values_are_hounsfield_units() {
    let dir = directory(&[
        Slice::at(5.0, 300),
        Slice::at(-2.5, 0),
        Slice::at(2.5, 200),
        Slice::at(0.0, 100),
    ]);
    fs::write(dir.path().join("README.txt"), "not a slice").unwrap();
    let volume = open(&dir).unwrap();
    assert_eq!((volume.size(), volume.pixel()), ([3, 2, 4], pixel(Sample::I16, 1)));
    assert_eq!(volume.spacing(), [0.25, 0.5, 2.5]);
    let note = "samples of u16 are stored as i16: value = 1 * sample + -1024";
    assert_eq!(volume.notes(), ["1 file is not DICOM and was left out", note]);
    let expected: Vec<f64> = [0, 100, 200, 300]
        .iter()
        .flat_map(|first| (0..6).map(move |value| f64::from(first + value - 1024)))
        .collect();
    assert_eq!(values(volume), expected);
}

#[test]
fn slices_across_another_axis_are_sorted_along_it() {
    let coronal = |along: f64, first: u16| Slice {
        position: Some([0.0, along, 0.0]),
        rows_along: [1.0, 0.0, 0.0],
        columns_along: [0.0, 0.0, -1.0],
        ..Slice::at(0.0, first)
    };
    let dir = directory(&[coronal(4.0, 20), coronal(0.0, 0), coronal(2.0, 10)]);
    let volume = open(&dir).unwrap();
    assert_eq!(volume.spacing(), [0.25, 0.5, 2.0]);
    // The normal of these directions points along +y.
    let firsts: Vec<f64> =
        values(volume).into_iter().step_by(6).map(|value| value + 1024.0).collect();
    assert_eq!(firsts, [0.0, 10.0, 20.0]);
}

#[test]
fn values_are_i16_only_if_all_of_them_fit() {
    let with = |bits_stored, is_signed, rescale, values: [i32; 6]| {
        let low = |value: i32| u16::from_le_bytes([value.to_le_bytes()[0], value.to_le_bytes()[1]]);
        let values = values.map(low).to_vec();
        let slice = Slice { bits_stored, is_signed, rescale, values, ..CT };
        let dir = directory(&[slice]);
        let volume = open(&dir).unwrap();
        (volume.pixel().sample(), values_of(volume))
    };
    fn values_of(volume: VolumeSource) -> [f64; 6] {
        values(volume).try_into().unwrap()
    }
    // Sixteen bits with an intercept could overflow, but these values do not.
    let (sample, found) = with(16, true, Some((1.0, -1024.0)), [-2000, 0, 1, 2, 3, 3000]);
    assert_eq!((sample, found[0], found[5]), (Sample::I16, -3024.0, 1976.0));
    let (sample, found) = with(16, true, Some((1.0, -1024.0)), [-32_768, 0, 1, 2, 3, 4]);
    assert_eq!((sample, found[0]), (Sample::F32, -33_792.0));
    let (sample, found) = with(12, false, Some((0.5, 0.0)), [1, 2, 3, 4, 5, 6]);
    assert_eq!((sample, found[0]), (Sample::F32, 0.5));
    let (sample, found) = with(16, false, None, [1, 2, 3, 4, 5, 65_535]);
    assert_eq!((sample, found[5]), (Sample::U16, 65_535.0));
    // The unused high bits hold something else: an overlay, or wrong sign bits.
    let (sample, found) = with(12, true, None, [0xF001, 0x0FFF, 2, 3, 4, 5]);
    assert_eq!((sample, found[0], found[1]), (Sample::I16, 1.0, -1.0));
}

#[test]
fn several_series_are_named_and_one_is_chosen() {
    let other = Slice { series: "1.2.9", description: "scout", ..Slice::at(0.0, 7) };
    let dir = directory(&[Slice::at(0.0, 0), other, Slice::at(1.0, 1)]);
    let error = open(&dir).unwrap_err();
    for text in [
        "there are 2 series",
        "1.2.3 (CT head, 2 slices)",
        "1.2.9 (CT scout, 1 slice)",
        "--series UID",
    ] {
        assert!(error.contains(text), "{error}");
    }
    let choose = |uid: &str| {
        let options = FormatOptions { series: Some(uid.to_owned()), ..FormatOptions::default() };
        open_volume(&[dir.path().to_owned()], &options)
    };
    assert_eq!(choose("1.2.3").unwrap().size(), [3, 2, 2]);
    assert_eq!(choose("1.2.9").unwrap().size(), [3, 2, 1]);
    let error = choose("1.2.7").unwrap_err().to_string();
    assert!(error.contains("no series 1.2.7") && error.contains("1.2.9 (CT scout"), "{error}");
}

#[test]
fn missing_slices_are_named() {
    let heights = [0.0, 2.5, 5.0, 12.5, 15.0];
    let slices: Vec<Slice> = heights.iter().map(|height| Slice::at(*height, 0)).collect();
    let error = open(&directory(&slices)).unwrap_err();
    assert!(
        error.contains("2 slices are missing: 2 between 97.dcm (5) and 96.dcm (12.5)"),
        "{error}"
    );

    let slices: Vec<Slice> =
        [0.0, 2.5, 5.0, 6.0].iter().map(|height| Slice::at(*height, 0)).collect();
    let error = open(&directory(&slices)).unwrap_err();
    assert!(error.contains("distances of its slices differ"), "{error}");

    let error = open(&directory(&[Slice::at(1.0, 0), Slice::at(1.0, 0)])).unwrap_err();
    assert!(error.contains("98.dcm") && error.contains("at the same position"), "{error}");
}

#[test]
fn slices_without_positions_are_sorted_by_number() {
    let numbered = |instance, first| Slice { instance, position: None, ..Slice::at(0.0, first) };
    let dir = directory(&[numbered(12, 20), numbered(10, 0), numbered(11, 10)]);
    let volume = open(&dir).unwrap();
    assert_eq!(volume.spacing(), [0.25, 0.5, 2.5]);
    let firsts: Vec<f64> =
        values(volume).into_iter().step_by(6).map(|value| value + 1024.0).collect();
    assert_eq!(firsts, [0.0, 10.0, 20.0]);
    let error = open(&directory(&[numbered(1, 0), numbered(2, 0), numbered(4, 0)])).unwrap_err();
    assert!(error.contains("1 slice is missing"), "{error}");
}

#[test]
fn slices_that_differ_are_named() {
    let wide = Slice { size: [6, 1], ..Slice::at(1.0, 0) };
    let error = open(&directory(&[Slice::at(0.0, 0), wide])).unwrap_err();
    assert!(error.contains("98.dcm: is 6 x 1") || error.contains("99.dcm: is 3 x 2"), "{error}");
    let turned = Slice { columns_along: [0.0, 0.0, 1.0], ..Slice::at(1.0, 0) };
    let error = open(&directory(&[Slice::at(0.0, 0), turned])).unwrap_err();
    assert!(error.contains("columns along"), "{error}");
}

#[test]
fn compressed_pixels_are_refused_by_their_syntax() {
    let jpeg = Slice { syntax: "1.2.840.10008.1.2.4.70", ..Slice::at(0.0, 0) };
    let error = open(&directory(&[jpeg])).unwrap_err();
    assert!(error.contains("1.2.840.10008.1.2.4.70") && error.contains("gdcmconv"), "{error}");
}

#[test]
fn one_slice_is_a_picture_and_files_that_were_cut_are_errors() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("slice.dcm");
    let slice = Slice::at(0.0, 0);
    slice.write(&path);
    let rows = open_picture(&path, &FormatOptions::default()).unwrap();
    assert_eq!((rows.size(), rows.pixel()), ((3, 2), pixel(Sample::I16, 1)));
    let bytes = slice.bytes();
    for end in (133..bytes.len()).step_by(7) {
        fs::write(&path, &bytes[..end]).unwrap();
        let read = open_volume(std::slice::from_ref(&path), &FormatOptions::default())
            .and_then(|volume| Picture::of(volume.into_rows()));
        assert!(read.is_err(), "{end} of {} bytes", bytes.len());
    }
}

#[test]
fn a_ct_is_counted_in_hounsfield_units_and_others_are_not() {
    let units = |modality, rescale_type| {
        let slice = Slice { modality, rescale_type, ..Slice::at(0.0, 1000) };
        open(&directory(&[slice])).unwrap().units()
    };
    let hounsfield = VoxelUnits { values: ValueUnit::Hounsfield, lengths: LengthUnit::Millimetre };
    assert_eq!(units("CT", None), hounsfield);
    assert_eq!(units("CT", Some("HU")), hounsfield);
    assert_eq!(units("CT", Some("MGML")), VoxelUnits::MILLIMETRES);
    assert_eq!(units("MR", None), VoxelUnits::MILLIMETRES);
}
