//! A directory without a cluster becomes one only on request.

use crate::command::{Sandbox, stderr, stdout};

#[test]
fn a_mistyped_directory_is_refused_and_stays_as_it_is() {
    let sandbox = Sandbox::empty();
    std::fs::create_dir(sandbox.file("empty")).unwrap();
    std::fs::write(sandbox.file("x"), "x").unwrap();
    for data in ["./typo", "empty"] {
        for line in [
            "ls",
            "mkdir /a",
            "cp x pario:/x",
            "stat /",
            "df",
            "du",
            "fsck",
            "fsck --rebuild",
            "status",
            "top --once",
            "view /v",
            "volume import --phantom 8x8x8 /v",
            "image info /p",
        ] {
            let mut arguments = vec!["--data", data];
            arguments.extend(line.split(' '));
            let output = sandbox.pario(&arguments).output().unwrap();
            assert_eq!(output.status.code(), Some(5), "{line}: {}", stderr(&output));
            let told = stderr(&output);
            let begin = format!("pario: there is no cluster in {data}: ");
            assert!(told.starts_with(&begin), "{line}: {told}");
            assert!(told.contains("--create"), "{line}: {told}");
            assert!(told.contains(&format!("`pario serve --data {data}`")), "{line}: {told}");
            assert_eq!(stdout(&output), "", "{line}");
        }
    }
    assert!(!sandbox.file("typo").exists());
    assert_eq!(std::fs::read_dir(sandbox.file("empty")).unwrap().count(), 0);
}

#[test]
fn clusters_nearby_are_named() {
    let sandbox = Sandbox::empty();
    let create = |data: &str| {
        let output = sandbox.pario(&["--data", data, "--create", "mkdir", "/a"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    };
    let told = |data: &str| {
        let output = sandbox.pario(&["--data", data, "ls"]).output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
        stderr(&output).to_owned()
    };
    create("pario-data");
    assert!(told("pario-dta").contains(" (there is one in ./pario-data): "));
    // The parent directory is named instead.
    assert!(told(".").contains(" (there is one in ./pario-data): "));
    create("other");
    assert!(told("typo").contains(" (there are clusters in ./other, ./pario-data): "));
    // An existing cluster is used.
    let output = sandbox.pario(&["--data", "other", "ls"]).output().unwrap();
    assert_eq!(stdout(&output), "a/\n");
}

#[test]
fn create_is_for_a_directory() {
    let sandbox = Sandbox::empty();
    let output = sandbox.pario(&["--create", "ls"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--data"), "{}", stderr(&output));
    for line in ["ls --create --data a", "--data b ls --create", "--create ls --data c"] {
        let arguments: Vec<_> = line.split(' ').collect();
        let output = sandbox.pario(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
    }
    let both = ["--cluster", "a", "--create", "ls"];
    assert_eq!(sandbox.pario(&both).output().unwrap().status.code(), Some(2));
}

#[test]
fn run_creates_its_cluster() {
    let sandbox = Sandbox::empty();
    let output = sandbox.pario(&["run", "-n", "1", "--data", "new", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = sandbox.pario(&["--data", "new", "ls"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}
