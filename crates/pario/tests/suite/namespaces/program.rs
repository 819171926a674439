//! A random program of all ranks: each knows what all do, so that it can do the same to vectors of
//! its own and compare.

use std::path::Path;

use fastrand::Rng;
use pario::memory::{Array, Reduction, Segments, Team};
use pario::records::{RecordError, RecordFile, RecordId};

const STEPS: usize = 150;
/// Bytes of a segment of each rank.
const SEGMENT: usize = 100_000;
/// Numbers of the array: some pages of each rank.
const NUMBERS: usize = 40_000;
/// Bytes of the record.
const RECORD: usize = 3_000_000;

/// The objects that the ranks share.
struct Common<'a> {
    team: &'a Team,
    segments: Segments,
    array: Array<i64>,
    file: RecordFile,
    record: RecordId,
}

/// The same objects in a sequential program.
struct Model {
    segments: Vec<Vec<u8>>,
    array: Vec<i64>,
    record: Vec<u8>,
}

fn common<'a>(team: &'a Team, dir: &Path) -> Common<'a> {
    // Each machine has a directory of its own.
    let own = dir.join(team.machine_of(team.rank()).to_string());
    std::fs::create_dir_all(&own).unwrap();
    let file = RecordFile::create(team, own.join("file")).unwrap();
    let record = file.create_record(RECORD as u64).unwrap();
    let segments = team.segments(SEGMENT).unwrap();
    let array = team.array(NUMBERS as u64).unwrap();
    Common { team, segments, array, file, record }
}

/// Runs a program and compares after every step.
pub fn run(team: &Team, seed: u64, dir: &Path) {
    let common = common(team, dir);
    assert!((0..team.size()).any(|rank| !team.is_near(rank)), "the ranks are on several machines");
    let mut model = Model {
        segments: vec![vec![0; SEGMENT]; team.size() as usize],
        array: vec![0; NUMBERS],
        record: vec![0; RECORD],
    };
    let mut random = Rng::with_seed(seed);
    for _ in 0..STEPS {
        step(&common, &mut model, &mut random);
        team.barrier().unwrap();
    }
    compare(&common, &model);
    common.file.close().unwrap();
}

fn some_range(random: &mut Rng, len: usize) -> std::ops::Range<usize> {
    let start = random.usize(..len);
    start..start + random.usize(1..=len - start)
}

fn some_bytes(random: &mut Rng, len: usize) -> Vec<u8> {
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

/// One step of one rank, or of all ranks at once. All ranks draw the same random numbers.
fn step(common: &Common<'_>, model: &mut Model, random: &mut Rng) {
    let Common { team, segments, array, file, record } = common;
    let is_mine = random.u32(..team.size()) == team.rank();
    match random.u8(..9) {
        0 => {
            let target = random.u32(..team.size());
            let range = some_range(random, SEGMENT);
            let bytes = some_bytes(random, range.len());
            if is_mine {
                segments.put(&bytes, target, range.start).unwrap();
            }
            model.segments[target as usize][range].copy_from_slice(&bytes);
        }
        1 => {
            let target = random.u32(..team.size());
            let range = some_range(random, SEGMENT);
            let mut bytes = vec![0; range.len()];
            segments.get(&mut bytes, target, range.start).unwrap();
            assert!(bytes == model.segments[target as usize][range], "rank {target}'s segment");
        }
        2 => {
            let range = some_range(random, NUMBERS);
            let numbers: Vec<i64> = range.clone().map(|_| random.i64(..)).collect();
            if is_mine {
                array.accumulate(&numbers, range.start as u64).unwrap();
            }
            let added = model.array[range].iter_mut().zip(&numbers);
            added.for_each(|(one, number)| *one = one.wrapping_add(*number));
        }
        3 => {
            let indices: Vec<u64> = (0..100).map(|_| random.u64(..NUMBERS as u64)).collect();
            let mut found = vec![0; indices.len()];
            array.gather(&mut found, &indices).unwrap();
            let place = |index: &u64| model.array[usize::try_from(*index).unwrap()];
            assert_eq!(found, indices.iter().map(place).collect::<Vec<i64>>());
        }
        4 => {
            let range = some_range(random, RECORD);
            let bytes = some_bytes(random, range.len());
            if is_mine {
                file.write(&bytes, *record, record_range(&range)).unwrap();
            }
            model.record[range].copy_from_slice(&bytes);
        }
        5 => {
            let range = some_range(random, RECORD);
            let mut found = vec![0; range.len()];
            file.read(&mut found, *record, record_range(&range)).unwrap();
            assert!(found == model.record[range], "the record");
        }
        6 => add_at_once(common, model, random),
        7 => {
            let root = random.u32(..team.size());
            let len = random.usize(..200_000);
            let said = some_bytes(random, len);
            let mut bytes = if team.rank() == root { said.clone() } else { vec![0; said.len()] };
            team.broadcast(root, &mut bytes).unwrap();
            assert!(bytes == said, "the broadcast of rank {root}");
        }
        _ => {
            let mut sums = [u64::from(team.rank()), 1];
            team.reduce(Reduction::Sum, &mut sums).unwrap();
            let size = u64::from(team.size());
            assert_eq!(sums, [size * (size - 1) / 2, size]);
        }
    }
}

/// All add to the same numbers of the record at the same time.
fn add_at_once(common: &Common<'_>, model: &mut Model, random: &mut Rng) {
    let Common { team, file, record, .. } = common;
    let range = some_range(random, RECORD / 8 - 1);
    let offset = random.usize(..8);
    let numbers: Vec<u64> = range.clone().map(|_| random.u64(..)).collect();
    let bytes = range.start * 8 + offset..range.end * 8 + offset;
    file.accumulate(&numbers, 3, *record, record_range(&bytes)).unwrap();
    let times = 3 * u64::from(team.size());
    for (place, number) in model.record[bytes].chunks_exact_mut(8).zip(&numbers) {
        let old = u64::from_ne_bytes((&*place).try_into().unwrap());
        let new = old.wrapping_add(number.wrapping_mul(times));
        place.copy_from_slice(&new.to_ne_bytes());
    }
}

fn record_range(range: &std::ops::Range<usize>) -> std::ops::Range<u64> {
    range.start as u64..range.end as u64
}

fn compare(common: &Common<'_>, model: &Model) {
    for (rank, expected) in (0..).zip(&model.segments) {
        let mut found = vec![1; SEGMENT];
        common.segments.get(&mut found, rank, 0).unwrap();
        assert!(found == *expected, "the segment of rank {rank}");
    }
    let mut found = vec![1; NUMBERS];
    common.array.get(&mut found, 0).unwrap();
    assert!(found == model.array, "the array");
    let mut found = vec![1; RECORD];
    common.file.read(&mut found, common.record, 0..RECORD as u64).unwrap();
    assert!(found == model.record, "the record");
}

/// Uses everything until that fails.
pub fn run_until_lost(team: &Team, dir: &Path) -> RecordError {
    let common = common(team, dir);
    team.barrier().unwrap();
    println!("says ready");
    let mut bytes = vec![1; RECORD];
    loop {
        let used = common
            .file
            .read(&mut bytes, common.record, 0..RECORD as u64)
            .and_then(|()| common.file.accumulate(&[1_u64; 1000], 1, common.record, 0..8000))
            .and_then(|()| Ok(common.array.accumulate(&[1; NUMBERS], 0)?))
            .and_then(|()| Ok(team.barrier()?));
        if let Err(error) = used {
            return error;
        }
    }
}
