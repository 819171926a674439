//! Ranks that are processes: a test binary started again, to play one of them.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use pario_team::{Endpoint, Key, MultiMachine, Rendezvous, Team, TeamOptions};

/// A loss must be known after so long.
const IN_TIME: Duration = Duration::from_secs(2);

const JOB: &str = "PARIO_TEAM_TEST_JOB";
const SIZE: &str = "PARIO_TEAM_TEST_SIZE";
const RANK: &str = "PARIO_TEAM_TEST_RANK";
const DOING: &str = "PARIO_TEAM_TEST_DOING";
const ACROSS: &str = "PARIO_TEAM_TEST_ACROSS";

/// A rank that runs as a process, which ends with this.
pub struct Process {
    pub child: Child,
    lines: BufReader<ChildStdout>,
}

/// The rank that a process runs.
pub struct Role<'a> {
    pub job: &'a str,
    pub size: u32,
    pub rank: u32,
    /// The activity of the rank.
    pub doing: &'a str,
}

impl Process {
    /// Starts this binary again, to run one of its tests alone.
    pub fn start(test: &str, role: &Role<'_>, options: &TeamOptions) -> Self {
        Self::start_by(Command::new(std::env::current_exe().unwrap()), test, role, options)
    }

    /// Starts the rank by a command that starts this binary.
    pub fn start_by(
        mut command: Command,
        test: &str,
        role: &Role<'_>,
        options: &TeamOptions,
    ) -> Self {
        let multi_machine = options.multi_machine.as_ref().map(|multi_machine| {
            let Rendezvous::Known(Endpoint { address, key }) = &multi_machine.rendezvous else {
                panic!("tests tell their ranks where they meet")
            };
            format!("{address} {} {}", key.to_hex(), multi_machine.machine)
        });
        let mut child = command
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(JOB, role.job)
            .env(SIZE, role.size.to_string())
            .env(RANK, role.rank.to_string())
            .env(DOING, role.doing)
            .env(ACROSS, multi_machine.unwrap_or_default())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next line that is for us.
    pub fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the rank has ended");
            // The first one comes on a line of the test runner.
            if let Some((_, said)) = line.split_once("says ") {
                return said.trim().to_owned();
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills one rank once all have reported that they are ready. The errors of the others name it in
/// time, and they exit with success.
pub fn lose(mut ranks: Vec<Process>, victim: usize, what: &str) {
    for rank in &mut ranks {
        assert_eq!(rank.hear(), "ready");
    }
    ranks[victim].child.kill().unwrap();
    let killed = Instant::now();
    for (rank, process) in ranks.iter_mut().enumerate().filter(|(rank, _)| *rank != victim) {
        let said = process.hear();
        let expected = format!("rank {victim} has ended without leaving the team");
        assert!(said.contains(&expected), "{what}: rank {rank} says {said}");
        assert!(process.child.wait().unwrap().success());
    }
    assert!(killed.elapsed() < IN_TIME, "{what}: {:?}", killed.elapsed());
}

/// Joins the team if this process was started as a rank; returns the team and the activity.
pub fn played() -> Option<(Team, String)> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let job = variable(JOB);
    if job.is_empty() {
        return None;
    }
    let (size, rank) = (variable(SIZE).parse().unwrap(), variable(RANK).parse().unwrap());
    let words = variable(ACROSS);
    let mut words = words.split_whitespace();
    let multi_machine = words.next().map(|address| {
        let key = Key::from_hex(words.next().unwrap()).unwrap();
        MultiMachine::at(address.parse().unwrap(), key).called(words.next().unwrap_or_default())
    });
    let options = TeamOptions { multi_machine, ..TeamOptions::default() };
    Some((Team::meet_with(&job, size, rank, &options).unwrap(), variable(DOING)))
}
