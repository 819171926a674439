//! The preload library, with programs that were not compiled for shared files: which names it
//! takes, streams of stdio, files without names, Fortran, and its report.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::site::{Site, describe_output, output, prefix, run_ok, source};

fn compiled(site: &Site) -> PathBuf {
    site.compile_with(&source("streams.c"), &["--cflags"], &[])
}

/// Returns a command with the preload library and its report.
fn helped(site: &Site, program: &Path, arguments: &[&str]) -> Command {
    let mut command = site.command(program);
    command
        .args(arguments)
        .env("LD_PRELOAD", prefix().join("lib/libpario_preload.so"))
        .env("PARIO_PRELOAD_REPORT", "1");
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the lines of a report, without process id and program name.
fn report(output: &Output) -> Vec<String> {
    let said = stderr(output);
    said.lines().map(|line| line.split_once("): ").map_or(line, |(_, rest)| rest).into()).collect()
}

#[test]
fn streams_of_shared_files_behave_like_plain_streams() {
    let site = Site::new();
    let program = compiled(&site);
    // The same program on a plain file: its expectations hold there too.
    run_ok(site.command(&program).args(["modes", "plain"]));
    for short_cut in ["0", "1"] {
        let mut command = helped(&site, &program, &["modes", "/pfs/streams"]);
        let said = report(&run_ok(command.env("PARIO_SHORT_CUT", short_cut)));
        let match_line = "fopen of \"/pfs/streams\" is a shared file: the name contains \"pfs\" (set \
                          PARIO_PREFIX to a directory to limit shared files to it)";
        assert_eq!(said.iter().filter(|line| *line == match_line).count(), 1, "{said:#?}");
        assert!(said.last().unwrap().contains("fopen 7, fdopen 1"), "{said:#?}");
        assert_eq!(site.content("/pfs/streams"), b"by descriptor\n");
    }
    run_ok(&mut helped(&site, &program, &["refused", "/pfs/refused"]));
    assert_eq!(site.content("/pfs/refused"), b"still here");
}

#[test]
fn streams_left_open_are_written_at_exit() {
    let site = Site::new();
    run_ok(&mut helped(&site, &compiled(&site), &["open", "/pfs/left"]));
    assert_eq!(site.content("/pfs/left"), b"never closed\n");
}

#[test]
fn a_file_without_a_name_leaves_nothing() {
    let site = Site::new();
    let program = compiled(&site);
    site.cluster().make_directory("/pfs").unwrap();
    let said = report(&run_ok(&mut helped(&site, &program, &["unnamed", "/pfs"])));
    assert!(said[0].starts_with("open of \"/pfs\" is a shared file"), "{said:#?}");
    let failed =
        "open of \"/pfs\" failed: Invalid argument: /pfs: O_TMPFILE needs O_WRONLY or O_RDWR";
    assert!(said[1].starts_with(failed), "{said:#?}");
    assert_eq!(site.cluster().list("/pfs").unwrap().count(), 0);
    let missing = output(&mut helped(&site, &program, &["unnamed", "/pfs/missing"]));
    let said = report(&missing);
    assert!(said[1].contains("failed: No such file or directory: /pfs/missing"), "{said:#?}");
}

#[test]
fn a_prefix_limits_shared_files_to_one_directory() {
    let site = Site::new();
    let program = compiled(&site);
    let plain = site.dir.path().join("gpfs");
    std::fs::create_dir(&plain).unwrap();
    let plain = plain.join("x");
    let plain = plain.to_str().unwrap();

    // The manual's rule takes it; the report says so.
    let said = report(&run_ok(&mut helped(&site, &program, &["simply", plain])));
    let caught = format!("fopen of \"{plain}\" is a shared file: the name contains \"pfs\"");
    assert!(said[0].starts_with(&caught), "{said:#?}");
    assert_eq!(site.content(plain), b"bytes\n");
    assert!(!Path::new(plain).exists());

    let below = |value: &str, name: &str| {
        output(helped(&site, &program, &["simply", name]).env("PARIO_PREFIX", value))
    };
    let said = below("/scratch/pario", plain);
    assert!(said.status.success(), "{}", describe_output(&said));
    assert_eq!(report(&said).len(), 1, "nothing was taken: {}", describe_output(&said));
    assert_eq!(std::fs::read(plain).unwrap(), b"bytes\n");
    let said = below("/scratch/pario", "/scratch/pario/x");
    assert!(said.status.success(), "{}", describe_output(&said));
    let reason = "fopen of \"/scratch/pario/x\" is a shared file: the name is below PARIO_PREFIX \
                  (/scratch/pario)";
    assert_eq!(report(&said)[0], reason);
    assert_eq!(site.content("/scratch/pario/x"), b"bytes\n");

    // The library reports a value that names no directory, and the program writes nothing anywhere.
    let said = below("pfs", "/pfs/x");
    assert!(!said.status.success());
    let why = "failed: PFSLib: Invalid argument: /pfs/x: PARIO_PREFIX is \"pfs\"";
    assert!(report(&said)[1].contains(why), "{}", describe_output(&said));
}

#[test]
fn calls_that_are_passed_on_are_reported() {
    let site = Site::new();
    let program = compiled(&site);
    let said = report(&run_ok(&mut helped(&site, &program, &["passed", "/pfs/x"])));
    for (line, call) in said.iter().zip(["realpath", "readlink", "symlink", "freopen"]) {
        let expected = format!(
            "{call} of \"/pfs/x\" goes to the system although the name is that of a shared file: "
        );
        assert!(line.starts_with(&expected), "{said:#?}");
    }
    assert_eq!(said.len(), 5, "{said:#?}");
    // A plain name is not reported.
    let said = report(&run_ok(&mut helped(&site, &program, &["passed", "/nowhere/x"])));
    assert_eq!(said.len(), 1, "{said:#?}");
}

#[test]
fn calls_by_name_are_taken_and_reported() {
    let site = Site::new();
    let program = compiled(&site);
    // The same program on a plain file: its expectations hold there too.
    let plain = site.dir.path().join("own");
    std::fs::create_dir(&plain).unwrap();
    run_ok(site.command(&program).arg("taken").arg(plain.join("x")));
    let said = report(&run_ok(&mut helped(&site, &program, &["taken", "/pfs/x"])));
    let is_said = |start: &str| said.iter().any(|line| line.starts_with(start));
    assert!(is_said("stat of \"/pfs/x\" is a shared file: the name contains"), "{said:#?}");
    assert!(is_said("access of \"/pfs/x\" failed: No such file or directory"), "{said:#?}");
    assert!(is_said("opendir of \"/pfs\" is a shared file"), "{said:#?}");
    let counts = said.last().unwrap();
    assert!(counts.contains("access 2, stat 2, opendir 1, readdir 4, closedir 1"), "{said:#?}");
}

#[test]
fn a_failure_is_reported_with_its_cause() {
    let mut site = Site::new();
    site.stop();
    let said = output(&mut helped(&site, &compiled(&site), &["simply", "/pfs/x"]));
    assert!(!said.status.success());
    let said = report(&said);
    assert!(said[1].starts_with("fopen of \"/pfs/x\" failed: PFSLib: "), "{said:#?}");
    assert!(!said[1].contains("An error occurred on the server side"), "{said:#?}");
}

#[test]
fn a_fortran_program_opens_shared_files_as_any_other() {
    let site = Site::new();
    let program = site.dir.path().join("plain");
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fortran/plain.f90");
    run_ok(Command::new("gfortran").arg(text).arg("-o").arg(&program));
    run_ok(&mut helped(&site, &program, &["/pfs/fortran"]));
    let lines: String = (1..=1000).map(|at| format!("line {at}\n")).collect();
    assert_eq!(String::from_utf8(site.content("/pfs/fortran")).unwrap(), lines);
    let names: Vec<String> =
        site.cluster().list_names("/pfs").unwrap().map(|entry| entry.unwrap().name).collect();
    assert_eq!(names, ["fortran"]);
}
