//! One-sided access (`armci.h`): on one machine, and with processes that act as several machines.

use std::path::Path;

use crate::site::{Site, describe_output, new_job, source};

/// Runs the program by `size` processes on `machines` machines, through another program if
/// `through` names one.
fn run(site: &Site, program: &Path, size: u32, machines: u32, through: &[&str]) {
    let (job, place) = (new_job(), site.machines(machines));
    let outputs = site.run_ranks_with(size, |rank| {
        let mut command = match through {
            [] => site.rank(program, &job, size, rank),
            [first, more @ ..] => {
                let mut command = site.rank(Path::new(first), &job, size, rank);
                command.args(more).arg(program);
                command
            }
        };
        place(&mut command, rank);
        command
    });
    for (rank, output) in outputs.iter().enumerate() {
        assert!(
            output.status.success(),
            "rank {rank}, {machines} machines: {}",
            describe_output(output)
        );
    }
    let printed = String::from_utf8_lossy(&outputs[0].stdout).into_owned();
    assert_eq!(printed, format!("{size} processes have used each other's memory\n"));
}

#[test]
fn memory_is_used_by_all_calls_on_one_machine_and_on_several() {
    let site = Site::new();
    let program = site.compile(&source("armci.c"));
    for (size, machines) in [(1, 1), (4, 1), (9, 1), (4, 2), (3, 3)] {
        run(&site, &program, size, machines, &[]);
    }
}

#[test]
fn valgrind_finds_no_memory_errors() {
    let site = Site::new();
    let program = site.compile(&source("armci.c"));
    let valgrind = ["valgrind", "--quiet", "--error-exitcode=9", "--fair-sched=yes"];
    run(&site, &program, 2, 1, &valgrind);
}
