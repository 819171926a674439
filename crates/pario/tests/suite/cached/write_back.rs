//! Pages that go to the file in the background, before the flush.

use std::fs;
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use pario::cached::FlushStep;
use pario::{CachedFile, CachedOptions, Error, Job};

use super::content::bytes;
use super::job_ranks::together;
use crate::ranks::new_job;

/// A wait that takes longer hangs.
const LATEST: Duration = Duration::from_secs(60);
const PAGE: usize = 65_536;

/// The age of pages in these tests: the write-back looks all the time.
const AT_ONCE: Duration = Duration::from_micros(1);

/// Counts steps, and stops the threads that reach one.
struct Steps {
    state: Mutex<StepState>,
    changed: Condvar,
}

struct StepState {
    written_back: u64,
    failed: u64,
    is_stopped: bool,
}

impl Steps {
    const fn new() -> Self {
        let state = StepState { written_back: 0, failed: 0, is_stopped: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn reach(&self, step: FlushStep) {
        let mut state = self.state.lock().unwrap();
        match step {
            FlushStep::WroteBack => state.written_back += 1,
            FlushStep::WriteBackFailed => state.failed += 1,
            _ => {}
        }
        self.changed.notify_all();
        let is_stopped = |state: &mut StepState| state.is_stopped && step == FlushStep::WroteBack;
        drop(self.changed.wait_while(state, is_stopped).unwrap());
    }

    /// Waits until a condition holds; it is looked at after each step.
    #[track_caller]
    fn wait(&self, mut is_met: impl FnMut(&StepState) -> bool) {
        let until = Instant::now() + LATEST;
        let mut state = self.state.lock().unwrap();
        while !is_met(&state) {
            assert!(Instant::now() < until, "nothing happens");
            state = self.changed.wait_timeout(state, Duration::from_millis(50)).unwrap().0;
        }
    }

    fn stop(&self, is_stopped: bool) {
        self.state.lock().unwrap().is_stopped = is_stopped;
        self.changed.notify_all();
    }
}

fn options() -> CachedOptions {
    CachedOptions::new().read(true).write(true).create(true).write_back_age(Some(AT_ONCE))
}

fn open(job: &Job, path: &Path, options: &CachedOptions, len: u64) -> CachedFile {
    let mut file = job.cache_with(path, options).unwrap();
    file.reserve(len).unwrap();
    file
}

/// Waits until this process has as many threads as at first: a thread that was joined may
/// still be in the list for a moment.
#[track_caller]
fn wait_for_threads(at_first: usize) {
    let until = Instant::now() + LATEST;
    while threads() != at_first {
        assert!(Instant::now() < until, "{} threads, {at_first} at first", threads());
        std::thread::yield_now();
    }
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn pages_go_to_the_file_before_the_flush() {
    static STEPS: Steps = Steps::new();
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("x");
    // Several chunks, so that every rank has a share; the last page is not full.
    let content = &bytes(3, 300 * PAGE + 123);
    let counts = together(3, |job| {
        let options = options().observer(|step| STEPS.reach(step));
        let mut file = open(&job, path, &options, 1 << 30);
        for (number, part) in content.chunks(10_000).enumerate() {
            if number % 3 == job.rank() as usize {
                file.write_at(part, number as u64 * 10_000).unwrap();
            }
        }
        job.barrier().unwrap();
        if job.rank() == 0 {
            STEPS.wait(|_| fs::read(path).unwrap() == *content);
        }
        job.barrier().unwrap();
        let before = file.statistics();
        assert_eq!(before.syncs, 0);
        file.flush().unwrap();
        let after = file.statistics();
        assert_eq!((after.writes, after.syncs), (before.writes, u64::from(job.rank() == 0)));
        file.close().unwrap();
        after.writes
    });
    assert!(counts.iter().all(|writes| *writes > 0), "{counts:?}");
    assert!(fs::read(path).unwrap() == *content);
}

#[test]
fn a_page_that_changes_while_it_is_written_is_written_again() {
    static STEPS: Steps = Steps::new();
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("x");
    let job = Job::new(&new_job(), 1, 0).unwrap();
    let file = open(&job, path, &options().observer(|step| STEPS.reach(step)), 100 * PAGE as u64);
    STEPS.stop(true);
    file.write_at(&[b'a'; PAGE], 0).unwrap();
    STEPS.wait(|state| state.written_back == 1);
    // The thread has written the page, and has not reported it yet.
    assert!(fs::read(path).unwrap() == [b'a'; PAGE]);
    file.write_at(b"bb", 7).unwrap();
    let mut now = [0; 3];
    file.read_exact_at(&mut now, 6).unwrap();
    assert_eq!(&now, b"abb");
    STEPS.stop(false);
    STEPS.wait(|state| state.written_back >= 2);
    file.close().unwrap();
    let mut right = [b'a'; PAGE];
    right[7..9].copy_from_slice(b"bb");
    assert!(fs::read(path).unwrap() == right);
}

/// A disk that takes long delays neither reads nor writes of the rank, and the close waits for it.
#[test]
fn a_slow_write_back_delays_only_the_close() {
    static STEPS: Steps = Steps::new();
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("x");
    let job = Job::new(&new_job(), 1, 0).unwrap();
    let len = 200 * PAGE;
    let file = open(&job, path, &options().observer(|step| STEPS.reach(step)), len as u64);
    STEPS.stop(true);
    file.write_at(b"slow", 0).unwrap();
    STEPS.wait(|state| state.written_back == 1);
    for page in 0..200 {
        file.write_at(&[page as u8; PAGE], page * PAGE as u64).unwrap();
        let mut got = [0; PAGE];
        file.read_exact_at(&mut got, page * PAGE as u64).unwrap();
        assert!(got == [page as u8; PAGE]);
    }
    assert!(fs::metadata(path).unwrap().len() <= PAGE as u64);
    std::thread::scope(|scope| {
        let closing = scope.spawn(move || file.close().unwrap());
        assert!(!closing.is_finished());
        STEPS.stop(false);
        closing.join().unwrap();
    });
    let content = fs::read(path).unwrap();
    assert_eq!(content.len(), len);
    assert!(content.chunks(PAGE).enumerate().all(|(page, bytes)| bytes == [page as u8; PAGE]));
}

/// Tells a process that it is the one of the test below, and its file.
const FAILING: &str = "PARIO_TEST_FAILING_WRITE_BACK";

#[test]
fn a_failed_write_back_is_reported_by_the_flush_and_its_pages_stay_dirty() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    fs::write(&path, bytes(8, 500_000)).unwrap();
    // A write beyond the limit fails with an error instead of a signal.
    let status = std::process::Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "cached::write_back::failing_process"])
        .env(FAILING, &path)
        .status()
        .unwrap();
    assert!(status.success());
    let content = fs::read(&path).unwrap();
    assert!(content[..500_000] == bytes(8, 500_000) && content[18 << 20..] == [9; PAGE]);
}

