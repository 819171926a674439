//! docs/flow-model.md matches the code: the examples draw its pictures and contain its programs, and
//! its messages are the printed ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use pario_flow::placement::{Placement, ThreadSlot};

use crate::fences;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn document() -> String {
    read("docs/flow-model.md")
}

/// Set `PARIO_PICTURES=write` to redraw the pictures of the documents.
#[test]
fn the_pictures_are_those_that_the_examples_draw() {
    let executables = [
        ("pipeline", env!("CARGO_BIN_EXE_pipeline"), &[] as &[&str]),
        ("if", env!("CARGO_BIN_EXE_if"), &[]),
        ("if-else", env!("CARGO_BIN_EXE_if-else"), &[]),
        ("while", env!("CARGO_BIN_EXE_while"), &[]),
        ("for", env!("CARGO_BIN_EXE_for"), &[]),
        ("parallel", env!("CARGO_BIN_EXE_parallel"), &[]),
        ("parallel-while", env!("CARGO_BIN_EXE_parallel-while"), &[]),
        ("indexed-parallel", env!("CARGO_BIN_EXE_indexed-parallel"), &[]),
        ("sieve", env!("CARGO_BIN_EXE_sieve"), &["10"]),
        ("extend", env!("CARGO_BIN_EXE_extend"), &[]),
        (
            "five-stages",
            env!("CARGO_BIN_EXE_five-stages"),
            &["--window", "4", "--tokens", "1", "--stages", "0,0,0,0,0"],
        ),
        ("mandelbrot", env!("CARGO_BIN_EXE_mandelbrot"), &["--width", "16"]),
    ];
    let pictures = root().join("docs/pictures");
    let is_writing = std::env::var_os("PARIO_PICTURES").is_some_and(|value| value == "write");
    let folder = tempfile::tempdir().unwrap();
    for (example, executable, arguments) in executables {
        let name = format!("{example}.svg");
        let output = Command::new(executable)
            .args(arguments)
            .arg("--picture")
            .arg(folder.path().join(&name))
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
        let drawn = std::fs::read_to_string(folder.path().join(&name)).unwrap();
        if is_writing {
            std::fs::create_dir_all(&pictures).unwrap();
            std::fs::write(pictures.join(&name), drawn).unwrap();
        } else {
            let kept = read(Path::new("docs/pictures").join(&name));
            assert!(
                drawn == kept,
                "docs/pictures/{name} is out of date; redraw it with \
                 PARIO_PICTURES=write cargo test -p pario-examples --test suite"
            );
        }
    }
}

#[test]
fn every_picture_and_link_of_the_document_is_there() {
    let text = document();
    let targets: BTreeSet<&str> = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.starts_with("http") && !target.starts_with('#'))
        .collect();
    assert!(targets.len() > 10);
    for target in targets {
        let path = root().join("docs").join(target);
        assert!(path.exists(), "docs/flow-model.md refers to {target}, which does not exist");
    }
}

/// Blocks marked `rust,excerpt` are quoted from the examples.
#[test]
fn the_programs_of_the_document_are_those_of_the_examples() {
    let sources: Vec<String> = std::fs::read_dir(root().join("examples/src/bin"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .chain([PathBuf::from("examples/tests/suite/flow_snippets.rs")])
        .map(|path| without_indentation(&read(path)))
        .collect();
    let excerpts = fences::all(root()).into_iter().filter(|fence| fence.language == "rust,excerpt");
    let mut count = 0;
    for fence in excerpts {
        count += 1;
        let block = without_indentation(&fence.text);
        let is_quoted = sources.iter().any(|source| source.contains(&block));
        assert!(is_quoted, "{}: no example contains this:\n{block}", fence.place());
    }
    assert!(count >= 15, "only {count} blocks were found");
}

fn without_indentation(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The placements of the documents are valid and can be assigned.
#[test]
fn the_placement_of_the_document_can_be_used() {
    let placements: Vec<_> = fences::all(root())
        .into_iter()
        .filter(|fence| fence.language == "toml" && fence.text.contains("[processes]"))
        .collect();
    assert!(!placements.is_empty());
    for fence in placements {
        let placement = Placement::parse(&fence.text, &fence.place()).unwrap();
        let slots = [
            ThreadSlot { name: "Master".into(), pool: None },
            ThreadSlot { name: "Slave".into(), pool: Some(8) },
        ];
        placement.assign(&slots).unwrap();
    }
}

/// Returns the message for an invalid placement of a master and five slaves.
fn complaint(text: &str) -> String {
    let slots = [
        ThreadSlot { name: "Master".into(), pool: None },
        ThreadSlot { name: "Slave".into(), pool: Some(5) },
    ];
    match Placement::parse(text, "sieve.toml") {
        Ok(placement) => placement.assign(&slots).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_messages_about_placements_are_those_that_are_printed() {
    let with_threads =
        |threads: &str| format!("[processes]\nA = \"user\"\nBeta = {{}}\n\n[threads]\n{threads}\n");
    let files = [
        "[processes\n".to_owned(),
        "[threads]\nMaster = \"A\"\n".to_owned(),
        "[processes]\nA = {}\n".to_owned(),
        "[processes]\nA = \"user\"\nB = \"user\"\n".to_owned(),
        "[processes]\nA = \"user\"\nB = 7\n".to_owned(),
        "[processes]\nA = \"user\"\nB = { hots = \"n2\" }\n".to_owned(),
        "[processes]\nA = \"user\"\nB = { host = \"-n2\" }\n".to_owned(),
        "[processes]\nA = \"user\"\nA = {}\n".to_owned(),
        "[processes]\nA = \"user\"\n\n[pools]\nSlaves = 8\n".to_owned(),
        with_threads("Master = \"Bta\""),
        with_threads("Maste = \"A\""),
        with_threads("\"Slave[7]\" = \"Beta\""),
        with_threads("\"Slave[1-3]\" = \"Beta\""),
        with_threads("\"Slave[3..3]\" = \"Beta\""),
        with_threads("Slave = \"Beta\""),
        with_threads("\"Master[0]\" = \"A\""),
        with_threads("\"Slave[0..3]\" = \"Beta\"\n\"Slave[2..5]\" = \"A\""),
        with_threads("\"Slave[*]\" = \"Beta\""),
    ];
    let text = document();
    let mut missing = Vec::new();
    for file in files {
        let message = complaint(&file);
        if !text.contains(&message) {
            missing.push(message);
        }
    }
    assert!(missing.is_empty(), "docs/flow-model.md lacks\n{}", missing.join("\n"));
}
