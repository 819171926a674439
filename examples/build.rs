//! Generates a module for each Rust program in the documents, for the binary `documented`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "src/fences.rs"]
mod fences;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let programs = fences::all(&root).into_iter().filter(|fence| fence.language == "rust");
    let (mut modules, mut table) = (String::new(), String::new());
    for (number, fence) in programs.enumerate() {
        let file = out.join(format!("program_{number}.rs"));
        let entry = "\npub fn entry() -> std::process::ExitCode { std::process::Termination::report(main()) }\n";
        fs::write(&file, fence.text.clone() + entry).expect("the build directory is writable");
        let lints = "#[allow(warnings, clippy::all, reason = \"quoted from a document\")]";
        let path = file.display();
        writeln!(modules, "{lints}\n#[path = {:?}]\nmod program_{number};", path.to_string())
            .expect("writing to a string does not fail");
        writeln!(table, "    ({:?}, program_{number}::entry),", fence.place())
            .expect("writing to a string does not fail");
    }
    let types =
        "/// The location and the entry point.\ntype Program = (&'static str, fn() -> ExitCode);";
    let text = format!("{modules}\n{types}\nconst PROGRAMS: &[Program] = &[\n{table}];\n");
    fs::write(out.join("programs.rs"), text).expect("the build directory is writable");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/fences.rs");
    println!("cargo::rerun-if-changed=../README.md");
    println!("cargo::rerun-if-changed=../docs");
}
