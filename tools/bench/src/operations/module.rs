//! Builds the modules of examples/operations with clang.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::area::RunSettings;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns the bytes of a module; `None` without clang.
pub fn build(setting: &RunSettings, name: &str) -> Result<Option<Vec<u8>>> {
    let root = Path::new(ROOT);
    let module = setting.dir.join(name).with_extension("wasm");
    let compiled = Command::new("clang")
        .args(["--target=wasm32", "-O3", "-msimd128", "-mbulk-memory", "-nostdlib"])
        .args(["-Wl,--no-entry", "-I"])
        .arg(root.join("crates/module/include"))
        .arg("-o")
        .arg(&module)
        .arg(root.join("examples/operations").join(name).with_extension("c"))
        .output();
    let Ok(compiled) = compiled else { return Ok(None) };
    let errors = String::from_utf8_lossy(&compiled.stderr);
    ensure!(compiled.status.success(), "clang cannot compile {name}: {errors}");
    Ok(Some(std::fs::read(&module).context("reading the module")?))
}
