//! Record locks, from C: with the macros of the headers, and with the preload library.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::site::{Site, describe_output, new_job, prefix, source, wait};
use pario::Cluster;

/// How a program reaches the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interface {
    Macros,
    Preload,
}

const INTERFACES: [Interface; 2] = [Interface::Macros, Interface::Preload];

/// The test program, compiled for one interface.
struct Program<'s> {
    site: &'s Site,
    interface: Interface,
    path: PathBuf,
}

impl<'s> Program<'s> {
    fn new(site: &'s Site, interface: Interface) -> Self {
        let more: &[&str] =
            if interface == Interface::Preload { &["-DPARIO_NO_MACROS"] } else { &[] };
        let path = site.compile_with(&source("locks.c"), &["--cflags", "--libs"], more);
        Self { site, interface, path }
    }

    /// Returns the command for one process of a job.
    fn rank(&self, job: &str, size: u32, rank: u32, arguments: &[&str]) -> Command {
        let mut command = self.site.rank(&self.path, job, size, rank);
        command.args(arguments);
        if self.interface == Interface::Preload {
            command.env("LD_PRELOAD", prefix().join("lib/libpario_preload.so"));
        }
        command
    }

    /// Runs all processes of a job, which must succeed.
    #[track_caller]
    fn run_ranks_ok(&self, size: u32, arguments: &[&str]) -> Vec<Output> {
        let job = new_job();
        let outputs = self.site.run_ranks_with(size, |rank| self.rank(&job, size, rank, arguments));
        for (rank, output) in outputs.iter().enumerate() {
            assert!(
                output.status.success(),
                "{:?}, rank {rank}: {}",
                self.interface,
                describe_output(output)
            );
        }
        outputs
    }

    /// Starts a process as a job of one.
    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.rank(&new_job(), 1, 0, arguments);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        piped.spawn().unwrap()
    }

    /// The same; waits until the process prints a line.
    #[track_caller]
    fn start_until(&self, arguments: &[&str], said: &str) -> Child {
        let mut started = self.start(arguments);
        says(&mut started, said);
        started
    }
}

/// Waits until a process prints a line. It prints nothing else until it may go on.
#[track_caller]
fn says(process: &mut Child, said: &str) {
    use std::io::BufRead as _;
    let mut line = String::new();
    let stdout = process.stdout.as_mut().unwrap();
    std::io::BufReader::new(stdout).read_line(&mut line).unwrap();
    if line.trim_end() != said {
        let mut errors_printed = String::new();
        std::io::Read::read_to_string(process.stderr.as_mut().unwrap(), &mut errors_printed)
            .unwrap();
        panic!("{line:?} instead of {said:?}: {errors_printed}");
    }
}

/// Lets a process go on; it must succeed.
#[track_caller]
fn ends_well(mut process: Child) {
    use std::io::Write as _;
    // A process that does not wait never reads the line.
    let _ = process.stdin.take().unwrap().write_all(b"go on\n");
    let output = wait(process);
    assert!(output.status.success(), "{}", describe_output(&output));
}

/// Waits until `count` processes wait for locks.
fn until_waiting(cluster: &Cluster, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while cluster.lock_waits().unwrap().len() != count {
        assert!(Instant::now() < deadline, "{:?}", cluster.lock_waits().unwrap());
        std::thread::yield_now();
    }
}

fn with_each_interface(test: impl Fn(&Site, &Program<'_>)) {
    for interface in INTERFACES {
        let site = Site::new();
        test(&site, &Program::new(&site, interface));
    }
}

#[test]
fn independent_processes_count_together() {
    with_each_interface(|site, program| {
        program.run_ranks_ok(4, &["count", "150"]);
        assert_eq!(site.content("/pfs/counter"), 600_u64.to_le_bytes());
    });
}

#[test]
fn locks_are_seen_split_joined_and_ended() {
    with_each_interface(|site, program| {
        program.run_ranks_ok(2, &["pair"]);
        assert!(site.cluster().lock_waits().unwrap().is_empty());
    });
}

#[test]
fn a_deadlock_is_reported() {
    with_each_interface(|_, program| {
        let outputs = program.run_ranks_ok(2, &["deadlock"]);
        let said = outputs.iter().map(|output| String::from_utf8_lossy(&output.stdout));
        let mut said: Vec<_> = said.collect();
        said.sort_unstable();
        assert_eq!(said, ["deadlock\n", "locked\n"]);
    });
}

#[test]
fn a_killed_holder_releases_its_lock() {
    with_each_interface(|site, program| {
        let cluster = site.cluster();
        let mut holder = program.start_until(&["hold", "/pfs/killed"], "locked");
        let waiting =
            [program.start(&["wait", "/pfs/killed"]), program.start(&["wait", "/pfs/killed"])];
        until_waiting(&cluster, 2);
        let wait = &cluster.lock_waits().unwrap()[0];
        let holders = format!("({})", holder.id());
        assert!(wait.holders[0].ends_with(&holders), "{wait}");
        assert_eq!((wait.path.as_str(), wait.range.from, wait.range.to), ("/pfs/killed", 5, 6));
        holder.kill().unwrap();
        holder.wait().unwrap();
        waiting.into_iter().for_each(ends_well);
    });
}

#[test]
fn a_killed_waiter_is_removed() {
    with_each_interface(|site, program| {
        let cluster = site.cluster();
        let holder = program.start_until(&["hold", "/pfs/first"], "locked");
        let mut waiting = program.start(&["wait", "/pfs/first"]);
        until_waiting(&cluster, 1);
        waiting.kill().unwrap();
        waiting.wait().unwrap();
        until_waiting(&cluster, 0);
        ends_well(holder);
    });
}

#[test]
fn a_signal_ends_a_wait_unless_its_handler_restarts_it() {
    with_each_interface(|site, program| {
        let cluster = site.cluster();
        let holder = program.start_until(&["hold", "/pfs/signals"], "locked");
        let interrupted = program.start_until(&["interrupted", "/pfs/signals"], "interrupted");
        assert!(cluster.lock_waits().unwrap().is_empty());
        let continued = program.start_until(&["continued", "/pfs/signals"], "ticked");
        until_waiting(&cluster, 1);
        ends_well(holder);
        ends_well(continued);
        ends_well(interrupted);
    });
}

#[test]
fn lost_locks_are_reported() {
    for (interface, short_cut) in
        [(Interface::Macros, "0"), (Interface::Macros, "1"), (Interface::Preload, "1")]
    {
        let mut site = Site::new();
        let mut command = Program::new(&site, interface).rank(&new_job(), 1, 0, &["restarted"]);
        command.env("PARIO_SHORT_CUT", short_cut);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = piped.spawn().unwrap();
        says(&mut process, "locked");
        site.start_again();
        ends_well(process);
    }
}

#[test]
fn invalid_arguments_are_refused() {
    with_each_interface(|site, program| {
        program.run_ranks_ok(1, &["arguments"]);
        assert!(Path::new(&site.dir.path().join("plain")).exists());
    });
}
