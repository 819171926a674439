//! Concurrent accumulations of several ranks to the same numbers.

use pario_records::RecordFile;

use crate::range::bytes;
use crate::ranks::{EVERY_DISTRIBUTION, Machines, spread, together};

#[test]
fn no_update_is_lost_for_any_block_sizes() {
    EVERY_DISTRIBUTION.into_iter().for_each(add_to_all);
}

fn add_to_all(machines: Machines) {
    let dir = tempfile::tempdir().unwrap();
    // Blocks that end in the middle of a number, and numbers at odd offsets.
    let sizes = [3, 70_001, 0, 65_536 * 2 + 5];
    let len: u64 = sizes.iter().sum();
    let count = usize::try_from((len - 1) / 8).unwrap();
    spread(4, machines, |team| {
        let file = RecordFile::create(&team, dir.path().join("file")).unwrap();
        let whole = file.create_record_irregular(&sizes).unwrap();
        let real = file.create_record_irregular(&sizes).unwrap();
        let rank = i64::from(team.rank());
        let numbers: Vec<i64> = (0..count as i64).map(|number| number + rank).collect();
        let reals: Vec<f64> = numbers.iter().map(|number| *number as f64).collect();
        let started: Vec<_> = (0..3)
            .map(|_| {
                file.start_accumulate(numbers.clone(), 10, whole, bytes(1, count * 8)).unwrap()
            })
            .collect();
        for _ in 0..3 {
            file.accumulate(&reals, 0.5, real, bytes(1, count * 8)).unwrap();
        }
        for request in started {
            assert_eq!(request.wait().unwrap(), numbers);
        }
        team.barrier().unwrap();
        let mut found = vec![0; count * 8];
        let len = found.len();
        file.read(&mut found, whole, bytes(1, len)).unwrap();
        for (number, found) in found.chunks(8).enumerate() {
            let found = i64::from_ne_bytes(found.try_into().unwrap());
            assert_eq!(found, 3 * 10 * (4 * number as i64 + 6));
        }
        let mut found = vec![0; count * 8];
        let len = found.len();
        file.read(&mut found, real, bytes(1, len)).unwrap();
        for (number, found) in found.chunks(8).enumerate() {
            let found = f64::from_ne_bytes(found.try_into().unwrap());
            assert_eq!(found, 3.0 * 0.5 * (4 * number + 6) as f64);
        }
        file.close().unwrap();
    });
}

/// Accumulations to one number that lies half in one part and half in another.
#[test]
fn all_add_to_one_number_at_once() {
    add_to_one(Machines::One, 2000);
    EVERY_DISTRIBUTION[1..].iter().for_each(|machines| add_to_one(*machines, 200));
}

fn add_to_one(machines: Machines, times: u64) {
    let dir = tempfile::tempdir().unwrap();
    spread(4, machines, |team| {
        let file = RecordFile::create(&team, dir.path().join("file")).unwrap();
        let record = file.create_record_irregular(&[4, 0, 4, 0]).unwrap();
        for _ in 0..times {
            file.accumulate(&[1_u64], 1, record, 0..8).unwrap();
        }
        team.barrier().unwrap();
        let mut found = [0; 8];
        file.read(&mut found, record, 0..8).unwrap();
        assert_eq!(u64::from_ne_bytes(found), 4 * times);
        file.close().unwrap();
    });
}

#[test]
fn memory_may_have_gaps() {
    let dir = tempfile::tempdir().unwrap();
    together(1, |team| {
        let file = RecordFile::create(&team, dir.path().join("file")).unwrap();
        let record = file.create_record(12).unwrap();
        file.accumulate_strided(&[1_u32, 9, 9, 2, 9, 9, 3], 3, 2, record, 0..12).unwrap();
        let mut found = [0; 12];
        file.read(&mut found, record, 0..12).unwrap();
        let expected: Vec<u8> = [2_u32, 4, 6].iter().flat_map(|n| n.to_ne_bytes()).collect();
        assert_eq!(found.as_slice(), expected);
        let error = file.accumulate(&[1_u32, 2], 1, record, 0..10).unwrap_err().to_string();
        assert!(error.contains("are 10 bytes, which is not a multiple of 4"), "{error}");
        let error = file.accumulate(&[1_u32, 2], 1, record, 0..12).unwrap_err().to_string();
        assert!(error.contains("are 3 numbers of 4 bytes"), "{error}");
    });
}
