//! A node whose namespace is gone does not start empty over full disks.

mod command;

use std::fs;

use command::{Served, Site, stderr, stdout};

/// A site with a file, whose namespace is gone.
fn robbed() -> (Site, Vec<u8>) {
    let site = Site::empty();
    let bytes = site.write("x", 300_000, 1);
    site.ok(&["mkdir", "/runs"]);
    site.ok(&["cp", "x", "/runs/x"]);
    fs::remove_file(site.file("data/namespace.redb")).unwrap();
    (site, bytes)
}

fn serve(site: &Site, options: &[&str]) -> Served {
    Served::start(site.pario(&[&["serve", "--data", "data"], options].concat()))
}

/// A start that is refused, and what is said.
fn refused(site: &Site, options: &[&str]) -> String {
    let arguments = [&["serve", "--data", "data"], options].concat();
    let output = site.pario(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    stderr(&output).to_owned()
}

#[test]
fn a_node_without_its_namespace_refuses_and_names_the_ways_out() {
    let (site, _) = robbed();
    for _ in 0..2 {
        let told = refused(&site, &[]);
        assert!(told.contains("data/namespace.redb, is missing"), "{told}");
        assert!(told.contains("its disks hold 4 subfiles"), "{told}");
        assert!(told.contains("`pario serve --rebuild`"), "{told}");
        assert!(told.contains("`pario serve --new`"), "{told}");
        assert!(!site.file("data/namespace.redb").exists());
    }
    // The same inside of a command.
    let output = site.pario(&["--data", "data", "ls"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("fsck --rebuild") && told.contains("--new"), "{told}");
    let output = site.pario(&["--data", "data", "fsck"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}

#[test]
fn a_cluster_that_had_no_files_is_known_to_have_existed() {
    let site = Site::empty();
    site.ok(&["mkdir", "/runs"]);
    fs::remove_file(site.file("data/namespace.redb")).unwrap();
    let told = refused(&site, &[]);
    assert!(told.contains("cluster.map shows that the cluster existed"), "{told}");
}

#[test]
fn names_are_rebuilt_at_the_start() {
    let (site, bytes) = robbed();
    let node = serve(&site, &["--rebuild"]);
    let output = site.pario(&["cat", "/runs/x"]).output().unwrap();
    assert!(output.stdout == bytes, "{}", stderr(&output));
    site.pario(&["stop"]).output().unwrap();
    let (_, rest) = node.wait();
    assert!(rest.starts_with("pario: 1 file rebuilt from the disks"), "{rest}");
    // Now it is there.
    let node = serve(&site, &[]);
    let output = site.pario(&["cat", "/runs/x"]).output().unwrap();
    assert!(output.stdout == bytes, "{}", stderr(&output));
    drop(node);
}

#[test]
fn names_are_rebuilt_without_a_node() {
    let (site, bytes) = robbed();
    let told = site.ok(&["fsck", "--rebuild"]);
    assert!(told.contains("rebuilt") && told.contains("/runs/x"), "{told}");
    assert!(site.run(&["cat", "/runs/x"]).stdout == bytes);
}

/// `cp` writes large files, and files that replace others, under hidden names and renames them.
#[test]
fn copies_are_rebuilt_under_their_own_names() {
    let site = Site::empty();
    let large = site.write("large", 40 << 20, 1);
    site.ok(&["mkdir", "/runs"]);
    site.ok(&["cp", "large", "/runs/large"]);
    // Its hidden name is too long to contain it.
    let long = format!("/runs/{}", "x".repeat(200));
    site.write("x", 1000, 2);
    site.ok(&["cp", "x", &long]);
    let replacing = site.write("x", 300_000, 3);
    site.ok(&["cp", "x", &long]);
    fs::remove_file(site.file("data/namespace.redb")).unwrap();
    let told = site.ok(&["fsck", "--rebuild"]);
    assert_eq!(told.matches("rebuilt").count(), 2, "{told}");
    assert!(!told.contains("guessed"), "{told}");
    assert!(site.run(&["cat", "/runs/large"]).stdout == large);
    assert!(site.run(&["cat", &long]).stdout == replacing);
}

#[test]
fn a_new_namespace_keeps_what_is_on_the_disks() {
    let (site, bytes) = robbed();
    let node = serve(&site, &["--new"]);
    let output = site.pario(&["ls"]).output().unwrap();
    assert_eq!(stdout(&output), "", "{}", stderr(&output));
    let output = site.pario(&["fsck"]).output().unwrap();
    assert_eq!(stdout(&output).matches("it was part of /runs/x").count(), 4, "{output:?}");
    let output = site.pario(&["fsck", "--rebuild"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = site.pario(&["cat", "/runs/x"]).output().unwrap();
    assert!(output.stdout == bytes, "{}", stderr(&output));
    drop(node);
    let told = refused(&site, &["--new"]);
    assert!(told.contains("start the node without --new"), "{told}");
}

#[test]
fn a_rebuild_that_was_interrupted_is_finished_or_nothing_starts() {
    let (site, bytes) = robbed();
    // As a crash leaves it: the marker is there, and the namespace is made but incomplete.
    drop(serve(&site, &["--new"]));
    fs::write(site.file("data/namespace.rebuilding"), "").unwrap();
    let told = refused(&site, &[]);
    assert!(told.contains("was not finished") && told.contains("--rebuild"), "{told}");
    let node = serve(&site, &["--rebuild"]);
    let output = site.pario(&["cat", "/runs/x"]).output().unwrap();
    assert!(output.stdout == bytes, "{}", stderr(&output));
    drop(node);
    drop(serve(&site, &[]));
}

#[test]
fn first_starts_need_no_option() {
    for options in [&[][..], &["--new"], &["--rebuild"]] {
        let site = Site::empty();
        let node = serve(&site, options);
        site.write("x", 1000, 1);
        let output = site.pario(&["cp", "x", "/x"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        drop(node);
        drop(serve(&site, &[]));
    }
    let site = Site::empty();
    let both = ["serve", "--rebuild", "--new"];
    assert_eq!(site.pario(&both).output().unwrap().status.code(), Some(2));
}
