//! Programs that use the memory of all processes, on one machine and as if on several.

use std::path::Path;

use crate::site::{Site, new_job, source, told};

/// Runs the program by so many, with as many machines as there are names, in turn.
fn run(site: &Site, program: &Path, size: u32, machines: u32, through: &[&str]) {
    let (job, place) = (new_job(), site.machines(machines));
    let outputs = site.ranks_by(size, |rank| {
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
        assert!(output.status.success(), "rank {rank}, {machines} machines: {}", told(output));
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
fn memory_errors_are_none() {
    let site = Site::new();
    let program = site.compile(&source("armci.c"));
    let valgrind = ["valgrind", "--quiet", "--error-exitcode=9", "--fair-sched=yes"];
    run(&site, &program, 2, 1, &valgrind);
}
