//! `pario demo` as a user sees it: the built binary, its output, its exit codes and what it leaves
//! behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PHASES: [&str; 8] = [
    "fill",
    "read_uncached",
    "read_cold",
    "read_warm",
    "rewrite",
    "delete",
    "compact",
    "read_again",
];

/// Extents of 51 KiB in 8 MiB.
const EXTENTS: u64 = 160;

fn pario(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pario"));
    command.current_dir(dir).args(arguments);
    command
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    pario(dir, arguments).output().expect("the binary starts")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("text")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("text")
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).expect("a directory").next().is_none()
}

#[test]
fn tables_show_phases_and_disks() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["demo", "--size", "8MiB"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "no progress bar in a file");
    assert!(is_empty(dir.path()), "the directory is removed");

    let text = stdout(&output);
    let starting = |start: &str| {
        let mut lines = text.lines().filter(|line| line.starts_with(start));
        let line = lines.next().unwrap_or_else(|| panic!("{start}:\n{text}"));
        assert!(lines.next().is_none(), "{start} twice:\n{text}");
        line
    };
    let phases = [
        "phase",
        "fill",
        "read, no",
        "read, cold",
        "read, warm",
        "rewrite",
        "delete",
        "compact",
        "read all",
    ];
    let disks = ["disk ", "disk0", "disk1", "disk2", "disk3", "total"];
    for table in [&phases[..], &disks[..]] {
        let widths = table.iter().map(|start| starting(start).chars().count());
        let widths: Vec<_> = widths.collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "\n{text}");
        assert!(widths[0] <= 80, "\n{text}");
    }
    assert!(starting("fill").contains("B/s"));
    assert!(starting("read, cold").ends_with(" 0"));
    assert!(starting("read, warm").ends_with(" 160"));
    let served = starting("Served by ");
    assert!(served.contains("io_uring") || served.contains("threads"));
}

#[test]
fn json_has_the_same_facts_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["demo", "--size", "8MiB", "--json", "--seed", "7"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    assert!(is_empty(dir.path()));

    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["size_bytes"], 8 << 20);
    assert_eq!(report["seed"], 7);
    assert!(["io_uring", "threads"].contains(&report["engine"].as_str().unwrap()));
    assert_eq!(report["kept"], Value::Null);

    let phases = report["phases"].as_array().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| &phase["phase"]).collect();
    assert_eq!(names, PHASES);
    for phase in &phases[..4] {
        assert_eq!(phase["extents"], EXTENTS);
        assert_eq!(phase["bytes"], EXTENTS * (51 << 10));
        assert!(phase["bytes_per_second"].as_u64().unwrap() > 0);
    }
    let hits: Vec<_> = phases.iter().map(|phase| &phase["cache_hits"]).collect();
    let (none, zero, all) = (Value::Null, Value::from(0), Value::from(EXTENTS));
    assert_eq!(hits, [&none, &none, &zero, &all, &none, &none, &none, &none]);
    assert_eq!(phases[4]["extents"], EXTENTS / 3);
    assert_eq!(phases[5]["extents"], EXTENTS / 10);
    assert_eq!(phases[7]["extents"], EXTENTS - EXTENTS / 10);

    let disks = report["disks"].as_array().unwrap();
    assert_eq!(disks.len(), 4);
    for fact in ["extents", "live_bytes", "disk_bytes"] {
        let sum: u64 = disks.iter().map(|disk| disk[fact].as_u64().unwrap()).sum();
        assert_eq!(report["total"][fact], sum, "{fact}");
    }
    assert_eq!(report["total"]["extents"], phases[7]["extents"]);
    assert_eq!(report["total"]["live_bytes"], phases[7]["bytes"]);
    let ratio = report["total"]["ratio"].as_f64().unwrap();
    assert!((1.0..1.2).contains(&ratio), "{ratio}");
}

