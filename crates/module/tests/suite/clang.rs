//! Builds modules from C with clang and lld.

use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Compiles C to a module.
fn clang(source: &Path) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let module = directory.path().join("module.wasm");
    let output = Command::new("clang")
        .args(["--target=wasm32", "-O3", "-msimd128", "-mbulk-memory", "-nostdlib", "-Wall"])
        .args(["-Werror", "-Wl,--no-entry", "-I"])
        .arg(Path::new(ROOT).join("crates/module/include"))
        .arg("-o")
        .args([&module, source])
        .output()
        .expect("clang runs: apt-get install clang lld");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "clang cannot compile {}: {errors}", source.display());
    std::fs::read(module).unwrap()
}

/// Builds one of the examples.
pub fn example(name: &str) -> Vec<u8> {
    clang(&PathBuf::from(ROOT).join("examples/operations").join(name).with_extension("c"))
}

/// Builds a module from C that follows the header.
pub fn module(source: &str) -> Vec<u8> {
    plain(&format!("#include \"pario_operation.h\"\n{source}"))
}

/// Builds a module from C.
pub fn plain(source: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("module.c");
    std::fs::write(&file, source).unwrap();
    clang(&file)
}
