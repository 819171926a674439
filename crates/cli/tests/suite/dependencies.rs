//! Which crate depends on which: as ARCHITECTURE.md says, and clients do not link the disk engine.
//!
//! Cargo says what the manifests mean; this test needs neither a network nor a build.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The crates of the disk engine, and the libraries that only it uses.
const DISK_ENGINE: [&str; 4] = ["pario-server", "pario-store", "io-uring", "redb"];
/// Each client with the feature that it needs beyond none.
const CLIENTS: [(&str, &str); 4] =
    [("pario", ""), ("pario-capi", ""), ("pario-image", ""), ("pario-image", "cluster")];

fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--offline", "--locked"])
        .current_dir(ROOT)
        .output()
        .unwrap_or_else(|error| panic!("`cargo {}` does not run: {error}", arguments.join(" ")));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`cargo {}` fails: {errors}", arguments.join(" "));
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

/// The name of a crate as ARCHITECTURE.md writes it: `net` for `pario-net`.
fn short(name: &str) -> &str {
    name.strip_prefix("pario-").unwrap_or(name)
}

/// The dependencies on crates of the project that the manifest of each library declares, tests and
/// build scripts left out.
fn declared() -> BTreeMap<String, BTreeSet<String>> {
    let text = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&text).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("cargo lists packages");
    let of = |package: &Value| {
        let dependencies = package["dependencies"].as_array().expect("cargo lists dependencies");
        let own = dependencies.iter().filter(|known| known["kind"].is_null());
        let own = own.filter(|known| known["path"].is_string());
        own.filter_map(|known| Some(short(known["name"].as_str()?).to_owned())).collect()
    };
    let crates = Path::new(ROOT).join("crates").canonicalize().expect("the project has crates");
    let libraries = packages.iter().filter(|package| {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        Path::new(manifest).starts_with(&crates) && package["name"] != "pario-cli"
    });
    let named = |package: &Value| {
        (short(package["name"].as_str().expect("a crate has a name")).to_owned(), of(package))
    };
    libraries.map(named).collect()
}

/// The dependencies that the section "Dependencies" lists, in clauses like "`a` and `b` on `c`;".
fn documented(architecture: &str) -> BTreeMap<String, BTreeSet<String>> {
    let section = architecture.split("\n## ").find(|section| section.starts_with("Dependencies"));
    let section = section.expect("ARCHITECTURE.md has a section \"Dependencies\"");
    let quoted = |text: &str| -> BTreeSet<String> {
        text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let mut edges = BTreeMap::new();
    // The crates that may use all follow after the sentence.
    let sentence = section.split(". ").next().unwrap_or_default();
    for clause in sentence.split(';') {
        let Some((users, used)) = clause.split_once(" on ") else { continue };
        for user in quoted(users) {
            edges.insert(user, quoted(used));
        }
    }
    let crates: BTreeSet<String> = edges.keys().cloned().collect();
    // Features are quoted too.
    edges.values_mut().for_each(|used: &mut BTreeSet<String>| used.retain(|a| crates.contains(a)));
    edges
}

#[test]
fn the_crates_depend_on_each_other_as_documented() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap();
    let (documented, declared) = (documented(&text), declared());
    let mut wrong = Vec::new();
    for (name, used) in &declared {
        let Some(listed) = documented.get(name) else {
            wrong.push(format!("ARCHITECTURE.md does not say what `{name}` depends on"));
            continue;
        };
        let undocumented = used.difference(listed);
        wrong.extend(undocumented.map(|other| {
            format!("`{name}` depends on `{other}`, and ARCHITECTURE.md does not allow it")
        }));
        let missing = listed.difference(used);
        wrong.extend(missing.map(|other| {
            format!("`{name}` does not depend on `{other}`, but ARCHITECTURE.md says so")
        }));
    }
    let gone = documented.keys().filter(|name| !declared.contains_key(*name));
    wrong.extend(gone.map(|name| format!("ARCHITECTURE.md names `{name}`, which is no crate")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn clients_do_not_link_the_disk_engine() {
    for (client, feature) in CLIENTS {
        let tree = ["tree", "-p", client, "-e", "normal", "--no-default-features"];
        let tree = [&tree[..], &["--features", feature, "--format", "{p}"]].concat();
        // The path from the client to a crate.
        let mut path: Vec<String> = Vec::new();
        for line in cargo(&[&tree[..], &["--prefix", "depth"]].concat()).lines() {
            let digits = line.chars().take_while(char::is_ascii_digit).count();
            let depth: usize = line[..digits].parse().expect("each line begins with its depth");
            path.truncate(depth);
            path.push(line[digits..].split(' ').next().unwrap_or_default().to_owned());
            assert!(
                !DISK_ENGINE.contains(&path[depth].as_str()),
                "{client} without default features (with {feature:?}) links the disk engine: {}",
                path.join(" -> ")
            );
        }
        assert!(path.len() > 1, "{client} has dependencies");
    }
}
