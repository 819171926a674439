//! A module that the Rust SDK has built: the fixture, and a fresh one where the target is installed.

use std::path::Path;
use std::process::Command;

use pario_operation::{ExtentOutput, Operation, OperationCall};

use crate::sandbox::{operation, process};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const TARGET: &str = "wasm32-unknown-unknown";

fn check_threshold(bytes: &[u8]) {
    let threshold = operation(bytes);
    for len in [0, 1, 100, 70_000, 3_000_000, 5] {
        let body: Vec<u8> = (0..len).map(|number: u32| number.to_le_bytes()[0]).collect();
        let expected = body.iter().map(|byte| if *byte > 90 { 255 } else { 0 }).collect();
        assert_eq!(process(&threshold, b"level=90", &body), Ok(ExtentOutput::Result(expected)));
    }
    let refused = threshold.prepare(&OperationCall::new(b"level=900", &[true])).err().unwrap();
    assert!(refused.starts_with("the parameter level=900 is wrong: "), "{refused}");
    let refused = threshold.prepare(&OperationCall::new(b"", &[true])).err().unwrap();
    assert_eq!(refused, "the parameter level is missing: give it as level=VALUE");
}

/// Built from examples/operations/threshold; an older module must go on working.
#[test]
fn the_fixture_of_the_rust_sdk_is_an_operation() {
    check_threshold(include_bytes!("../fixtures/rust-threshold.wasm"));
}

#[test]
fn the_example_of_the_rust_sdk_is_an_operation_where_the_target_is_installed() {
    let mut asked = Command::new("rustc");
    asked.args(["--print", "target-libdir", "--target", TARGET]);
    let directory = asked.output().expect("rustc runs").stdout;
    let directory = String::from_utf8(directory).unwrap();
    if !Path::new(directory.trim()).is_dir() {
        println!("the target {TARGET} is not installed: only the fixture is tested");
        return;
    }
    let built = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--locked", "--target", TARGET, "--target-dir"])
        .arg(built.path())
        .current_dir(Path::new(ROOT).join("examples/operations/threshold"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let module = built.path().join(TARGET).join("release/threshold.wasm");
    check_threshold(&std::fs::read(module).unwrap());
}
