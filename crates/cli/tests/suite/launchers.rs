//! Jobs started by `pario run`, Open MPI and MPICH: real processes that share files in every mode.
//! Each process is this test program again, which then runs the example `shared-files`.

#[path = "../../../../examples/src/bin/shared-files.rs"]
#[expect(dead_code, reason = "the example has a main function of its own")]
mod shared_files;

use std::process::{Command, Output, Stdio};

use crate::command::{Sandbox, stderr, stdout};
use pario::{Cluster, Job};

/// The variable that makes a process a rank.
const RANK: &str = "PARIO_TEST_RANK";

/// A rank of a job; does nothing without its variable.
#[test]
fn rank_process() {
    if std::env::var_os(RANK).is_none() {
        return;
    }
    let job = Job::from_env().unwrap();
    shared_files::work(&job.files(&Cluster::from_env().unwrap())).unwrap();
    // One line in one write, because the test runner and other ranks write to the same stream.
    let text = format!("\n@{} of {}\n", job.rank(), job.size());
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()).unwrap();
}

/// Returns the command that a launcher starts.
fn rank() -> [String; 4] {
    let own = std::env::current_exe().unwrap();
    [&own.display().to_string(), "--exact", "launchers::rank_process", "--nocapture"]
        .map(str::to_owned)
}

/// Checks that all ranks have reported success.
fn check(output: &Output, size: usize) {
    assert!(output.status.success(), "{}\n{}", stdout(output), stderr(output));
    let mut said: Vec<&str> =
        stdout(output).lines().filter_map(|line| line.strip_prefix('@')).collect();
    let mut expected: Vec<String> = (0..size).map(|rank| format!("{rank} of {size}")).collect();
    said.sort_unstable();
    expected.sort();
    assert_eq!(said, expected, "{}", stderr(output));
}

fn run(sandbox: &Sandbox, size: usize) -> Output {
    let mut command = sandbox.on_cluster(&["run", "-n", &size.to_string()]);
    command.args(rank()).env(RANK, "1").output().unwrap()
}

/// Runs a job with an MPI, on the node of a sandbox.
fn mpi(sandbox: &Sandbox, launcher: &str, options: &[&str], size: usize) {
    let mut command = Command::new(launcher);
    command
        .args(options)
        .args(["-n", &size.to_string()])
        .args(rank())
        .env("PARIO_CLUSTER", sandbox.file("data"))
        .env(RANK, "1")
        .current_dir(sandbox.path())
        .stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| {
        panic!("{launcher}: {error}; ./test says which package has it");
    });
    check(&output, size);
}

#[test]
fn four_processes_of_pario_run_share_files_in_every_mode() {
    for sandbox in Sandbox::both() {
        check(&run(&sandbox, 4), 4);
    }
}

#[test]
fn a_crowd_of_256_processes_shares_files_in_every_mode() {
    check(&run(&Sandbox::empty(), 256), 256);
}

#[test]
fn four_processes_of_open_mpi_share_files_in_every_mode() {
    mpi(&Sandbox::served(), "mpirun.openmpi", &["--allow-run-as-root", "--oversubscribe"], 4);
}

#[test]
fn two_processes_of_mpich_share_files_in_every_mode() {
    mpi(&Sandbox::served(), "mpirun.mpich", &[], 2);
}
