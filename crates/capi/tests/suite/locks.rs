//! Locks of records, from C: with the macros of the headers, and with the preload library.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::site::{Site, new_job, prefix, source, told, wait};
use pario::Cluster;

/// How programs come to the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Macros,
    Preload,
}

const WAYS: [Way; 2] = [Way::Macros, Way::Preload];

/// The program of the tests, compiled in one of the ways.
struct Program<'s> {
    site: &'s Site,
    way: Way,
    path: PathBuf,
}

impl<'s> Program<'s> {
    fn new(site: &'s Site, way: Way) -> Self {
        let more: &[&str] = if way == Way::Preload { &["-DPARIO_NO_MACROS"] } else { &[] };
        let path = site.compile_with(&source("locks.c"), &["--cflags", "--libs"], more);
        Self { site, way, path }
    }

    /// One process of a job.
    fn rank(&self, job: &str, size: u32, rank: u32, arguments: &[&str]) -> Command {
        let mut command = self.site.rank(&self.path, job, size, rank);
        command.args(arguments);
        if self.way == Way::Preload {
            command.env("LD_PRELOAD", prefix().join("lib/libpario_preload.so"));
        }
        command
    }

    /// Runs all processes of a job, which all must end well.
    #[track_caller]
    fn fine(&self, size: u32, arguments: &[&str]) -> Vec<Output> {
        let job = new_job();
        let outputs = self.site.ranks_by(size, |rank| self.rank(&job, size, rank, arguments));
        for (rank, output) in outputs.iter().enumerate() {
            assert!(output.status.success(), "{:?}, rank {rank}: {}", self.way, told(output));
        }
        outputs
    }

    /// Starts a process that is a job of its own.
    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.rank(&new_job(), 1, 0, arguments);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        piped.spawn().unwrap()
    }

    /// The same, when it has said something.
    #[track_caller]
    fn start_until(&self, arguments: &[&str], said: &str) -> Child {
        let mut started = self.start(arguments);
        says(&mut started, said);
        started
    }
}

/// Waits until a process says something; it says nothing else before it is told to go on.
#[track_caller]
fn says(process: &mut Child, said: &str) {
    use std::io::BufRead as _;
    let mut line = String::new();
    let stdout = process.stdout.as_mut().unwrap();
    std::io::BufReader::new(stdout).read_line(&mut line).unwrap();
    if line.trim_end() != said {
        let mut told = String::new();
        std::io::Read::read_to_string(process.stderr.as_mut().unwrap(), &mut told).unwrap();
        panic!("{line:?} instead of {said:?}: {told}");
    }
}

/// Lets a process go on, to a good end.
#[track_caller]
fn ends_well(mut process: Child) {
    use std::io::Write as _;
    // Who waits for nothing does not read it.
    let _ = process.stdin.take().unwrap().write_all(b"go on\n");
    let output = wait(process);
    assert!(output.status.success(), "{}", told(&output));
}

/// Waits until so many processes wait for locks.
fn until_waiting(cluster: &Cluster, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while cluster.lock_waits().unwrap().len() != count {
        assert!(Instant::now() < deadline, "{:?}", cluster.lock_waits().unwrap());
        std::thread::yield_now();
    }
}

fn in_every_way(test: impl Fn(&Site, &Program<'_>)) {
    for way in WAYS {
        let site = Site::new();
        test(&site, &Program::new(&site, way));
    }
}

#[test]
fn processes_that_know_nothing_of_each_other_count_together() {
    in_every_way(|site, program| {
        program.fine(4, &["count", "150"]);
        assert_eq!(site.content("/pfs/counter"), 600_u64.to_le_bytes());
    });
}

#[test]
fn locks_are_seen_split_joined_and_ended() {
    in_every_way(|site, program| {
        program.fine(2, &["pair"]);
        assert!(site.cluster().lock_waits().unwrap().is_empty());
    });
}

#[test]
fn who_would_wait_for_ever_is_told() {
    in_every_way(|_, program| {
        let outputs = program.fine(2, &["deadlock"]);
        let said = outputs.iter().map(|output| String::from_utf8_lossy(&output.stdout));
        let mut said: Vec<_> = said.collect();
        said.sort_unstable();
        assert_eq!(said, ["deadlock\n", "locked\n"]);
    });
}

#[test]
fn who_waits_for_a_process_that_is_killed_gets_the_lock() {
    in_every_way(|site, program| {
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
fn a_process_that_waits_and_is_killed_is_forgotten() {
    in_every_way(|site, program| {
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
fn a_signal_ends_a_wait_unless_its_handler_wants_it_to_go_on() {
    in_every_way(|site, program| {
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
fn a_process_whose_locks_are_lost_is_told() {
    for (way, short_cut) in [(Way::Macros, "0"), (Way::Macros, "1"), (Way::Preload, "1")] {
        let mut site = Site::new();
        let mut command = Program::new(&site, way).rank(&new_job(), 1, 0, &["restarted"]);
        command.env("PARIO_SHORT_CUT", short_cut);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = piped.spawn().unwrap();
        says(&mut process, "locked");
        site.start_again();
        ends_well(process);
    }
}

#[test]
fn arguments_that_nobody_can_mean() {
    in_every_way(|site, program| {
        program.fine(1, &["arguments"]);
        assert!(Path::new(&site.dir.path().join("plain")).exists());
    });
}
