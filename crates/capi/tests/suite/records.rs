//! Record files (`gio.h`), from C; no node runs.

use std::path::Path;
use std::process::Command;

use crate::site::{Site, describe_output, example, new_job, prefix, run_ok, source};

/// Runs a part of the program as all processes of a job, through another program if `before` names
/// one.
fn is_fine(site: &Site, program: &Path, size: u32, part: &str, before: &[&str]) {
    is_fine_on(site, program, (size, 1), part, before);
}

/// The same, on several machines.
fn is_fine_on(
    site: &Site,
    program: &Path,
    (size, machines): (u32, u32),
    part: &str,
    before: &[&str],
) {
    let (job, place) = (new_job(), site.machines(machines));
    let outputs = site.run_ranks_with(size, |rank| {
        let first = before.first().map_or(program, Path::new);
        let mut command = site.rank(first, &job, size, rank);
        if !before.is_empty() {
            command.args(&before[1..]).arg(program);
        }
        command.arg(part);
        place(&mut command, rank);
        command
    });
    for (rank, output) in outputs.iter().enumerate() {
        assert!(output.status.success(), "{part}, rank {rank}: {}", describe_output(output));
    }
}

#[test]
fn calls_do_what_the_header_says() {
    let site = Site::new();
    let program = site.compile(&source("records.c"));
    for size in [1, 2, 5] {
        is_fine(&site, &program, size, "calls", &[]);
    }
}

#[test]
fn calls_do_the_same_on_several_machines() {
    let site = Site::new();
    let program = site.compile(&source("records.c"));
    for shape in [(2, 2), (5, 2), (4, 4)] {
        is_fine_on(&site, &program, shape, "calls", &[]);
    }
}

#[test]
fn parts_are_in_a_directory_and_records_in_some_parts() {
    let site = Site::new();
    let program = site.compile(&source("records.c"));
    for shape in [(1, 1), (3, 1), (4, 2)] {
        is_fine_on(&site, &program, shape, "directory", &[]);
    }
}

#[test]
fn reads_through_a_cache_see_every_write() {
    let site = Site::new();
    let program = site.compile(&source("records.c"));
    for shape in [(2, 1), (3, 3), (4, 2)] {
        is_fine_on(&site, &program, shape, "cached", &[]);
    }
}

#[test]
fn invalid_arguments_are_refused() {
    let site = Site::new();
    let program = site.compile(&source("records.c"));
    is_fine(&site, &program, 1, "arguments", &[]);
}

#[test]
fn a_forked_process_is_not_in_the_job() {
    let site = Site::new();
    let program = site.compile(&source("records.c"));
    is_fine(&site, &program, 2, "forked", &[]);
}

#[test]
fn valgrind_finds_no_memory_errors() {
    let site = Site::new();
    let program = site.compile(&source("records.c"));
    let valgrind = ["valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full"];
    let more =
        ["--errors-for-leak-kinds=definite", "--show-leak-kinds=definite", "--fair-sched=yes"];
    let valgrind = [&valgrind[..], &more].concat();
    is_fine(&site, &program, 2, "calls", &valgrind);
    is_fine_on(&site, &program, (2, 2), "calls", &valgrind);
    is_fine(&site, &program, 1, "arguments", &valgrind);
}

const SAID: &str = "10007 values over the disks of";

/// The example under MPI launchers, which say rank and size in their own variables.
#[test]
fn the_example_runs_under_all_launchers() {
    let site = Site::new();
    let program = site.compile(&example("records.c"));
    for size in [1, 4, 9] {
        let printed = site.run_ranks_ok(&program, size, &[]);
        assert!(printed.contains(SAID), "{printed}");
    }
    let open_mpi = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"];
    for (launcher, size) in [(&open_mpi[..], "4"), (&["mpirun.mpich"], "3")] {
        let mut command: Command = site.command(launcher[0]);
        command.args(&launcher[1..]).args(["-n", size]).arg(&program);
        for variable in ["PARIO_RANK", "PARIO_SIZE", "PARIO_JOB"] {
            command.env_remove(variable);
        }
        let printed = String::from_utf8(run_ok(&mut command).stdout).unwrap();
        assert!(printed.contains(SAID), "{launcher:?}: {printed}");
    }
    let left = std::fs::read_dir(site.dir.path()).unwrap();
    let left = left
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("example"));
    assert_eq!(left.count(), 0);
    assert!(prefix().join("include/gio.h").exists());
}
