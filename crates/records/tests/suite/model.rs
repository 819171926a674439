//! Random programs of several ranks, compared with records in a plain map.

use std::collections::BTreeMap;

use fastrand::Rng;
use pario_records::{NewRecord, RecordFile, RecordId, RecordOptions};
use pario_team::Team;

use crate::range::bytes;
use crate::ranks::{EVERY_DISTRIBUTION, Machines, spread, together};

/// The expected records. All ranks have the same model and the same random numbers.
struct Model {
    records: BTreeMap<RecordId, Vec<u8>>,
    random: Rng,
}

impl Model {
    fn some_record(&mut self) -> Option<RecordId> {
        let ids: Vec<RecordId> = self.records.keys().copied().collect();
        if ids.is_empty() { None } else { Some(ids[self.random.usize(..ids.len())]) }
    }

    /// A range of a record; it may be empty.
    fn some_range(&mut self, record: RecordId) -> (usize, usize) {
        let len = self.records[&record].len();
        let start = self.random.usize(..=len);
        (start, self.random.usize(..=(len - start)))
    }
}

fn new_record(model: &mut Model, parts: u32) -> NewRecord {
    let random = &mut model.random;
    // Some are long enough for several pool threads.
    let most = if random.u8(..8) == 0 { 300_000 } else { 3000 };
    if random.bool() {
        return NewRecord::Regular(random.u64(..most));
    }
    // Parts without a size have an empty block.
    let given = random.u32(..=parts);
    let sizes = (0..given).map(|_| if random.u8(..3) == 0 { 0 } else { random.u64(..most) });
    NewRecord::Irregular(sizes.collect())
}

fn len_of(new: &NewRecord) -> usize {
    let len: u64 = match new {
        NewRecord::Regular(len) => *len,
        NewRecord::Irregular(sizes) => sizes.iter().sum(),
    };
    usize::try_from(len).unwrap()
}

/// One access by one rank while the others wait; all ranks apply it to their models.
fn access(file: &RecordFile, model: &mut Model, is_mine: bool) {
    let Some(record) = model.some_record() else { return };
    let (start, len) = model.some_range(record);
    let (kind, stride) = (model.random.u8(..6), model.random.usize(1..4));
    let content: Vec<u8> = (0..len).map(|_| model.random.u8(..)).collect();
    let known = model.records.get_mut(&record).unwrap();
    let room = if len == 0 { 0 } else { (len - 1) * stride + 1 };
    let spread = || {
        let mut spread = vec![0x5a; if stride == 1 { len } else { room }];
        (0..len).for_each(|byte| spread[byte * stride] = content[byte]);
        spread
    };
    let start_byte = start as u64;
    match kind {
        0 | 1 => {
            known[start..start + len].copy_from_slice(&content);
            if is_mine {
                file.write_strided(&spread(), stride, record, bytes(start_byte, len)).unwrap();
            }
        }
        2 => {
            known[start..start + len].copy_from_slice(&content);
            if is_mine {
                let writing = file.start_write(content.clone(), record, bytes(start_byte, len));
                assert_eq!(writing.unwrap().wait().unwrap(), content);
            }
        }
        3 => {
            let whole = len / 4 * 4;
            let numbers: Vec<i32> = content[..whole]
                .chunks(4)
                .map(|b| i32::from_ne_bytes(b.try_into().unwrap()))
                .collect();
            for (place, number) in known[start..start + whole].chunks_mut(4).zip(&numbers) {
                let old = i32::from_ne_bytes((&*place).try_into().unwrap());
                let new = old.wrapping_add(number.wrapping_mul(3));
                place.copy_from_slice(&new.to_ne_bytes());
            }
            if is_mine {
                file.accumulate(&numbers, 3, record, bytes(start_byte, whole)).unwrap();
            }
        }
        _ if !is_mine => {}
        4 => {
            let mut found = vec![0x5a; if stride == 1 { len } else { room }];
            file.read_strided(&mut found, stride, record, bytes(start_byte, len)).unwrap();
            for (place, byte) in found.iter().enumerate() {
                let expected =
                    if place % stride == 0 { known[start + place / stride] } else { 0x5a };
                assert_eq!(*byte, expected);
            }
        }
        _ => {
            let read = file.start_read(vec![1; len], record, bytes(start_byte, len)).unwrap();
            assert!(read.wait().unwrap() == known[start..start + len]);
        }
    }
}

