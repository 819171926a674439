//! The documents in the root of the project name only existing paths, and the code map names every
//! crate.
//!
//! A path stands between single backticks in a line of text and begins with one of the folders
//! below, or is a file of the root: `README.md`, `./test`. Blocks of code are ignored.

use std::fs;
use std::path::{Path, PathBuf};

const FOLDERS: [&str; 7] = ["crates", "tools", "docs", "examples", "fuzz", "packaging", ".ci"];
const ROOT_FILE_ENDINGS: [&str; 3] = [".md", ".toml", ".lock"];
/// Placeholders: only the path before them can be checked.
const PLACEHOLDERS: [char; 5] = ['*', '{', '<', '…', '$'];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document(name: &str) -> String {
    let path = root().join(name);
    fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{name} must be in the root of the project: {error}"))
}

/// Returns the paths in a text.
fn paths(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let prose = text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        !is_code && !fence
    });
    prose
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|quoted| is_path(quoted))
        .collect()
}

fn is_path(quoted: &str) -> bool {
    if quoted.is_empty() || quoted.contains(char::is_whitespace) {
        return false;
    }
    match quoted.split_once('/') {
        Some((".", rest)) => !rest.is_empty(),
        Some((folder, _)) => FOLDERS.contains(&folder),
        None => ROOT_FILE_ENDINGS.iter().any(|ending| quoted.ends_with(ending)),
    }
}

/// Returns the part of a path before placeholders.
fn certain(path: &str) -> PathBuf {
    path.split('/').take_while(|part| !part.contains(PLACEHOLDERS)).collect()
}

/// Returns the crates in a folder of the project.
fn crates_in(folder: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root().join(folder)) else {
        return Vec::new();
    };
    let entries = entries.map(|entry| entry.expect("a folder of the project can be read"));
    entries
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .map(|entry| format!("{folder}/{}", entry.file_name().display()))
        .collect()
}

/// Returns whether a text names a folder, and not only a longer name.
fn names(text: &str, folder: &str) -> bool {
    text.match_indices(folder).any(|(start, _)| {
        let next = text[start + folder.len()..].chars().next();
        !next.is_some_and(|next| next.is_alphanumeric() || next == '-' || next == '_')
    })
}

#[test]
fn every_path_that_is_named_exists() {
    for name in ["ARCHITECTURE.md", "README.md"] {
        let text = document(name);
        let missing: Vec<_> =
            paths(&text).into_iter().filter(|path| !root().join(certain(path)).exists()).collect();
        assert!(missing.is_empty(), "{name} names what is not there: {missing:?}");
    }
}

#[test]
fn every_crate_is_named() {
    let text = document("ARCHITECTURE.md");
    let crates = ["crates", "tools"].into_iter().flat_map(crates_in);
    let missing: Vec<_> = crates.filter(|found| !names(&text, found)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md leaves out: {missing:?}");
}

#[test]
fn paths_are_told_from_other_words() {
    let text = "See `crates/store/src/lib.rs`, `docs/`, `README.md` and `./test`; `Queue::wait` \
                is no path, `cargo run -p x` neither, `ID.flat` and `a/b` neither.\n\
                ```\n`crates/in-a-block`\n```\n\
                All of `crates/*/Cargo.toml` and `crates/store/src/{lib,disk}.rs`.";
    let found = [
        "crates/store/src/lib.rs",
        "docs/",
        "README.md",
        "./test",
        "crates/*/Cargo.toml",
        "crates/store/src/{lib,disk}.rs",
    ];
    assert_eq!(paths(text), found);
    assert_eq!(certain("crates/*/Cargo.toml"), Path::new("crates"));
    assert_eq!(certain("crates/a/b.rs"), Path::new("crates/a/b.rs"));
    assert!(names("in `crates/net/src`", "crates/net"));
    assert!(!names("in `crates/network`", "crates/net"));
    assert!(crates_in("crates").contains(&"crates/cli".to_owned()));
}
