//! `pario volume import` and `pario image import` of files of other programs.

use std::fs;
use std::process::Output;

use crate::command::{Sandbox, stderr, stdout};
use serde_json::{Value, json};

fn run(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let all = [&["--data", "data", "--create"], arguments].concat();
    sandbox.pario(&all).output().expect("the binary starts")
}

fn done(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let output = run(sandbox, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    output
}

fn told(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let output = done(sandbox, &[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).expect("one JSON value")
}

/// Returns an array file as `np.save` writes it.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), data].concat()
}

/// Returns Hounsfield units from -1000 up, in 4 x 5 x 10 voxels.
fn hounsfield() -> Vec<i16> {
    (0..200).map(|value| value * 10 - 1000).collect()
}

#[test]
fn a_signed_array_keeps_its_values_and_says_where_they_lie() {
    let sandbox = Sandbox::empty();
    let data: Vec<u8> = hounsfield().iter().flat_map(|value| value.to_le_bytes()).collect();
    fs::write(sandbox.file("ct.npy"), npy("<i2", "(10, 5, 4)", &data)).unwrap();
    let imported = told(&sandbox, &["volume", "import", "ct.npy", "/ct", "--spacing", "0.5,0.5,2"]);
    assert_eq!(imported["pixel"], "1 x i16");
    assert_eq!(imported["notes"], json!([]));
    let values = json!({
        "minimum": -1000.0, "maximum": 990.0, "percentile_1": -990.0, "percentile_99": 970.0,
    });
    assert_eq!(imported["values"], values);
    let info = told(&sandbox, &["volume", "info", "/ct"]);
    assert_eq!((&info["values"], &info["spacing"]), (&values, &json!([0.5, 0.5, 2.0])));
    assert_eq!(info["units"], json!({ "values": null, "lengths": "mm" }));
    let lines = done(&sandbox, &["volume", "info", "/ct"]);
    let expected = "values from -1000 to 990, 98 % of them from -990 to 970";
    assert!(stdout(&lines).contains(expected), "{}", stdout(&lines));

    let slice = ["volume", "slice", "/ct", "plane.raw", "--size", "4x5", "--center", "0.75,1,0"];
    done(&sandbox, &slice);
    assert_eq!(fs::read(sandbox.file("plane.raw")).unwrap(), data[..40]);
    done(&sandbox, &[&slice[..], &["--window", "-1000,-745"]].concat());
    let steps: Vec<u8> = (0..20).map(|step| step * 10).collect();
    assert_eq!(fs::read(sandbox.file("plane.raw")).unwrap(), steps);
    let refused = run(&sandbox, &["volume", "slice", "/ct", "plane.png"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("choose TIFF or NRRD"), "{}", stderr(&refused));
    assert!(!sandbox.file("plane.png").exists());
    done(&sandbox, &["volume", "slice", "/ct", "plane.png", "--window", "-1000,990"]);
    assert!(fs::read(sandbox.file("plane.png")).unwrap().starts_with(b"\x89PNG"));
    let wrong = run(&sandbox, &["volume", "slice", "/ct", "a.png", "--window", "5,5"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
}

#[test]
fn wide_numbers_are_stored_as_floats_and_the_user_is_informed() {
    let sandbox = Sandbox::empty();
    let data: Vec<u8> = (0..8u32).flat_map(|value| (value << 20).to_le_bytes()).collect();
    fs::write(sandbox.file("wide.raw"), &data).unwrap();
    let arguments = ["volume", "import", "wide.raw", "/wide", "--raw", "2x2x2", "--pixel", "u32"];
    let imported = done(&sandbox, &arguments);
    let note = "pario: wide.raw: samples of u32 are stored as f32: whole numbers above 16,777,216 \
                are rounded\n";
    assert_eq!(stderr(&imported), note);
    assert!(stdout(&imported).contains("voxels of 1 x f32"), "{}", stdout(&imported));
    let picture = ["image", "import", "wide.raw", "/picture", "--raw", "4x2x1:u32"];
    let imported = told(&sandbox, &picture);
    assert_eq!(imported["sample"], "f32");
    assert!(imported["notes"][0].as_str().unwrap().starts_with("samples of u32"), "{imported}");
}

#[test]
fn a_raw_file_of_the_wrong_length_is_refused_with_both_lengths() {
    let sandbox = Sandbox::empty();
    fs::write(sandbox.file("a.raw"), [0; 100]).unwrap();
    for (size, needed) in [("5x5x5", 125), ("4x4x4", 64)] {
        let output =
            run(&sandbox, &["volume", "import", "a.raw", "/a", "--raw", size, "--pixel", "u8"]);
        assert_ne!(output.status.code(), Some(0));
        let text = stderr(&output);
        let lengths = format!("has 100 bytes, {needed} are needed");
        assert!(text.contains("a.raw") && text.contains(&lengths), "{text}");
    }
    let output = run(&sandbox, &["image", "import", "a.raw", "/a", "--raw", "9x9x1:u8"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("has 100 bytes, 81 are needed"), "{}", stderr(&output));
    assert_ne!(run(&sandbox, &["volume", "info", "/a"]).status.code(), Some(0));
}

/// Returns a TIFF of two pages of 2 x 1 bytes: a header, then pixels and directory of each page.
fn two_pages() -> Vec<u8> {
    let mut file = b"II*\0".to_vec();
    let mut link = file.len();
    file.extend([0; 4]);
    for page in 0..2u8 {
        let pixels = u32::try_from(file.len()).unwrap();
        file.extend([page * 2, page * 2 + 1]);
        let directory = u32::try_from(file.len()).unwrap().to_le_bytes();
        file[link..link + 4].copy_from_slice(&directory);
        let tags = [(256, 2), (257, 1), (258, 8), (259, 1), (262, 1), (273, pixels), (279, 2)];
        file.extend(7u16.to_le_bytes());
        for (tag, value) in tags {
            file.extend(u16::to_le_bytes(tag));
            file.extend(4u16.to_le_bytes());
            file.extend(1u32.to_le_bytes());
            file.extend(u32::to_le_bytes(value));
        }
        link = file.len();
        file.extend([0; 4]);
    }
    file
}

#[test]
fn a_tiff_of_many_pages_is_a_volume_and_no_picture() {
    let sandbox = Sandbox::empty();
    fs::write(sandbox.file("pages.tif"), two_pages()).unwrap();
    let refused = run(&sandbox, &["image", "import", "pages.tif", "/pages"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let text = stderr(&refused);
    assert!(text.contains("pages.tif: it is a TIFF of 2 pages"), "{text}");
    assert!(text.contains("`pario volume import`"), "{text}");
    done(&sandbox, &["volume", "import", "pages.tif", "/pages"]);
    assert_eq!(told(&sandbox, &["volume", "info", "/pages"])["voxels"], json!([2, 1, 2]));
}

#[test]
fn a_series_is_for_dicom_alone() {
    let sandbox = Sandbox::empty();
    fs::write(sandbox.file("a.npy"), npy("|u1", "(2, 2, 2)", &[1; 8])).unwrap();
    let refused = run(&sandbox, &["volume", "import", "a.npy", "/a", "--series", "1.2.3"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("none of the files is DICOM"), "{}", stderr(&refused));
}
