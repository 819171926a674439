//! Calls by name from C, with the macros of `nx.h`: on shared files as on plain ones.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::site::{Site, describe_output, new_job, prefix, source};

fn compiled(site: &Site) -> PathBuf {
    site.compile(&source("names.c"))
}

/// Runs a part of the program as one process, with a directory for plain files.
fn run(site: &Site, part: &str, root: &Path) -> Output {
    let program = compiled(site);
    let outputs = site.run_ranks_with(1, |rank| {
        let mut command = site.rank(&program, &new_job(), 1, rank);
        command.arg(part).arg(root);
        command
    });
    outputs.into_iter().next().unwrap()
}

#[track_caller]
fn runs(site: &Site, part: &str) -> Output {
    let output = run(site, part, site.dir.path());
    assert!(output.status.success(), "{}", describe_output(&output));
    output
}

/// The same expectations hold for plain files.
#[test]
fn calls_by_name_know_shared_files() {
    let site = Site::new();
    runs(&site, "plain");
    runs(&site, "shared");
}

#[test]
fn files_that_gopen_created_are_found_by_any_name() {
    runs(&Site::new(), "any");
}

#[test]
fn a_file_does_not_move_between_the_cluster_and_the_system() {
    let output = runs(&Site::new(), "crossing");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("copy the file, and remove the old one"), "{said}");
}

/// Only root can act as another user, and sees a file that belongs to it.
#[test]
fn files_of_other_users_are_protected() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED, nothing was tested: only root can act as another user");
        return;
    }
    let site = Site::with(|config| config.nodes[0].all_users = true);
    std::fs::set_permissions(site.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let cluster = site.cluster();
    cluster.make_directory("/pfs").unwrap();
    cluster.make_directory_with_mode("/pfs/closed", 0o700).unwrap();
    cluster.create("/pfs/theirs").unwrap();
    let output = runs(&site, "theirs");
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = "writing: Permission denied: /pfs/theirs: user 65534 has the permissions 4";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn invalid_arguments_are_refused() {
    runs(&Site::new(), "arguments");
}

/// Sources that do not include `nx.h` are compiled with it all the same.
#[test]
fn the_compiler_can_include_the_header() {
    let site = Site::new();
    let text = "#include <unistd.h>\n#include <stdio.h>\n\
                int main(void) { return access(\"/pfs/there\", F_OK); }\n";
    let file = site.dir.path().join("plain.c");
    std::fs::write(&file, text).unwrap();
    let cluster = site.cluster();
    cluster.make_directory("/pfs").unwrap();
    cluster.create("/pfs/there").unwrap();
    let without = site.compile(&file);
    assert!(!site.run_ranks(&without, 1, &[])[0].status.success());
    let header = prefix().join("include/nx.h");
    let with =
        site.compile_with(&file, &["--cflags", "--libs"], &["-include", header.to_str().unwrap()]);
    site.run_ranks_ok(&with, 1, &[]);
}

/// A path that exists as a Unix file only: the error says so, and how to bring it in.
#[test]
fn an_open_names_the_unix_file_of_the_same_name() {
    let site = Site::new();
    let directory = site.dir.path().join("mypfs");
    std::fs::create_dir(&directory).unwrap();
    let file = directory.join("input");
    std::fs::write(&file, "bytes").unwrap();
    let output = run(&site, "unix", &file);
    assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    let (file, directory) = (file.display(), directory.display());
    let hint = format!(
        "No such file or directory: {file}: the cluster has no such file, but a Unix file has this \
         name: copy it into the cluster with `pario put {file} {directory}/`"
    );
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], format!("gopen: {hint}"));
    assert_eq!(lines[1], format!("open: {hint}"));
    assert!(
        lines[2].starts_with("neither: No such file") && !lines[2].contains("Unix file"),
        "{said}"
    );
    // The form that ends the process.
    assert_eq!(lines[3], format!("pario: process 0 of 1: gopen: {hint}"));
}
