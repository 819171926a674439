//! A node without its namespace does not start empty over full disks.

use std::fs;

use crate::command::{Sandbox, ServerProcess, stderr, stdout};

/// Returns a sandbox with a file, whose namespace is removed.
fn without_namespace() -> (Sandbox, Vec<u8>) {
    let sandbox = Sandbox::empty();
    let bytes = sandbox.write("x", 300_000, 1);
    sandbox.ok(&["mkdir", "/runs"]);
    sandbox.ok(&["cp", "x", "/runs/x"]);
    fs::remove_file(sandbox.file("data/namespace.redb")).unwrap();
    (sandbox, bytes)
}

fn serve(sandbox: &Sandbox, options: &[&str]) -> ServerProcess {
    ServerProcess::start(sandbox.pario(&[&["serve", "--data", "data"], options].concat()))
}

/// Starts a node, which must refuse, and returns its error.
fn refused(sandbox: &Sandbox, options: &[&str]) -> String {
    let arguments = [&["serve", "--data", "data"], options].concat();
    let output = sandbox.pario(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    stderr(&output).to_owned()
}

#[test]
fn a_node_without_its_namespace_refuses_and_names_the_ways_out() {
    let (sandbox, _) = without_namespace();
    for _ in 0..2 {
        let told = refused(&sandbox, &[]);
        assert!(told.contains("data/namespace.redb, is missing"), "{told}");
        assert!(told.contains("its disks hold 4 subfiles"), "{told}");
        assert!(told.contains("`pario serve --rebuild`"), "{told}");
        assert!(told.contains("`pario serve --new`"), "{told}");
        assert!(!sandbox.file("data/namespace.redb").exists());
    }
    // The same with an embedded cluster.
    let output = sandbox.pario(&["--data", "data", "ls"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("fsck --rebuild") && told.contains("--new"), "{told}");
    let output = sandbox.pario(&["--data", "data", "fsck"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}

#[test]
fn a_cluster_that_had_no_files_is_known_to_have_existed() {
    let sandbox = Sandbox::empty();
    sandbox.ok(&["mkdir", "/runs"]);
    fs::remove_file(sandbox.file("data/namespace.redb")).unwrap();
    let told = refused(&sandbox, &[]);
    assert!(told.contains("cluster.map shows that the cluster existed"), "{told}");
}

#[test]
fn names_are_rebuilt_at_the_start() {
    let (sandbox, bytes) = without_namespace();
    let node = serve(&sandbox, &["--rebuild"]);
    let output = sandbox.pario(&["cat", "/runs/x"]).output().unwrap();
    assert!(output.stdout == bytes, "{}", stderr(&output));
    sandbox.pario(&["stop"]).output().unwrap();
    let (_, rest) = node.wait();
    assert!(rest.starts_with("pario: 1 file rebuilt from the disks"), "{rest}");
    // Now the namespace exists.
    let node = serve(&sandbox, &[]);
    let output = sandbox.pario(&["cat", "/runs/x"]).output().unwrap();
    assert!(output.stdout == bytes, "{}", stderr(&output));
    drop(node);
}

#[test]
fn names_are_rebuilt_without_a_node() {
    let (sandbox, bytes) = without_namespace();
    let told = sandbox.ok(&["fsck", "--rebuild"]);
    assert!(told.contains("rebuilt") && told.contains("/runs/x"), "{told}");
    assert!(sandbox.run(&["cat", "/runs/x"]).stdout == bytes);
}

/// `cp` writes large files, and files that replace others, under hidden names and renames them.
#[test]
fn copies_are_rebuilt_under_their_own_names() {
    let sandbox = Sandbox::empty();
    let large = sandbox.write("large", 40 << 20, 1);
    sandbox.ok(&["mkdir", "/runs"]);
    sandbox.ok(&["cp", "large", "/runs/large"]);
    // Its hidden name is too long to contain it.
    let long = format!("/runs/{}", "x".repeat(200));
    sandbox.write("x", 1000, 2);
    sandbox.ok(&["cp", "x", &long]);
    let replacing = sandbox.write("x", 300_000, 3);
    sandbox.ok(&["cp", "x", &long]);
    fs::remove_file(sandbox.file("data/namespace.redb")).unwrap();
    let printed = sandbox.ok(&["fsck", "--rebuild"]);
    // The file that was replaced may be there too, under another name: a node that stops leaves the
    // removal of subfiles to its next start.
    assert!(!printed.contains("guessed"), "{printed}");
    assert!(sandbox.run(&["cat", "/runs/large"]).stdout == large);
    assert!(sandbox.run(&["cat", &long]).stdout == replacing);
}

#[test]
fn a_new_namespace_keeps_what_is_on_the_disks() {
    let (sandbox, bytes) = without_namespace();
    let node = serve(&sandbox, &["--new"]);
    let output = sandbox.pario(&["ls"]).output().unwrap();
    assert_eq!(stdout(&output), "", "{}", stderr(&output));
    let output = sandbox.pario(&["fsck"]).output().unwrap();
    assert_eq!(stdout(&output).matches("it was part of /runs/x").count(), 4, "{output:?}");
    let output = sandbox.pario(&["fsck", "--rebuild"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = sandbox.pario(&["cat", "/runs/x"]).output().unwrap();
    assert!(output.stdout == bytes, "{}", stderr(&output));
    drop(node);
    let told = refused(&sandbox, &["--new"]);
    assert!(told.contains("start the node without --new"), "{told}");
}

#[test]
fn a_rebuild_that_was_interrupted_is_finished_or_nothing_starts() {
    let (sandbox, bytes) = without_namespace();
    // The state after a crash: the marker exists, and the namespace is incomplete.
    drop(serve(&sandbox, &["--new"]));
    fs::write(sandbox.file("data/namespace.rebuilding"), "").unwrap();
    let told = refused(&sandbox, &[]);
    assert!(told.contains("was not finished") && told.contains("--rebuild"), "{told}");
    let node = serve(&sandbox, &["--rebuild"]);
    let output = sandbox.pario(&["cat", "/runs/x"]).output().unwrap();
    assert!(output.stdout == bytes, "{}", stderr(&output));
    drop(node);
    drop(serve(&sandbox, &[]));
}

#[test]
fn first_starts_need_no_option() {
    for options in [&[][..], &["--new"], &["--rebuild"]] {
        let sandbox = Sandbox::empty();
        let node = serve(&sandbox, options);
        sandbox.write("x", 1000, 1);
        let output = sandbox.pario(&["cp", "x", "/x"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        drop(node);
        drop(serve(&sandbox, &[]));
    }
    let sandbox = Sandbox::empty();
    let both = ["serve", "--rebuild", "--new"];
    assert_eq!(sandbox.pario(&both).output().unwrap().status.code(), Some(2));
}
