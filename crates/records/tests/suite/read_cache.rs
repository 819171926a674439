//! Caches of bytes that were read from other machines.
#![expect(clippy::cast_possible_truncation, reason = "the numbers are small")]

use pario_records::{RecordError, RecordFile, RecordOptions};

use crate::range::bytes;
use crate::ranks::{Machines, spread, together};

const BLOCK: usize = 16 << 10;

fn cached(bytes: usize) -> RecordOptions {
    RecordOptions::new().cache(bytes)
}

/// Changes a part behind the back of the record file; returns whether a read sees it.
fn sees_changes_on_disk(file: &RecordFile, record: pario_records::RecordId, len: usize) -> bool {
    let mut found = vec![0; len];
    file.read(&mut found, record, bytes(0, len)).unwrap();
    found.contains(&b'!')
}

#[test]
fn what_was_read_is_not_requested_again() {
    let dir = tempfile::tempdir().unwrap();
    const LEN: usize = 10 * BLOCK + 77;
    spread(2, Machines::Of(1), |team| {
        let path = dir.path().join("file");
        let file = cached(1 << 20).create(&team, &path).unwrap();
        // All bytes are on the second machine.
        let record = file.create_record_irregular(&[0, LEN as u64]).unwrap();
        let content: Vec<u8> = (0..LEN).map(|at| (at % 33) as u8 + 40).collect();
        if team.rank() == 1 {
            file.write(&content, record, bytes(0, LEN)).unwrap();
        }
        team.barrier().unwrap();
        let part = file.part_path(1).unwrap().to_owned();
        if team.rank() == 0 {
            let mut found = vec![0; LEN];
            for turn in 0..3 {
                file.read(&mut found, record, bytes(0, LEN)).unwrap();
                assert!(found == content);
                let statistics = file.cache_statistics();
                assert_eq!((statistics.misses, statistics.hits), (11, turn * 11));
                assert_eq!(statistics.bytes, LEN);
            }
            // Any part of it, with gaps, and started.
            let mut some = vec![1; 3 * 20_000];
            file.read_strided(&mut some, 3, record, bytes(5, 20_000)).unwrap();
            assert!(some.iter().step_by(3).eq(&content[5..20_005]));
            let started = file.start_read(vec![0; 40_000], record, bytes(100, 40_000)).unwrap();
            assert!(started.wait().unwrap() == content[100..40_100]);
            assert_eq!(file.cache_statistics().misses, 11);
            // Something else changes the part.
            std::fs::write(&part, vec![b'!'; std::fs::metadata(&part).unwrap().len() as usize])
                .unwrap();
            assert!(!sees_changes_on_disk(&file, record, LEN));
            file.forget_cached();
            assert_eq!(file.cache_statistics().bytes, 0);
            assert!(sees_changes_on_disk(&file, record, LEN));
        }
        team.barrier().unwrap();
    });
}

#[test]
fn every_access_that_changes_a_record_makes_cached_bytes_invalid() {
    let dir = tempfile::tempdir().unwrap();
    const LEN: usize = 4 * BLOCK;
    for machines in [Machines::Of(1), Machines::Of(2), Machines::InTurn(3)] {
        spread(4, machines, |team| {
            let path = dir.path().join(format!("{machines:?}"));
            let file = cached(1 << 20).create(&team, &path).unwrap();
            let record = file.create_record(4 * LEN as u64).unwrap();
            let other = file.create_record(4 * LEN as u64).unwrap();
            let mut model = vec![0_u8; 4 * LEN];
            for turn in 0..24_u32 {
                // All ranks have everything in their caches.
                let mut found = vec![1; 4 * LEN];
                file.read(&mut found, record, bytes(0, 4 * LEN)).unwrap();
                assert!(found == model, "turn {turn}");
                let started = file.start_read(found, record, bytes(0, 4 * LEN)).unwrap();
                assert!(started.wait().unwrap() == model, "turn {turn}");
                file.read(&mut [0; 100], other, bytes(0, 100)).unwrap();
                team.barrier().unwrap();
                let start = (turn as usize * 7919 * 4) % (3 * LEN);
                let (value, place) = (turn as u8 + 1, start..start + LEN / 2);
                let range = bytes(start as u64, LEN / 2);
                let is_mine = turn % team.size() == team.rank();
                match turn / 4 % 4 {
                    0 | 1 => model[place].fill(value),
                    _ => model[place].iter_mut().for_each(|byte| *byte = byte.wrapping_add(value)),
                }
                // Each byte of a number is the value, and no sum is above 255.
                let numbers = vec![u32::from_ne_bytes([value; 4]); LEN / 8];
                if is_mine {
                    match turn / 4 % 4 {
                        0 => file.write(&vec![value; LEN / 2], record, range).unwrap(),
                        1 => {
                            let started = file.start_write(vec![value; LEN / 2], record, range);
                            started.unwrap().wait().unwrap();
                        }
                        2 => file.accumulate(&numbers, 1, record, range).unwrap(),
                        _ => {
                            let started = file.start_accumulate(numbers, 1, record, range);
                            started.unwrap().wait().unwrap();
                        }
                    }
                }
                // No rank reads before the access has returned.
                team.barrier().unwrap();
            }
            file.close().unwrap();
        });
    }
}

#[test]
fn a_cache_is_never_larger_than_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    spread(2, Machines::Of(1), |team| {
        let limit = 10 * BLOCK;
        let file = cached(limit).create(&team, dir.path().join("file")).unwrap();
        let record = file.create_record_irregular(&[0, 100 * BLOCK as u64]).unwrap();
        let mut random = fastrand::Rng::with_seed(5);
        if team.rank() == 0 {
            for _ in 0..200 {
                let len = random.usize(1..4 * BLOCK);
                let start = random.usize(..100 * BLOCK - len);
                file.read(&mut vec![0; len], record, bytes(start as u64, len)).unwrap();
                assert!(file.cache_statistics().bytes <= limit);
            }
            assert!(file.cache_statistics().bytes > limit / 2);
            // A read of more than a quarter does not displace what is there.
            let before = file.cache_statistics();
            file.read(&mut vec![0; 50 * BLOCK], record, bytes(0, 50 * BLOCK)).unwrap();
            assert_eq!(file.cache_statistics(), before);
        }
        file.close().unwrap();
    });
}

#[test]
fn all_ranks_want_a_cache_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let errors = together(2, |team| {
        let path = dir.path().join("file");
        let error = match team.rank() {
            0 => cached(1 << 20).create(&team, &path),
            _ => RecordFile::create(&team, &path),
        };
        let file = cached(1000 * (1 + team.rank() as usize)).create(&team, &path).unwrap();
        // Parts of this machine are not cached.
        let record = file.create_record(100).unwrap();
        file.read(&mut [0; 100], record, 0..100).unwrap();
        assert_eq!(file.cache_statistics(), Default::default());
        file.close().unwrap();
        error.unwrap_err()
    });
    for error in errors {
        assert!(matches!(error, RecordError::Invalid(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("rank 0 called create of a record file with a cache"), "{text}");
    }
}