/// Checks that the file has exactly the records of the model, with the same content.
fn compare(file: &RecordFile, model: &Model) {
    let infos = file.records();
    assert!(infos.iter().map(|info| info.id).eq(model.records.keys().copied()));
    for info in infos {
        let known = &model.records[&info.id];
        assert_eq!(info.len, known.len() as u64);
        let mut found = vec![1; known.len()];
        let len = found.len();
        file.read(&mut found, info.id, bytes(0, len)).unwrap();
        assert!(found == *known, "{} differs from the model", info.id);
        let distribution = file.distribution(info.id).unwrap();
        let mut end = 0;
        for (part, block) in (0..).zip(&distribution) {
            assert_eq!((block.part, block.start), (part, end));
            assert_eq!(block.rank, part % file.team().size());
            end += block.len;
            if block.len > 0 {
                assert_eq!(file.locate(info.id, block.start).unwrap(), *block);
                assert_eq!(file.locate(info.id, end - 1).unwrap(), *block);
            }
        }
        assert_eq!(end, info.len);
        let here = file.held_here(info.id).unwrap();
        let rank = file.team().rank();
        assert!(here.iter().all(|block| block.rank == rank && block.len > 0));
        let total: u64 = distribution.iter().filter(|b| b.rank == rank).map(|b| b.len).sum();
        assert_eq!(here.iter().map(|block| block.len).sum::<u64>(), total);
    }
}

fn step(file: &RecordFile, model: &mut Model, team: &Team) {
    match model.random.u8(..20) {
        0 | 1 => {
            let count = model.random.usize(1..4);
            let new: Vec<NewRecord> = (0..count).map(|_| new_record(model, file.parts())).collect();
            let made = file.create_records(&new).unwrap();
            for (id, new) in made.into_iter().zip(&new) {
                assert!(model.records.insert(id, vec![0; len_of(new)]).is_none());
            }
        }
        2 => {
            if let Some(record) = model.some_record() {
                file.destroy_record(record).unwrap();
                model.records.remove(&record);
            }
        }
        3 => file.sync().unwrap(),
        _ => {
            // One rank at a time; other tests have concurrent accesses.
            let rank = model.random.u32(..team.size());
            access(file, model, rank == team.rank());
            team.barrier().unwrap();
        }
    }
}

/// Runs a program with `size` ranks, then goes on with other numbers of ranks; each time they are
/// spread over machines in the next of the ways.
fn random_program(seed: u64, size: u32, ways: &[Machines]) {
    random_program_with(RecordOptions::new(), seed, size, ways);
}

fn random_program_with(options: RecordOptions, seed: u64, size: u32, ways: &[Machines]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let mut records = BTreeMap::new();
    for (round, size) in [size, 3, 1, 5].into_iter().enumerate() {
        let known = &records;
        let mut after = spread(size, ways[round % ways.len()], |team| {
            let file = match round {
                0 => options.create(&team, &path).unwrap(),
                _ => options.open(&team, &path).unwrap(),
            };
            let random = Rng::with_seed(seed * 100 + round as u64);
            let mut model = Model { records: BTreeMap::clone(known), random };
            for _ in 0..60 {
                step(&file, &mut model, &team);
            }
            compare(&file, &model);
            // Some programs end without closing, after a barrier.
            if model.random.bool() {
                file.close().unwrap();
            } else {
                team.barrier().unwrap();
            }
            model.records
        });
        records = after.remove(0);
    }
}

#[test]
fn random_programs_match_the_model() {
    for (seed, size) in (0..).zip([1, 2, 3, 4, 7, 2]) {
        random_program(seed, size, &[Machines::One]);
    }
}

#[test]
fn random_programs_on_several_machines_match_the_model() {
    for (seed, size) in (10..).zip([2, 3, 4, 7]) {
        random_program(seed, size, &EVERY_DISTRIBUTION[1..]);
        random_program(seed + 10, size, &EVERY_DISTRIBUTION);
    }
}

#[test]
fn random_programs_with_caches_match_the_model() {
    // Room for a few blocks, and for all.
    for (seed, bytes) in (40..).zip([100_000, 64 << 20, 0]) {
        let options = RecordOptions::new().cache(bytes);
        random_program_with(options, seed, 4, &EVERY_DISTRIBUTION[1..]);
        random_program_with(options, seed + 10, 3, &EVERY_DISTRIBUTION);
    }
}

#[test]
fn sixty_four_ranks_share_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    together(64, |team| {
        let file = RecordFile::open_or_create(&team, &path).unwrap();
        let record = file.create_record(64 * 1000 + 13).unwrap();
        let next = (team.rank() + 1) % 64;
        let block = file.distribution(record).unwrap()[next as usize];
        let len = usize::try_from(block.len).unwrap();
        let byte = u8::try_from(team.rank()).unwrap() + 1;
        file.write(&vec![byte; len], record, bytes(block.start, len)).unwrap();
        file.close().unwrap();
    });
    together(5, |team| {
        let file = RecordFile::open(&team, &path).unwrap();
        assert_eq!(file.parts(), 64);
        let record = file.records()[0].id;
        let mut all = vec![0; 64_013];
        let len = all.len();
        file.read(&mut all, record, bytes(0, len)).unwrap();
        for block in file.distribution(record).unwrap() {
            let start = usize::try_from(block.start).unwrap();
            let found = &all[start..start + usize::try_from(block.len).unwrap()];
            let byte = u8::try_from((block.part + 63) % 64).unwrap() + 1;
            assert!(found.iter().all(|found| *found == byte));
            assert_eq!(block.rank, block.part % 5);
        }
        file.close().unwrap();
    });
}