/// The process of the test above; without its variable it is no test and does nothing.
#[test]
fn failing_process() {
    static STEPS: Steps = Steps::new();
    let Ok(path) = std::env::var(FAILING) else { return };
    let limit = |bytes| {
        let limit = rustix::process::Rlimit { current: bytes, maximum: None };
        rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    };
    together(3, |job| {
        let options = options().observer(|step| STEPS.reach(step));
        let mut file = open(&job, path.as_ref(), &options, 20 << 20);
        job.barrier().unwrap();
        limit(Some(1 << 20));
        // The second rank writes the part that does not fit, since it is its share.
        if job.rank() == 0 {
            file.write_at(&[9; PAGE], 18 << 20).unwrap();
        }
        STEPS.wait(|state| state.failed > 0);
        for _ in 0..2 {
            let error: Error = file.flush().unwrap_err();
            assert_eq!(error.kind(), pario::ErrorKind::TooLarge, "{error}");
            assert!(error.to_string().contains("rank 1 cannot write: File too large"), "{error}");
        }
        job.barrier().unwrap();
        // There is space again: the pages were kept.
        limit(None);
        job.barrier().unwrap();
        file.close().unwrap();
    });
}

#[test]
fn files_without_write_back_have_no_thread() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job::new(&new_job(), 1, 0).unwrap();
    job.barrier().unwrap();
    let at_first = threads();
    let plain = CachedOptions::new().read(true).write(true).create(true);
    let cases = [
        (plain.clone(), 64 << 20, 1),
        (plain.clone(), 1 << 20, 0),
        (plain.clone().write_back_age(None), 64 << 20, 0),
        (options(), 1, 1),
        (options().replace(true), 64 << 20, 0),
        (options().memory(1 << 20), 64 << 20, 0),
    ];
    for (number, (options, len, expected)) in cases.into_iter().enumerate() {
        let path = dir.path().join(number.to_string());
        let mut file = open(&job, &path, &options, len);
        assert_eq!(threads(), at_first + expected, "case {number}");
        file.reserve(2 * len).unwrap();
        assert_eq!(threads(), at_first + expected, "case {number}");
        file.write_at(b"x", 0).unwrap();
        file.close().unwrap();
        wait_for_threads(at_first);
    }
}
