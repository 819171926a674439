//! Memory that the files of a job use one after the other.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pario::{CachedOptions, Job};
use proptest::prelude::*;

use super::content::bytes;
use super::job_ranks::{spread, together};
use crate::ranks::{EVERY_DISTRIBUTION, new_job};

fn options() -> CachedOptions {
    CachedOptions::new().read(true).write(true).create(true)
}

/// The shared-memory objects that this process has mapped.
fn objects() -> BTreeSet<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let lines = maps.lines().filter(|line| line.contains("memfd:pario"));
    lines.filter_map(|line| line.split_whitespace().nth(4).map(str::to_owned)).collect()
}

#[test]
fn small_files_one_after_the_other_use_the_same_memory() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job::new(&new_job(), 1, 0).unwrap();
    let write_and_read = |number: u64| {
        let path = dir.path().join(number.to_string());
        let mut file = job.cache_with(&path, &options().prefault(true)).unwrap();
        file.reserve(100_000).unwrap();
        file.write_at(&bytes(number, 1000), 50_000).unwrap();
        file.close().unwrap();
        let file = job.cache_with(&path, &CachedOptions::new().read(true).prefault(true)).unwrap();
        let mut got = vec![1; 51_000];
        file.read_exact_at(&mut got, 0).unwrap();
        assert!(got[..50_000].iter().all(|byte| *byte == 0), "{number}");
        assert!(got[50_000..] == bytes(number, 1000), "{number}");
        file.close().unwrap();
    };
    write_and_read(0);
    let at_first = objects();
    (1..40).for_each(write_and_read);
    assert_eq!(objects(), at_first);
    // Two at the same time have memory each.
    let [one, other] = ["0", "1"].map(|name| job.cache(dir.path().join(name)).unwrap());
    let mut got = [0; 1000];
    one.read_exact_at(&mut got, 50_000).unwrap();
    assert!(got[..] == bytes(0, 1000));
    other.read_exact_at(&mut got, 50_000).unwrap();
    assert!(got[..] == bytes(1, 1000));
    drop((one, other));
    job.leave_memory();
    assert_eq!(objects(), BTreeSet::new(), "nothing is left");
}

/// Unwritten memory costs nothing, so that this test needs little of it.
#[test]
fn large_files_one_after_the_other_use_the_same_memory() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job::new(&new_job(), 1, 0).unwrap();
    let len = pario_team::total_memory().unwrap() / 40;
    let write = |number: u64| {
        let mut file = job.cache_with(dir.path().join(number.to_string()), &options()).unwrap();
        file.reserve(len).unwrap();
        file.write_at(&bytes(number, 1000), 50_000).unwrap();
        file.close().unwrap();
    };
    write(0);
    let at_first = objects();
    (1..5).for_each(write);
    assert_eq!(objects(), at_first);
    // More than the pool may keep is freed at once.
    let mut file = job.cache_with(dir.path().join("larger"), &options()).unwrap();
    file.reserve(5 * len).unwrap();
    assert_ne!(objects(), at_first);
    drop(file);
    assert_eq!(objects(), at_first);
}

