//! Ranks that are processes, of which one is killed at every step of a flush: flushed bytes are
//! kept, and the errors of the others name the killed rank.
//!
//! Each rank is a process of this test program.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use pario::cached::FlushStep;
use pario::{CachedOptions, Job};

use crate::ranks::new_job;

/// A waiting rank must get its error within this time.
const IN_TIME: Duration = Duration::from_secs(2);
/// A process that takes longer hangs.
const LATEST: Duration = Duration::from_secs(60);
const SIZE: u32 = 3;
/// Pages of the file: several chunks, so that all ranks have something to write.
const LEN: usize = 200 * 65_536;

/// Tells a process that it is a rank: job, rank, path, how it writes, and at which step of the second
/// flush it stops.
const RANK: &str = "PARIO_TEST_CACHED_RANK";

/// How a rank writes: by the flush alone, into a new file, or also in the background.
const IN_PLACE: &str = "in place";
const REPLACING: &str = "replacing";
const WITH_WRITE_BACK: &str = "with write-back";

/// How many steps there are to go until this process stops.
static STEPS: AtomicU32 = AtomicU32::new(u32::MAX);

fn say(text: &str) {
    // One line in one write: the test runner writes to the same place.
    std::io::stdout().write_all(format!("\n@{text}\n").as_bytes()).unwrap();
}

fn wait_to_be_killed() {
    say("stopped");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    std::process::exit(1);
}

fn observe(_: FlushStep) {
    if STEPS.fetch_sub(1, Ordering::SeqCst) == 0 {
        wait_to_be_killed();
    }
}

/// The rank of [`Rank`]; without its variable it is no test and does nothing.
#[test]
fn rank_process() {
    let Ok(told) = std::env::var(RANK) else { return };
    let told: Vec<&str> = told.split('\t').collect();
    let [name, rank, path, writing, stops_at] = told[..] else { panic!("{told:?}") };
    let job = Job::new(name, SIZE, rank.parse().unwrap()).unwrap();
    let options = CachedOptions::new().read(true).write(true).create(true).observer(observe);
    let age = (writing == WITH_WRITE_BACK).then_some(Duration::from_millis(1));
    let options = options.replace(writing == REPLACING).write_back_age(age);
    let mut file = job.cache_with(path, &options).unwrap();
    file.reserve(LEN as u64).unwrap();
    let mut write = |fill: u8| {
        // Each rank writes every third page.
        for page in (0..200).filter(|page| page % u64::from(SIZE) == u64::from(job.rank())) {
            file.write_at(&vec![fill; 65_536], page * 65_536)?;
        }
        file.flush()
    };
    write(b'1').unwrap();
    say("flushed");
    if let Ok(steps) = stops_at.parse() {
        STEPS.store(steps, Ordering::SeqCst);
    }
    match write(b'2') {
        Ok(()) => say("done"),
        Err(error) => say(&format!("failed {error}")),
    }
    if stops_at != "none" {
        wait_to_be_killed();
    }
}

struct Rank {
    process: Child,
    /// The process ends with the one that holds this.
    _word: ChildStdin,
}

impl Rank {
    fn start(
        job: &str,
        rank: u32,
        path: &Path,
        writing: &str,
        stops_at: &str,
    ) -> (Self, Receiver<(String, Instant)>) {
        let told = format!("{job}\t{rank}\t{}\t{writing}\t{stops_at}", path.display());
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "cached::crashes::rank_process", "--nocapture"])
            .env(RANK, told)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, receiver) = channel();
        let stdout = process.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let line = line.unwrap();
                if let Some(said) = line.strip_prefix('@') {
                    let _ = sender.send((said.to_owned(), Instant::now()));
                }
            }
        });
        let word = process.stdin.take().unwrap();
        (Self { process, _word: word }, receiver)
    }
}

/// Kills one rank at a step of the second flush; whether there was such a step, and what is in the
/// file.
fn crash(victim: u32, step: u32, writing: &str) -> (bool, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let job = new_job();
    let mut ranks: Vec<_> = (0..SIZE)
        .map(|rank| {
            let stops_at = if rank == victim { step.to_string() } else { "none".to_owned() };
            Rank::start(&job, rank, &path, writing, &stops_at)
        })
        .collect();
    let said = |from: &Receiver<(String, Instant)>| from.recv_timeout(LATEST).expect("no hang");
    for (_, from) in &ranks {
        assert_eq!(said(from).0, "flushed");
    }
    let is_midway = said(&ranks[victim as usize].1).0 == "stopped";
    let killed = Instant::now();
    ranks[victim as usize].0.process.kill().unwrap();
    for (rank, (process, from)) in ranks.iter_mut().enumerate() {
        if rank != victim as usize {
            let (text, when) = said(from);
            if is_midway {
                let named = format!("rank {victim} has ended without leaving the team");
                assert!(text.starts_with("failed") && text.contains(&named), "{text}");
                assert!(when - killed < IN_TIME, "told after {:?}", when - killed);
            } else {
                assert_eq!(text, "done");
            }
        }
        process.process.wait().unwrap();
    }
    (is_midway, std::fs::read(&path).unwrap())
}

/// All steps of a rank, one after the other, until there are no more.
fn crash_at_every_step(victim: u32, writing: &str, fewest: u32, check: impl Fn(&[u8])) {
    let mut step = 0;
    loop {
        let (is_midway, content) = crash(victim, step, writing);
        assert_eq!(content.len(), LEN);
        if !is_midway {
            assert!(content.iter().all(|byte| *byte == b'2'));
            break;
        }
        check(&content);
        step += 1;
    }
    assert!(step >= fewest, "{step} steps");
}

#[test]
fn flushed_bytes_are_kept_when_any_rank_is_killed() {
    // Only the first rank syncs.
    for (victim, fewest) in [(0, 2), (2, 1)] {
        // Pages are the old ones or the new ones; none is gone, and none is torn by a kill.
        crash_at_every_step(victim, IN_PLACE, fewest, |content| {
            for page in content.chunks(65_536) {
                assert!(page.iter().all(|byte| *byte == page[0]) && b"12".contains(&page[0]));
            }
        });
    }
}

#[test]
fn a_file_that_is_replaced_is_the_old_one_or_the_new_one() {
    for victim in [0, 1] {
        crash_at_every_step(victim, REPLACING, 2, |content| {
            assert!(content.iter().all(|byte| *byte == content[0]), "a mixture");
        });
    }
}

/// With write-back each byte is the old one or the new one.
#[test]
fn flushed_bytes_are_kept_when_a_rank_is_killed_while_it_writes_back() {
    for victim in [0, 1, 2] {
        let (is_midway, content) = crash(victim, 0, WITH_WRITE_BACK);
        assert!(is_midway && content.len() == LEN);
        assert!(content.iter().all(|byte| b"12".contains(byte)));
    }
}