#[test]
fn a_seed_repeats_the_demo() {
    let dir = tempfile::tempdir().unwrap();
    let stored = |seed: &str| {
        let output = run(dir.path(), &["demo", "--size", "2MiB", "--json", "--seed", seed]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        report["total"]["live_bytes"].clone()
    };
    assert_eq!(stored("3"), stored("3"));
    assert_ne!(stored("3"), stored("4"));
}

#[test]
fn kept_disks_are_where_the_demo_says() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let place = elsewhere.path().to_str().unwrap();
    let arguments = ["demo", "--size", "1MiB", "--keep", "--dir", place];
    let output = run(dir.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(is_empty(dir.path()));

    let kept: Vec<_> = fs::read_dir(&elsewhere).unwrap().flatten().collect();
    let [kept] = &kept[..] else {
        panic!("{kept:?}");
    };
    let kept = kept.path();
    assert!(stdout(&output).contains(kept.to_str().unwrap()));
    for number in 0..4 {
        let disk = kept.join(format!("disk{number}"));
        assert!(disk.join("pario.disk").is_file(), "{}", disk.display());
    }

    let output = run(dir.path(), &[&arguments[..], &["--json"]].concat());
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert!(Path::new(report["kept"].as_str().unwrap()).is_dir());
}

#[test]
fn wrong_usage_is_told_with_code_2() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, told) in [
        (&[][..], "Usage"),
        (&["dmeo"], "demo"),
        (&["demo", "--sizes", "8MiB"], "--size"),
        (&["demo", "--size", "8 parsecs"], "64MiB"),
        (&["demo", "--size", "-8MiB"], "64MiB"),
        (&["demo", "--size", "1KiB"], "too small; the least is 1.0 MiB"),
        (&["demo", "--seed", "x"], "--seed"),
    ] {
        let output = run(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(stdout(&output), "", "{arguments:?}");
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
        assert!(is_empty(dir.path()));
    }
}

#[test]
fn help_and_version_are_there() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, told) in [
        (&["--help"][..], &["pario demo", "Exit codes", "Examples"][..]),
        (
            &["demo", "--help"],
            &["--size", "--dir", "--keep", "--json", "--seed", "Exit codes", "Examples"],
        ),
        (&["--version"], &[concat!("pario ", env!("CARGO_PKG_VERSION"))]),
    ] {
        let output = run(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        for told in told {
            assert!(stdout(&output).contains(told), "{arguments:?}: {told}");
        }
    }
}

#[test]
fn a_place_that_cannot_be_used_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "in the way").unwrap();
    for (place, reason) in
        [("file", "not a directory"), ("file/below", "not a directory"), ("nowhere", "not found")]
    {
        for json in [&[][..], &["--json"]] {
            let arguments = [&["demo", "--size", "1MiB", "--dir", place], json].concat();
            let output = run(dir.path(), &arguments);
            assert_eq!(output.status.code(), Some(1), "{place}");
            assert_eq!(stdout(&output), "");
            let told = stderr(&output);
            let expected = format!("pario: cannot make a directory in {place}: ");
            assert!(told.starts_with(&expected), "{told}");
            assert!(told.contains(reason) && told.contains("--dir"), "{told}");
            assert_eq!(told.lines().count(), 1, "{told}");
        }
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "in the way");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn too_little_space_is_told_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["demo", "--size", "100PiB"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    let told = stderr(&output);
    assert!(told.starts_with("pario: not enough space in "), "{told}");
    assert!(told.contains("are free") && told.contains("--size"), "{told}");
    assert!(is_empty(dir.path()));
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    // Long enough to be interrupted for sure: the signal is sent when it has just begun.
    let mut child = pario(dir.path(), &["demo", "--size", "1GiB"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("over 4 disks"), "{line}");
    assert!(!is_empty(dir.path()));

    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{rest}");
    assert!(!rest.contains("Served by"), "{rest}");
    assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
    assert!(is_empty(dir.path()), "the directory is removed");
}

#[test]
fn a_reader_that_has_gone_is_no_reason_to_panic() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = pario(dir.path(), &["demo", "--size", "1MiB"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "");
    assert!(is_empty(dir.path()));
}
