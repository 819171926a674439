//! Output without a cluster: help, version, completions, manual pages.

use crate::command::{Sandbox, stderr, stdout};

const COMMANDS: [&str; 31] = [
    "serve",
    "run",
    "stop",
    "status",
    "why",
    "reset",
    "top",
    "ls",
    "mkdir",
    "rmdir",
    "rm",
    "mv",
    "cp",
    "put",
    "get",
    "cat",
    "stat",
    "chmod",
    "chown",
    "df",
    "du",
    "compact",
    "fsck",
    "operation",
    "image",
    "volume",
    "view",
    "demo",
    "systemd",
    "completions",
    "man",
];

/// Subcommands.
const BELOW: [&str; 14] = [
    "operation-add",
    "operation-list",
    "operation-show",
    "operation-remove",
    "operation-test",
    "image-import",
    "image-export",
    "image-info",
    "image-apply",
    "volume-import",
    "volume-export",
    "volume-info",
    "volume-slice",
    "volume-bench",
];

#[test]
fn every_command_has_help_with_examples_and_exit_codes() {
    let sandbox = Sandbox::empty();
    let all = sandbox.pario(&["--help"]).output().unwrap();
    for name in COMMANDS {
        assert!(stdout(&all).contains(&format!("\n  {name} ")), "{name}");
        let output = sandbox.pario(&[name, "--help"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}");
        let text = stdout(&output);
        for told in ["Usage: pario", "Examples:", "Exit codes:", "--json", "--cluster"] {
            assert!(text.contains(told), "{name}: {told}\n{text}");
        }
    }
}

#[test]
fn the_version_is_there() {
    let output = Sandbox::empty().pario(&["--version"]).output().unwrap();
    assert_eq!(stdout(&output), concat!("pario ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn wrong_usage_is_told_with_code_2() {
    let sandbox = Sandbox::empty();
    for (arguments, told) in [
        (&[][..], "Usage"),
        (&["stauts"], "status"),
        (&["ls", "--lang"], "--long"),
        (&["cp", "x"], "PATH"),
        (&["mv", "/x"], "PATH"),
        (&["cp", "--unit", "0", "x", "/y"], "larger than 0"),
        (&["cp", "--unit", "big", "x", "/y"], "64KiB"),
        (&["cp", "--disks", "0", "x", "/y"], "at least one disk"),
        (&["cat", "--offset", "-1", "/x"], "--offset"),
        (&["--timeout", "0", "ls"], "seconds"),
        (&["--data", "a", "--cluster", "b", "ls"], "cannot be used with"),
        (&["serve", "--config", "x"], "--node"),
        (&["completions", "cmd"], "bash"),
        (&["demo", "--size", "8 parsecs"], "not a size"),
        (&["demo", "--size", "1KiB"], "too small; the smallest is 1 MiB"),
    ] {
        let output = sandbox.pario(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{arguments:?}");
        assert!(stderr(&output).starts_with("pario: "), "{arguments:?}: {}", stderr(&output));
        let output = sandbox.pario(arguments).arg("--json").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{arguments:?}");
        let json: serde_json::Value = serde_json::from_str(stderr(&output)).unwrap();
        assert_eq!(json["exit_code"], 2, "{arguments:?}");
        let output = sandbox.pario(arguments).output().unwrap();
        assert!(stderr(&output).contains(told), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn shells_can_complete_every_command() {
    let sandbox = Sandbox::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = sandbox.pario(&["completions", shell]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{shell}");
        for name in COMMANDS {
            assert!(stdout(&output).contains(name), "{shell}: {name}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let sandbox = Sandbox::empty();
    let output = sandbox.pario(&["man", "pages/man1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let dir = sandbox.file("pages/man1");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), COMMANDS.len() + BELOW.len() + 1);
    for name in COMMANDS.into_iter().chain(BELOW) {
        let page = std::fs::read_to_string(dir.join(format!("pario-{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains("Exit codes"), "{name}");
    }
    assert!(dir.join("pario.1").is_file());
}
