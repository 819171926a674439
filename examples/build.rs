//! Makes a module of each Rust program in the documents, for the program `documented`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "src/fences.rs"]
mod fences;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where to write"));
    let programs = fences::all(&root).into_iter().filter(|fence| fence.language == "rust");
    let (mut modules, mut table) = (String::new(), String::new());
    for (number, fence) in programs.enumerate() {
        let file = out.join(format!("program_{number}.rs"));
        let entry = "\npub fn entry() -> std::process::ExitCode { std::process::Termination::report(main()) }\n";
        fs::write(&file, fence.text.clone() + entry).expect("the build directory can be written");
        let lints = "#[allow(warnings, clippy::all, reason = \"it stands in a document\")]";
        let path = file.display();
        writeln!(modules, "{lints}\n#[path = {:?}]\nmod program_{number};", path.to_string())
            .expect("texts can be written to");
        writeln!(table, "    ({:?}, program_{number}::entry),", fence.place())
            .expect("texts can be written to");
    }
    let types =
        "/// Where it stands, and its entry.\ntype Program = (&'static str, fn() -> ExitCode);";
    let text = format!("{modules}\n{types}\nconst PROGRAMS: &[Program] = &[\n{table}];\n");
    fs::write(out.join("programs.rs"), text).expect("the build directory can be written");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/fences.rs");
    println!("cargo::rerun-if-changed=../README.md");
    println!("cargo::rerun-if-changed=../docs");
}
