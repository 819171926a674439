//! The programs of `examples/c`, compiled as users compile them and run by several launchers.

use std::path::PathBuf;

use crate::site::{Site, example, prefix, run_ok};

const MODES: [(&str, &str); 9] = [
    ("m-unix.c", "has read the block of process"),
    ("m-log.c", "lines of"),
    ("m-sync.c", "parts in order"),
    ("m-record.c", "records in order"),
    ("m-global.c", "every process has the table"),
    ("m-async.c", "64 blocks by"),
    ("double-buffer.c", "20 steps written and read"),
    ("cached.c", "1000 rows in memory, 500000 values counted"),
    ("onesided.c", "1000 tasks drawn by"),
];

#[test]
fn all_do_what_they_say() {
    let site = Site::new();
    for (name, said) in MODES {
        let program = site.compile(&example(name));
        for size in [1, 4, 40] {
            let printed = site.run_ranks_ok(&program, size, &[]);
            assert!(printed.contains(said), "{name} by {size}: {printed}");
        }
    }
}

#[test]
fn what_four_have_written_three_can_read() {
    let site = Site::new();
    let program = site.compile(&example("checkpoint.c"));
    let printed = site.run_ranks_ok(&program, 4, &["write"]);
    assert_eq!(printed, "100003 values written by 4 processes\n");
    let printed = site.run_ranks_ok(&program, 3, &["read"]);
    assert_eq!(printed, "100003 values read by 3 processes\n");
    assert_eq!(site.content("/pfs/examples/checkpoint").len(), 8 * 100_004);
}

/// Runs all programs by an MPI launcher, which says rank and size in its own variables.
fn under(launcher: &[&str], size: &str, reader: &str) {
    let site = Site::new();
    let run = |program: &PathBuf, size: &str, arguments: &[&str]| {
        let mut command = site.command(launcher[0]);
        command.args(&launcher[1..]).args(["-n", size]).arg(program).args(arguments);
        // Only the launcher may say rank and size.
        for variable in ["PARIO_RANK", "PARIO_SIZE", "PARIO_JOB"] {
            command.env_remove(variable);
        }
        let output = run_ok(&mut command);
        String::from_utf8(output.stdout).unwrap()
    };
    for (name, said) in MODES {
        let program = site.compile(&example(name));
        let printed = run(&program, size, &[]);
        assert!(printed.contains(said), "{name} by {size}: {printed}");
    }
    let program = site.compile(&example("checkpoint.c"));
    let printed = run(&program, size, &["write"]);
    assert_eq!(printed, format!("100003 values written by {size} processes\n"));
    let printed = run(&program, reader, &["read"]);
    assert_eq!(printed, format!("100003 values read by {reader} processes\n"));
}

/// The users' script does the same.
#[test]
fn the_script_compiles_and_runs_them_all() {
    let site = Site::new();
    let mut command = site.command(example("run-all"));
    command.arg(prefix()).args(["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]);
    let printed = String::from_utf8(run_ok(&mut command).stdout).unwrap();
    for (name, said) in MODES {
        assert!(printed.contains(said), "{name}: {printed}");
    }
    assert!(printed.contains("100003 values read by 3 processes"), "{printed}");
}

#[test]
fn open_mpi_starts_them() {
    under(&["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"], "4", "3");
}

#[test]
fn mpich_starts_them() {
    under(&["mpirun.mpich"], "3", "2");
}
