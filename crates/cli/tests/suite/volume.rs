//! `pario volume`.

use std::fs;
use std::process::Output;

use crate::command::{Sandbox, stderr, stdout};
use serde_json::Value;

fn run(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let mut all = vec!["--data", "data", "--create", "volume"];
    all.extend(arguments);
    sandbox.pario(&all).output().expect("the binary starts")
}

fn json(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let output = run(sandbox, &[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn a_phantom_is_made_looked_at_and_cut() {
    let sandbox = Sandbox::empty();
    let made = run(&sandbox, &["import", "--phantom", "96x64x80", "/body", "--spacing", "1,1,2"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    assert!(
        stdout(&made).starts_with("/body  96 x 64 x 80 voxels of 3 x u8, "),
        "{}",
        stdout(&made)
    );
    let info = json(&sandbox, &["info", "/body"]);
    assert_eq!(info["voxels"], serde_json::json!([96, 64, 80]));
    assert_eq!(info["boxes"], serde_json::json!([3, 2, 5]));
    assert_eq!(info["spacing"], serde_json::json!([1.0, 1.0, 2.0]));
    let told = run(&sandbox, &["info", "/body"]);
    assert!(stdout(&told).contains("30 boxes of 32 x 32 x 16, one layer more along z"));

    let cut = json(
        &sandbox,
        &["slice", "/body", "cut.png", "--normal", "1,-1,0.5", "--size", "70x50", "--linear"],
    );
    assert_eq!((&cut["width"], &cut["height"]), (&70.into(), &50.into()));
    assert!(cut["extents"].as_u64().unwrap() > 0, "{cut}");
    assert!(cut["bytes_sent"].as_u64().unwrap() < cut["bytes_seen"].as_u64().unwrap(), "{cut}");
    assert!(fs::read(sandbox.file("cut.png")).unwrap().starts_with(b"\x89PNG"));
    let slab = run(&sandbox, &["slice", "/body", "slab.ppm", "--slab", "20", "--maximum"]);
    assert_eq!(slab.status.code(), Some(0), "{}", stderr(&slab));
    assert!(fs::read(sandbox.file("slab.ppm")).unwrap().starts_with(b"P6"));
    let traced = run(&sandbox, &["slice", "/body", "cut.png", "--trace", "trace.svg"]);
    assert_eq!(traced.status.code(), Some(0), "{}", stderr(&traced));
    assert!(fs::read_to_string(sandbox.file("trace.svg")).unwrap().contains("Compute["));
    let bench = json(&sandbox, &["bench", "/body", "--slices", "5", "--size", "64x64"]);
    assert_eq!(bench["slices"], 5);
    assert!(bench["slices_per_second"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_raw_volume_comes_in_and_its_planes_come_out() {
    let sandbox = Sandbox::empty();
    let voxels: Vec<u8> = (0..=255).cycle().take(20 * 10 * 7).collect();
    fs::write(sandbox.file("small.raw"), &voxels).unwrap();
    let arguments =
        ["import", "small.raw", "/small", "--raw", "20x10x7", "--pixel", "u8", "--boxes", "8x8x3"];
    let imported = json(&sandbox, &[&arguments[..], &["--compression", "lz4"]].concat());
    assert_eq!(imported["bytes"], 1400);
    for plane in [0usize, 3, 6] {
        let center = format!("9.5,4.5,{plane}");
        let arguments = ["slice", "/small", "plane.raw", "--size", "20x10", "--center", &center];
        let output = run(&sandbox, &arguments);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let expected = &voxels[plane * 200..(plane + 1) * 200];
        assert_eq!(fs::read(sandbox.file("plane.raw")).unwrap(), expected, "plane {plane}");
    }
}

#[test]
fn what_cannot_be_done_is_told() {
    let sandbox = Sandbox::empty();
    for (arguments, code, told) in [
        (&["import", "/body"][..], 2, "such as `pario volume import head.nrrd /head`"),
        (&["import", "a.nrrd", "/body", "--phantom", "8x8x8"], 2, "generated from its seed"),
        (&["import", "--phantom", "8x8", "/body"], 2, "like 512x512x640"),
        (&["import", "nowhere.nrrd", "/body"], 3, "nowhere.nrrd"),
        (&["import", "--phantom", "0x8x8", "/body"], 2, "0 x 8 x 8"),
        (&["info", "/nothing"], 3, "/nothing"),
        (&["slice", "/nothing", "a.png", "--normal", "0,0,nan"], 2, "like 0.5,-1,2"),
    ] {
        let output = run(&sandbox, arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(told), "{arguments:?}: {text}");
    }
    let made = run(&sandbox, &["import", "--phantom", "16x16x16", "/body"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    for (arguments, told) in [
        (&["slice", "/body", "a.png", "--zoom", "0"][..], "zoom"),
        (&["slice", "/body", "a.png", "--size", "0x5"], "0"),
        (&["slice", "/body", "a.png", "--normal", "0,0,0"], "normal"),
    ] {
        let output = run(&sandbox, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{arguments:?}: {}", stderr(&output));
        assert!(!sandbox.file("a.png").exists());
    }
}