/// Writes some bytes of a new file, and checks what all of it is.
fn write_a_part(job: &Job, path: &Path, seed: u64, len: usize, part: std::ops::Range<usize>) {
    let mut file = job.cache_with(path, &options()).unwrap();
    file.reserve(len as u64).unwrap();
    let content = bytes(seed, len);
    if u64::from(job.rank()) == seed % u64::from(job.size()) {
        file.write_at(&content[part.clone()], part.start as u64).unwrap();
    }
    job.barrier().unwrap();
    let mut expected = vec![0; part.end];
    expected[part.clone()].copy_from_slice(&content[part.clone()]);
    let mut got = vec![1; part.end];
    file.read_exact_at(&mut got, 0).unwrap();
    assert!(got == expected, "{seed}: {len}, {part:?}");
    job.barrier().unwrap();
    file.close().unwrap();
    if job.rank() == 0 {
        assert!(fs::read(path).unwrap() == expected, "{seed}: {len}, {part:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// No byte of an earlier file is seen in a later one.
    #[test]
    fn unwritten_bytes_are_zero_in_every_file(
        files in prop::collection::vec((1..6_000_000_usize, 0..1000_usize, 0..1000_usize), 1..12),
        distribution in 0..EVERY_DISTRIBUTION.len(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        spread(3, EVERY_DISTRIBUTION[distribution], |job| {
            for (number, (len, one, other)) in files.iter().enumerate() {
                let (one, other) = (len * one / 1000, len * other / 1000);
                let part = one.min(other)..one.max(other).max(one.min(other) + 1);
                let path = dir.path().join(number.to_string());
                write_a_part(&job, &path, number as u64, *len, part);
            }
        });
    }
}

/// A file that the ranks read, extend and flush, or drop.
#[derive(Clone, Debug)]
struct ReadFile {
    len: usize,
    room: usize,
    is_dropped: bool,
}

fn read_file() -> impl Strategy<Value = ReadFile> {
    (1..3_000_000_usize, 1..2_000_000_usize, any::<bool>())
        .prop_map(|(len, more, is_dropped)| ReadFile { len, room: len + more, is_dropped })
}

/// Opens an existing file, and checks its bytes and those behind them; then changes all of it and
/// drops it, or changes its last byte and flushes it.
fn extend_a_file(job: &Job, path: &Path, seed: u64, file: &ReadFile) {
    let mut cached = job.cache_with(path, &CachedOptions::new().read(true).write(true)).unwrap();
    cached.reserve(file.room as u64).unwrap();
    if job.rank() == 1 {
        cached.write_at(&[7], file.room as u64 - 1).unwrap();
    }
    job.barrier().unwrap();
    let mut expected = bytes(seed, file.len);
    expected.resize(file.room - 1, 0);
    expected.push(7);
    let mut got = vec![1; file.room];
    cached.read_exact_at(&mut got, 0).unwrap();
    assert!(got == expected, "{seed}: {file:?}");
    job.barrier().unwrap();
    if file.is_dropped {
        cached.write_at(&got, 0).unwrap();
        job.barrier().unwrap();
    } else {
        cached.flush().unwrap();
        // Only the last page has changed.
        assert!(cached.statistics().written_bytes <= 65_536, "{seed}: {file:?}");
        cached.close().unwrap();
        assert!(fs::read(path).unwrap() == expected, "{seed}: {file:?}");
    }
    job.barrier().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// A file that is read into memory which an earlier one has used has its own bytes, zeros behind
    /// them, and no changed pages.
    #[test]
    fn a_file_in_used_memory_is_its_own(
        files in prop::collection::vec(read_file(), 2..10),
        distribution in 0..EVERY_DISTRIBUTION.len(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        for (number, file) in files.iter().enumerate() {
            fs::write(dir.path().join(number.to_string()), bytes(number as u64, file.len)).unwrap();
        }
        spread(3, EVERY_DISTRIBUTION[distribution], |job| {
            for (number, file) in files.iter().enumerate() {
                extend_a_file(&job, &dir.path().join(number.to_string()), number as u64, file);
            }
        });
    }
}

/// A rank that drops its job and joins it again knows nothing of the memory that the others keep.
#[test]
fn a_rank_that_joins_again_uses_memory_with_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let name = &new_job();
    std::thread::scope(|scope| {
        for rank in 0..3 {
            let dir = dir.path();
            scope.spawn(move || {
                let mut job = Job::new(name, 3, rank).unwrap();
                // The team stays while the array exists.
                let array = job.array::<u64>(10).unwrap();
                for turn in 0..6_u64 {
                    let path = dir.join(turn.to_string());
                    write_a_part(&job, &path, turn, 300_000, 100_000..200_000 + turn as usize);
                    if turn == 2 && rank == 1 {
                        drop(job);
                        job = Job::new(name, 3, rank).unwrap();
                    }
                }
                drop(array);
            });
        }
    });
}

/// A file that a rank has dropped without closing keeps its memory while another rank has it.
#[test]
fn memory_is_not_given_away_while_a_rank_uses_it() {
    let dir = tempfile::tempdir().unwrap();
    together(2, |job| {
        let mut first = job.cache_with(dir.path().join("first"), &options()).unwrap();
        first.reserve(100_000).unwrap();
        first.write_at(&bytes(1, 100_000), 0).unwrap();
        job.barrier().unwrap();
        let mut kept = Some(first).filter(|_| job.rank() == 0);
        job.barrier().unwrap();
        write_a_part(&job, &dir.path().join("second"), 2, 100_000, 10..90_000);
        if let Some(first) = kept.take() {
            let mut got = vec![0; 100_000];
            first.read_exact_at(&mut got, 0).unwrap();
            assert!(got == bytes(1, 100_000));
        }
        job.barrier().unwrap();
    });
}
