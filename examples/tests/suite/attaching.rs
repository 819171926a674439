//! The example of a resident program and of processes that attach to it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

const ATTACH: &str = env!("CARGO_BIN_EXE_attach");

/// A resident program, and what it printed.
struct Resident {
    process: Child,
    line: String,
}

impl Resident {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(ATTACH)
            .args(arguments)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, line: line.trim().to_owned() }
    }

    /// Ends its standard input.
    fn stop(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

fn attach(arguments: &[&str]) -> Output {
    Command::new(ATTACH).args(arguments).output().unwrap()
}

fn prints(arguments: &[&str], text: &str) {
    let output = attach(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{arguments:?}: {errors}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text, "{arguments:?}");
}

#[test]
fn clients_attach_by_name() {
    let name = format!("example of {}", std::process::id());
    let named = ["--name", &name];
    let missing = attach(&[&named[..], &["count", "a"]].concat());
    assert!(!missing.status.success());
    let text = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(text.contains(&format!("program {name} was not found at unix=")), "{text}");
    let resident = Resident::start(&named);
    assert_eq!(resident.line, "serving");
    let text = "the cat and The dog";
    let counts = "  1 and\n  1 cat\n  1 dog\n  2 the\n";
    prints(&[&named[..], &["count", text]].concat(), counts);
    prints(&[&named[..], &["longest", "the cat and the Mouse"]].concat(), "mouse\n");
    let second = Command::new(ATTACH).args(named).arg("serve").stdin(Stdio::null()).output();
    let second = second.unwrap();
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    let first = resident.process.id();
    assert!(text.contains(&format!("process {first} runs a program of this name")), "{text}");
    resident.stop();
}

#[test]
fn clients_attach_over_tcp_with_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "5a".repeat(32)).unwrap();
    let wrong = folder.path().join("wrong");
    std::fs::write(&wrong, "5b".repeat(32)).unwrap();
    let name = format!("tcp example of {}", std::process::id());
    let with = |address: &str, key: &std::path::Path| -> Vec<String> {
        let key = key.to_str().unwrap();
        ["--name", &name, "--tcp", address, "--key-file", key].map(str::to_owned).to_vec()
    };
    let serve = with("127.0.0.1:0", &key);
    let resident = Resident::start(&serve.iter().map(String::as_str).collect::<Vec<_>>());
    let address = resident.line.strip_prefix("serving at ").unwrap().to_owned();
    let count = |key: &std::path::Path| {
        let mut arguments = with(&address, key);
        arguments.extend(["count", "a b a"].map(str::to_owned));
        attach(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!(String::from_utf8(count(&key).stdout).unwrap(), "  2 a\n  1 b\n");
    let refused = count(&wrong);
    assert!(!refused.status.success());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("cannot attach to program") && text.contains("key"), "{text}");
    resident.stop();
}
