//! Large files, and many ranks.

use std::os::unix::fs::MetadataExt as _;

use pario::cached::CachedStatistics;
use pario::{CachedFile, CachedOptions};

use super::content::bytes;
use super::job_ranks::{spread, together};
use crate::ranks::{EVERY_DISTRIBUTION, Machines};

/// The sum over all ranks.
fn all(statistics: &[CachedStatistics]) -> CachedStatistics {
    let mut all = CachedStatistics::default();
    for one in statistics {
        all.reads += one.reads;
        all.read_bytes += one.read_bytes;
        all.writes += one.writes;
        all.written_bytes += one.written_bytes;
        all.syncs += one.syncs;
    }
    all
}

#[test]
fn four_gibibytes_with_little_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("sparse");
    let end = 4_u64 << 30;
    let statistics = together(4, |job| {
        let options = CachedOptions::new().write(true).create(true);
        let mut file = job.cache_with(path, &options).unwrap();
        file.reserve(end + (1 << 30)).unwrap();
        match job.rank() {
            0 => file.write_at(&bytes(0, 100_000), 0).unwrap(),
            3 => file.write_at(&bytes(3, 100_000), end - 100_000).unwrap(),
            _ => {}
        }
        file.flush().unwrap();
        let statistics = file.statistics();
        file.close().unwrap();
        statistics
    });
    // Three pages at the beginning are two, and so it is at the end.
    let all = all(&statistics);
    assert!(all.writes == 2 && all.written_bytes <= 5 * 65_536, "{all:?}");
    let known = std::fs::metadata(path).unwrap();
    assert_eq!(known.len(), end);
    assert!(known.blocks() * 512 < 1 << 20, "{} blocks", known.blocks());

    // It is read again within a few pages of memory.
    together(4, |job| {
        let file = job.cache_with(path, &CachedOptions::new().read(true).memory(1 << 20)).unwrap();
        let mut got = vec![1; 100_000];
        file.read_exact_at(&mut got, end - 100_000).unwrap();
        assert!(got == bytes(3, 100_000));
        file.read_exact_at(&mut got, end / 2).unwrap();
        assert!(got.iter().all(|byte| *byte == 0));
        assert!(file.read_exact_at(&mut got, end - 1).is_err());
    });
}

#[test]
fn sixty_four_ranks_write_columns_and_read_those_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("columns");
    const COLUMNS: u64 = 1000;
    const COLUMN: usize = 4000;
    let statistics = together(64, |job| {
        let rank = u64::from(job.rank());
        let mut file =
            job.cache_with(path, &CachedOptions::new().write(true).create(true)).unwrap();
        file.reserve(COLUMNS * COLUMN as u64).unwrap();
        for column in (0..COLUMNS).filter(|column| column % 64 == rank) {
            file.write_at(&bytes(column, COLUMN), column * COLUMN as u64).unwrap();
        }
        let close = |file: CachedFile| file.close().unwrap();
        close(file);
        let file = job.cache(path).unwrap();
        for column in (0..COLUMNS).filter(|column| (column + 1) % 64 == rank) {
            let mut got = vec![0; COLUMN];
            file.read_exact_at(&mut got, column * COLUMN as u64).unwrap();
            assert!(got == bytes(column, COLUMN));
        }
        let statistics = file.statistics();
        close(file);
        statistics
    });
    // A few ranks have read it once, in large pieces.
    let readers = statistics.iter().filter(|one| one.reads > 0).count();
    let all = all(&statistics);
    assert!(readers <= 4 && all.reads == 1 && all.read_bytes == COLUMNS * COLUMN as u64, "{all:?}");
}

