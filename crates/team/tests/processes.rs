//! Ranks that are processes, and are killed: this binary started again.

#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

mod ranks;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use pario_team::{Across, Key, Team, TeamError, TeamOptions};
use ranks::{Machines, new_job};

const SIZE: u32 = 4;
/// A loss must be known after so long.
const IN_TIME: Duration = Duration::from_secs(2);
const JOB: &str = "PARIO_TEAM_TEST_JOB";
const RANK: &str = "PARIO_TEAM_TEST_RANK";
const DOING: &str = "PARIO_TEAM_TEST_DOING";
const ACROSS: &str = "PARIO_TEAM_TEST_ACROSS";

/// A rank, which ends with this.
struct Rank {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Rank {
    /// Starts this binary again, to run `other_process` alone.
    fn start(job: &str, rank: u32, doing: &str, options: &TeamOptions) -> Self {
        let across = options.across.as_ref().map(|across| {
            let Across { address, key, machine } = across;
            format!("{address} {} {machine}", key.to_hex())
        });
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "other_process", "--nocapture"])
            .env(JOB, job)
            .env(RANK, rank.to_string())
            .env(DOING, doing)
            .env(ACROSS, across.unwrap_or_default())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next line that is for us.
    fn hear(&mut self) -> String {
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

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays a rank; without a job it has nothing to do.
#[test]
fn other_process() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let job = variable(JOB);
    if job.is_empty() {
        return;
    }
    let rank: u32 = variable(RANK).parse().unwrap();
    let words = variable(ACROSS);
    let words: Vec<&str> = words.split_whitespace().collect();
    let across = match words[..] {
        [address, key, machine] => Some(Across {
            address: address.parse().unwrap(),
            key: Key::from_hex(key).unwrap(),
            machine: machine.to_owned(),
        }),
        _ => None,
    };
    let options = TeamOptions { across, ..TeamOptions::default() };
    let team = Team::meet_with(&job, SIZE, rank, &options).unwrap();
    let error = work(&team, &variable(DOING));
    println!("says {error}");
    // Whoever has heard of a loss has nobody to wait for.
    drop(team);
}

/// Does something until it fails.
fn work(team: &Team, doing: &str) -> TeamError {
    let segments = team.segments(1000).unwrap();
    let mutexes = team.mutexes(1).unwrap();
    let echo = team.callback(|call| Ok(call.data.to_vec())).unwrap();
    team.barrier().unwrap();
    println!("says ready");
    let mut number = 0_u32;
    loop {
        number = number.wrapping_add(1);
        let target = number % SIZE;
        let done = match doing {
            "meeting" => team.barrier(),
            "memory" => segments.accumulate(target, 8, 1, &[1_u64]).and_then(|()| team.barrier()),
            "locking" => mutexes.lock(target, 0).map(drop).and_then(|()| team.barrier()),
            "calling" => echo.call(target, b"", &[7; 100]).map(drop).and_then(|_| team.barrier()),
            _ => panic!("nobody can do {doing}"),
        };
        if let Err(error) = done {
            return error;
        }
    }
}

/// Kills one of four ranks while all do something: the others hear who it was, in time.
fn lose(machines: Machines, victim: u32, doing: &str) {
    let (job, options) = (new_job(), machines.options());
    let start = |rank| Rank::start(&job, rank, doing, &options(rank));
    let mut ranks: Vec<Rank> = (0..SIZE).map(start).collect();
    for rank in &mut ranks {
        assert_eq!(rank.hear(), "ready");
    }
    ranks[victim as usize].child.kill().unwrap();
    let killed = Instant::now();
    for (rank, process) in (0..SIZE).zip(&mut ranks).filter(|(rank, _)| *rank != victim) {
        let said = process.hear();
        let expected = format!("rank {victim} has ended without leaving the team");
        assert!(said.contains(&expected), "{machines:?}, {doing}: rank {rank} says {said}");
        assert!(process.child.wait().unwrap().success());
    }
    assert!(killed.elapsed() < IN_TIME, "{machines:?}, {doing}: {:?}", killed.elapsed());
}

#[test]
fn a_rank_that_is_killed_is_named_to_those_of_its_machine() {
    for (victim, doing) in [(0, "meeting"), (3, "memory"), (1, "locking"), (2, "calling")] {
        lose(Machines::One, victim, doing);
    }
}

#[test]
fn a_rank_that_is_killed_is_named_to_other_machines() {
    for (victim, doing) in [(0, "meeting"), (1, "memory"), (2, "locking"), (3, "calling")] {
        lose(Machines::Of(2), victim, doing);
    }
}

#[test]
fn a_machine_that_is_lost_is_named_by_its_rank() {
    for (victim, doing) in [(0, "memory"), (1, "meeting"), (2, "calling"), (3, "locking")] {
        lose(Machines::Of(1), victim, doing);
    }
}
