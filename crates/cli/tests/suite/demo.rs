//! `pario demo` as a user sees it: its output, its exit codes and what it leaves behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Output, Stdio};

use crate::command::{Sandbox, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PHASES: [&str; 12] = [
    "make_body",
    "take_slices",
    "filter",
    "copy_in",
    "copy_out",
    "compare",
    "write_extents",
    "read_extents",
    "copy_until_killed",
    "read_recovered",
    "copy_the_rest",
    "read_all",
];

fn run(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    sandbox.pario(arguments).output().expect("the binary starts")
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).expect("a directory").next().is_none()
}

#[test]
fn tables_show_phases_and_disks() {
    let (sandbox, pictures) = (Sandbox::empty(), tempfile::tempdir().unwrap());
    let place = pictures.path().to_str().unwrap();
    let output = run(&sandbox, &["demo", "--size", "32MiB", "--pictures", place]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "no progress bar in a file");
    assert!(is_empty(sandbox.path()), "the directory is removed");
    let text = stdout(&output);
    assert!(text.starts_with("32 MiB striped over 4 disks"), "{text}");
    for start in [
        "make a body",
        "take 100 slices",
        "filter an image",
        "The nodes generated a body of 225 x 128 x 386 ",
    ] {
        assert!(text.lines().any(|line| line.starts_with(start)), "{start}\n{text}");
    }
    assert!(text.contains(&format!("are in\n{place}\n")), "{text}");
    for picture in ["slice-00.png", "slice-75.png", "filtered.png", "trace.svg", "trace.json"] {
        let bytes = fs::read(pictures.path().join(picture)).unwrap();
        let head: &[u8] = match picture.rsplit('.').next() {
            Some("png") => b"\x89PNG",
            Some("svg") => b"<svg",
            _ => b"{",
        };
        assert!(bytes.starts_with(head), "{picture}");
    }
    for start in ["copy in", "copy out", "read extents", "read recovered", "local/disk3  8 MiB"] {
        assert_eq!(
            text.lines().filter(|line| line.starts_with(start)).count(),
            1,
            "{start}\n{text}"
        );
    }
    assert!(text.contains("The node was killed after it had acknowledged "), "{text}");
    assert!(text.contains("Every byte was compared."), "{text}");
    assert!(text.lines().skip(2).all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn json_has_the_same_facts_and_nothing_else() {
    let (sandbox, pictures) = (Sandbox::empty(), tempfile::tempdir().unwrap());
    let place = pictures.path().to_str().unwrap();
    let arguments = ["demo", "--size", "32MiB", "--json", "--seed", "7", "--pictures", place];
    let output = run(&sandbox, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    assert!(is_empty(sandbox.path()));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!((&report["size_bytes"], &report["seed"]), (&(32 << 20).into(), &7.into()));
    assert_eq!(report["kept"], Value::Null);
    let body = &report["body"];
    let count = |name: &str| body[name].as_u64().unwrap();
    assert_eq!((count("slices"), &body["pictures"]), (100, &place.into()));
    assert!(count("sent_bytes") > 0 && count("sent_bytes") < count("seen_bytes"), "{body}");
    assert!(count("cache_hits") <= count("extents"), "{body}");
    assert!(count("filter_written_bytes") > 0, "{body}");
    let phases = report["phases"].as_array().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| &phase["phase"]).collect();
    assert_eq!(names, PHASES);
    for phase in phases {
        assert!(phase["bytes_per_second"].as_u64().unwrap() > 0, "{phase}");
    }
    let disks = report["disks"].as_array().unwrap();
    let sum: u64 = disks.iter().map(|disk| disk["bytes"].as_u64().unwrap()).sum();
    assert_eq!((disks.len(), sum), (4, 32 << 20));
    let recovery = &report["recovery"];
    let acknowledged = recovery["acknowledged_bytes"].as_u64().unwrap();
    assert!((16 << 20..=32 << 20).contains(&acknowledged), "{recovery}");
    assert!(recovery["noticed_seconds"].as_f64().unwrap() < 3.0, "{recovery}");
}

#[test]
fn kept_disks_are_where_the_demo_says() {
    let sandbox = Sandbox::empty();
    let elsewhere = tempfile::tempdir().unwrap();
    let place = elsewhere.path().to_str().unwrap();
    let output = run(&sandbox, &["demo", "--size", "1MiB", "--keep", "--dir", place]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(is_empty(sandbox.path()));
    // Pictures stay beside the disks.
    let (pictures, kept): (Vec<_>, Vec<_>) = fs::read_dir(&elsewhere)
        .unwrap()
        .flatten()
        .partition(|entry| entry.file_name() == "pario-demo-pictures");
    assert_eq!(pictures.len(), 1);
    let [kept] = &kept[..] else {
        panic!("{kept:?}");
    };
    assert!(stdout(&output).contains(kept.path().to_str().unwrap()));
    let output =
        sandbox.pario(&["--data"]).arg(kept.path().join("node")).arg("ls").output().unwrap();
    assert_eq!(stdout(&output), "demo\n", "{}", stderr(&output));
}

#[test]
fn a_place_that_cannot_be_used_is_told() {
    let sandbox = Sandbox::empty();
    fs::write(sandbox.file("file"), "in the way").unwrap();
    for (place, reason) in
        [("file", "not a directory"), ("file/below", "not a directory"), ("nowhere", "not found")]
    {
        let output = run(&sandbox, &["demo", "--size", "1MiB", "--dir", place]);
        assert_eq!(output.status.code(), Some(1), "{place}");
        assert_eq!(stdout(&output), "");
        let told = stderr(&output);
        assert!(
            told.starts_with(&format!("pario: cannot create a directory in {place}: ")),
            "{told}"
        );
        assert!(told.contains(reason) && told.contains("--dir"), "{told}");
    }
    let output = run(&sandbox, &["demo", "--data", "x"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn too_little_space_is_told_before_anything_is_written() {
    let sandbox = Sandbox::empty();
    let output = run(&sandbox, &["demo", "--size", "100PiB"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    let told = stderr(&output);
    assert!(told.starts_with("pario: not enough space in "), "{told}");
    assert!(told.contains("are free") && told.contains("--size"), "{told}");
    assert!(is_empty(sandbox.path()));
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let sandbox = Sandbox::empty();
    // Large enough to be interrupted for sure: the signal is sent shortly after the start.
    let mut child = sandbox
        .pario(&["demo", "--size", "512MiB"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("over 4 disks"), "{line}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{rest}");
    assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
    assert!(is_empty(sandbox.path()), "the directory is removed");
}
