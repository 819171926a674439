//! One-sided access (`armci.h`): on one machine, and with processes that act as several machines.

use std::path::Path;
use std::process::Command;

use crate::site::{Site, describe_output, new_job, run_ok, source};

/// Runs the program by `size` processes on `machines` machines, through another program if
/// `through` names one. Returns what the first process has printed.
fn run(site: &Site, program: &Path, size: u32, machines: u32, through: &[&str]) -> String {
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
        command.arg(machines.to_string());
        command
    });
    for (rank, output) in outputs.iter().enumerate() {
        assert!(
            output.status.success(),
            "rank {rank}, {machines} machines: {}",
            describe_output(output)
        );
    }
    String::from_utf8_lossy(&outputs[0].stdout).into_owned()
}

#[test]
fn memory_is_used_by_all_calls_on_one_machine_and_on_several() {
    let site = Site::new();
    let program = site.compile(&source("armci.c"));
    for (size, machines) in [(1, 1), (4, 1), (9, 1), (4, 2), (3, 3)] {
        let printed = run(&site, &program, size, machines, &[]);
        assert_eq!(printed, format!("{size} processes have used each other's memory\n"));
    }
}

#[test]
fn the_message_layer_and_groups_work_on_one_machine_and_on_several() {
    let site = Site::new();
    let program = site.compile_with(&source("armci_messages.c"), &["--cflags", "--libs"], &["-lm"]);
    for (size, machines) in [(1, 1), (4, 1), (9, 1), (5, 2), (4, 4)] {
        let printed = run(&site, &program, size, machines, &[]);
        assert_eq!(printed, format!("{size} processes have sent messages\n"));
    }
}

#[test]
fn a_handle_is_used_again_and_late_data_is_dropped_on_one_machine_and_on_several() {
    let site = Site::new();
    let program = site.compile(&source("armci_handles.c"));
    for (size, machines) in [(3, 1), (2, 2), (4, 2)] {
        let printed = run(&site, &program, size, machines, &[]);
        assert_eq!(printed, "process 0 ends\n");
    }
}

/// A process that ends while others wait for its message, its notification or its part in a group
/// is named to them.
#[test]
fn a_process_that_is_missing_is_named_to_those_that_wait_for_it() {
    let site = Site::new();
    let program = site.compile(&source("armci_missing.c"));
    for (what, machines) in [("message", 1), ("any", 2), ("group", 1), ("group", 2), ("notify", 2)]
    {
        let (job, place) = (new_job(), site.machines(machines));
        let outputs = site.run_ranks_with(4, |rank| {
            let mut command = site.rank(&program, &job, 4, rank);
            place(&mut command, rank);
            command.arg(what);
            command
        });
        for rank in [0, 2] {
            let said = describe_output(&outputs[rank]);
            let lost = said.contains("rank 3 has ended without leaving the team");
            assert!(lost, "{what}, {machines} machines, rank {rank}: {said}");
        }
    }
}

/// A process that gives up ends at once, also the leader of its machine, and is named to the others.
#[test]
fn a_process_that_aborts_does_not_wait_for_the_others() {
    let site = Site::new();
    let program = site.compile(&source("armci_missing.c"));
    let fifo = site.dir.path().join("fifo");
    run_ok(Command::new("mkfifo").arg(&fifo));
    let outputs = site.run_ranks(&program, 2, &["abort", fifo.to_str().unwrap()]);
    assert_eq!(outputs[0].status.code(), Some(4), "{}", describe_output(&outputs[0]));
    let said = describe_output(&outputs[1]);
    assert!(said.contains("rank 0 has ended without leaving the team"), "{said}");
}

#[test]
fn valgrind_finds_no_memory_errors() {
    let site = Site::new();
    let program = site.compile(&source("armci.c"));
    let valgrind = ["valgrind", "--quiet", "--error-exitcode=9", "--fair-sched=yes"];
    run(&site, &program, 2, 1, &valgrind);
    let program = site.compile_with(&source("armci_messages.c"), &["--cflags", "--libs"], &["-lm"]);
    run(&site, &program, 3, 1, &valgrind);
}