/// More than fits is written and read in a window of memory, by all at once.
#[test]
fn all_at_once_within_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("window");
    const PART: usize = 30_000;
    const PARTS: u64 = 400;
    together(8, |job| {
        let rank = u64::from(job.rank());
        let options = CachedOptions::new().read(true).write(true).create(true).memory(1 << 20);
        let mut file = job.cache_with(path, &options).unwrap();
        file.reserve(PARTS * PART as u64).unwrap();
        for turn in 0..3 {
            for part in (0..PARTS).filter(|part| (part + turn) % 8 == rank) {
                file.write_at(&bytes(part + turn, PART), part * PART as u64).unwrap();
            }
            job.barrier().unwrap();
            for part in (0..PARTS).filter(|part| part % 8 == rank) {
                let mut got = vec![0; PART];
                file.read_exact_at(&mut got, part * PART as u64).unwrap();
                assert!(got == bytes(part + turn, PART), "{turn}: {part}");
            }
            job.barrier().unwrap();
        }
        file.close().unwrap();
    });
    let content = std::fs::read(path).unwrap();
    let right: Vec<u8> = (0..PARTS).flat_map(|part| bytes(part + 2, PART)).collect();
    assert!(content == right);
}

#[test]
fn all_append_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let distributions = EVERY_DISTRIBUTION.into_iter().map(|machines| (None, machines));
    for (memory, machines) in distributions.chain([(Some(0), Machines::One)]) {
        let path = &dir.path().join("log");
        let old = b"an old line\n".repeat(10_000);
        std::fs::write(path, &old).unwrap();
        let taken = spread(8, machines, |job| {
            let mut options = CachedOptions::new().write(true).append(true);
            if let Some(bytes) = memory {
                options = options.memory(bytes);
            }
            let mut log = job.cache_with(path, &options).unwrap();
            log.reserve(old.len() as u64 + 8 * 100 * 100).unwrap();
            let line = [b'a' + job.rank() as u8; 99];
            let mut taken: Vec<u64> = Vec::new();
            for _ in 0..100 {
                taken.push(log.append(&[&line[..], b"\n"].concat()).unwrap());
            }
            job.barrier().unwrap();
            let error = log.append(b"one more").unwrap_err().to_string();
            assert!(error.contains("200000 bytes that were reserved"), "{error}");
            assert!(log.write_at(b"x", 0).is_err());
            log.close().unwrap();
            taken
        });
        let content = std::fs::read(path).unwrap();
        assert_eq!(content.len(), old.len() + 80_000);
        assert!(content.starts_with(&old));
        for (rank, taken) in taken.iter().enumerate() {
            for start in taken {
                let line = &content[*start as usize..][..100];
                assert!(line[..99].iter().all(|letter| *letter == b'a' + rank as u8));
            }
        }
    }
}

#[test]
fn long_runs_with_memory_taken_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("long");
    let expected = &bytes(5, (9 << 20) + 1234);
    let own = |job: &pario::Job| {
        let each = expected.len().div_ceil(3);
        let start = each * job.rank() as usize;
        start..(start + each).min(expected.len())
    };
    together(3, |job| {
        let options = CachedOptions::new().write(true).create(true).prefault(true);
        let mut file = job.cache_with(path, &options).unwrap();
        file.reserve(20 << 20).unwrap();
        file.write_at(&expected[own(&job)], own(&job).start as u64).unwrap();
        file.flush().unwrap();
        assert!(std::fs::read(path).unwrap() == *expected);
        file.close().unwrap();
    });
    // What is in the file, and some of it changed, once more.
    together(3, |job| {
        let options = CachedOptions::new().read(true).write(true).prefault(true);
        let mut file = job.cache_with(path, &options).unwrap();
        let mut got = vec![0; expected.len()];
        file.read_exact_at(&mut got, 0).unwrap();
        assert!(got == *expected);
        file.reserve(20 << 20).unwrap();
        job.barrier().unwrap();
        let changed: Vec<u8> = expected[own(&job)].iter().map(|byte| !byte).collect();
        file.write_at(&changed, own(&job).start as u64).unwrap();
        file.close().unwrap();
    });
    let changed: Vec<u8> = expected.iter().map(|byte| !byte).collect();
    assert!(std::fs::read(path).unwrap() == changed);
}
