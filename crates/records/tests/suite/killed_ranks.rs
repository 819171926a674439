//! Ranks that are killed between any two steps, and in the middle of a step.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pario_records::{NewRecord, RecordError, RecordFile};
use pario_team::{Team, TeamError};

use crate::range::bytes;
use crate::ranks::{new_job, together};

/// The variables that make a process of this test a rank.
const PATH: &str = "PARIO_RECORDS_TEST_PLACE";
const JOB: &str = "PARIO_RECORDS_TEST_JOB";
const RANK: &str = "PARIO_RECORDS_TEST_RANK";
const RANKS: u32 = 2;
const ROUNDS: u64 = 6;

/// The content of a record.
fn content(number: u64, len: u64) -> Vec<u8> {
    (0..len).map(|at| (number * 31 + at).to_le_bytes()[0]).collect()
}

fn len_of(number: u64) -> u64 {
    number * 2500 + 1
}

/// The program of each rank; `say` reports a step that has ended.
fn work(team: &Team, path: &Path, say: impl Fn(String)) -> Result<(), RecordError> {
    say("met".to_owned());
    let file = RecordFile::create(team, path)?;
    say("file created".to_owned());
    for round in 0..ROUNDS {
        let new: Vec<u64> = (1..3).map(|which| round * 2 + which).collect();
        let records: Vec<NewRecord> = new.iter().map(|n| NewRecord::Regular(len_of(*n))).collect();
        let records = file.create_records(&records)?;
        say(format!("created {new:?}"));
        let number = new[team.rank() as usize];
        let record = records[team.rank() as usize];
        let len = len_of(number);
        file.write(&content(number, len), record, 0..len)?;
        team.barrier()?;
        say(format!("written {new:?}"));
        if round % 3 == 2 {
            file.sync()?;
            say("synced".to_owned());
        }
        if round % 2 == 1 {
            file.destroy_record(records[0])?;
            say(format!("destroyed {}", new[0]));
        }
    }
    file.close()?;
    say("closed".to_owned());
    Ok(())
}

/// A rank in a process of its own. It does nothing unless another test starts it.
#[test]
fn rank() {
    let Ok(path) = std::env::var(PATH) else { return };
    let rank = std::env::var(RANK).unwrap().parse().unwrap();
    let team = Team::meet(&std::env::var(JOB).unwrap(), RANKS, rank).unwrap();
    let done = work(&team, Path::new(&path), |what| println!("\nstep {what}"));
    if let Err(error) = done {
        assert!(matches!(error, RecordError::Team(TeamError::Lost { .. })), "{error:?}");
        println!("\nlost");
    }
}

fn start(path: &Path, job: &str, rank: u32) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "killed_ranks::rank", "--nocapture", "--test-threads=1"]);
    command.env(PATH, path).env(JOB, job).env(RANK, rank.to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The records that exist after these steps.
fn expected(steps: &[String]) -> Vec<u64> {
    let mut records = Vec::new();
    for step in steps {
        let numbers = step.chars().map(|c| if c.is_ascii_digit() { c } else { ' ' });
        let numbers: String = numbers.collect();
        let numbers = numbers.split_whitespace().map(|number| number.parse::<u64>().unwrap());
        if step.starts_with("created") {
            records.extend(numbers);
        } else if step.starts_with("destroyed") {
            let gone: Vec<u64> = numbers.collect();
            records.retain(|record| !gone.contains(record));
        }
    }
    records
}

/// All steps, in order.
fn all_steps() -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let steps = std::sync::Mutex::new(Vec::new());
    together(RANKS, |team| {
        let is_first = team.rank() == 0;
        work(&team, &dir.path().join("file"), |what| {
            if is_first {
                steps.lock().unwrap().push(what);
            }
        })
        .unwrap();
    });
    steps.into_inner().unwrap()
}

/// Kills one rank after it has reported a number of steps, and checks the file.
fn kill_after(steps: usize, all: &[String]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let job = new_job();
    let victim = u32::try_from(steps).unwrap() % RANKS;
    let mut ranks: Vec<Child> = (0..RANKS).map(|rank| start(&path, &job, rank)).collect();
    let pipe = ranks[victim as usize].stdout.take().unwrap();
    let mut lines = BufReader::new(pipe).lines().map(Result::unwrap);
    let mut said: Vec<String> = Vec::new();
    let is_step = |line: String| line.strip_prefix("step ").map(str::to_owned);
    said.extend(lines.by_ref().filter_map(is_step).take(steps));
    // The rank goes on until the signal arrives: it dies in the next step, or after it.
    ranks[victim as usize].kill().unwrap();
    said.extend(lines.filter_map(is_step));
    ranks[victim as usize].wait().unwrap();
    let other = ranks.remove(1 - victim as usize).wait_with_output().unwrap();
    assert!(other.status.success(), "{}", String::from_utf8_lossy(&other.stderr));
    let other = String::from_utf8(other.stdout).unwrap();
    let other: Vec<String> = other.lines().filter_map(|line| is_step(line.to_owned())).collect();
    // A step that one rank has reported is done on all ranks.
    let done = if other.len() > said.len() { other } else { said };
    assert_eq!(done, all[..done.len()]);
    check(&path, &done, all);
}

fn check(path: &Path, done: &[String], all: &[String]) {
    let old = expected(done);
    let new = expected(&all[..all.len().min(done.len() + 1)]);
    let written: Vec<u64> = done
        .iter()
        .filter(|step| step.starts_with("written"))
        .flat_map(|step| expected(&[step.replace("written", "created")]))
        .collect();
    let found = together(1, |team| {
        let file = RecordFile::open(&team, path)?;
        assert_eq!(file.parts(), RANKS);
        let mut numbers = Vec::new();
        for info in file.records() {
            let number = info.id.number();
            assert_eq!(info.len, len_of(number));
            let len = usize::try_from(info.len).unwrap();
            let mut bytes_of = vec![0; len];
            file.read(&mut bytes_of, info.id, bytes(0, len))?;
            if written.contains(&number) {
                assert!(bytes_of == content(number, info.len), "record {number} is not intact");
            }
            numbers.push(number);
        }
        file.create_record(10)?;
        file.close()?;
        Ok::<Vec<u64>, RecordError>(numbers)
    });
    match &found[0] {
        Ok(found) => assert!(*found == old || *found == new, "{found:?} after {done:?}"),
        Err(RecordError::NotFound(_)) => assert!(done.len() <= 1, "{done:?}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn reported_steps_survive_a_kill() {
    let all = all_steps();
    assert!(all.len() > 15, "{all:?}");
    // From the first step on: the others wait a minute for a rank that dies before they have met.
    for steps in 1..=all.len() {
        kill_after(steps, &all);
    }
}
