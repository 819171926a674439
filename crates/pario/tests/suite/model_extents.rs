//! Random operations on a file of extents against a plain map, over every transport.

use std::collections::BTreeMap;

use fastrand::Rng;
use pario::{ExtentIndex, ExtentPlacement, File, SubfileIndex};

use crate::sites::over_every_transport;

const RUNS: u64 = 6;
const OPERATIONS: usize = 60;

type Model = BTreeMap<(u32, u64), (Vec<u8>, Vec<u8>)>;

fn place(subfile: u32, extent: u64) -> ExtentPlacement {
    ExtentPlacement { subfile: SubfileIndex(subfile), extent: ExtentIndex(extent) }
}

/// Mostly indices that meet, and the largest ones.
fn random_index(random: &mut Rng) -> u64 {
    match random.u32(0..8) {
        0 => ExtentIndex::LIMIT - 1 - random.u64(0..3),
        1 => random.u64(0..ExtentIndex::LIMIT),
        _ => random.u64(0..12),
    }
}

fn random_bytes(random: &mut Rng, most: usize) -> Vec<u8> {
    let len = if random.u32(0..5) == 0 { 0 } else { random.usize(0..=most) };
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

fn compare_list(file: &File, model: &Model) {
    let listed: Vec<_> = file
        .list_extents()
        .unwrap()
        .map(|found| {
            let (place, measure) = found.unwrap();
            assert_eq!(place.extent, measure.extent);
            (place.subfile.0, place.extent.0, measure.header_len, measure.body_len)
        })
        .collect();
    let expected: Vec<_> = model
        .iter()
        .map(|(&(subfile, extent), (header, body))| {
            (subfile, extent, header.len() as u64, body.len() as u64)
        })
        .collect();
    assert_eq!(listed, expected);
    let bytes: usize = model.values().map(|(header, body)| header.len() + body.len()).sum();
    let metadata = file.metadata().unwrap();
    assert_eq!(metadata.len, bytes as u64);
    assert_eq!(metadata.subfiles.iter().map(|s| s.extents).sum::<u64>(), model.len() as u64);
}

/// Writes several extents at once. Some requests are waited for, the others dropped.
fn start_several(file: &File, disks: u32, random: &mut Rng, model: &mut Model) {
    let mut started = BTreeMap::new();
    for _ in 0..random.usize(1..12) {
        let key = (random.u32(0..disks), random_index(random));
        // Of two writes of one extent, either may be the last.
        if started.contains_key(&key) {
            continue;
        }
        let (header, body) = (random_bytes(random, 300), random_bytes(random, 100 << 10));
        let write = file.start_write_extent(header.clone(), body.clone(), place(key.0, key.1));
        started.insert(key, write.unwrap());
        model.insert(key, (header, body));
    }
    for write in started.into_values() {
        match random.bool() {
            true => write.wait().unwrap(),
            false => drop(write),
        }
    }
}

#[test]
fn a_file_of_extents_is_like_a_map() {
    over_every_transport(|site| {
        for seed in 0..RUNS {
            let mut random = Rng::with_seed(seed);
            let path = format!("/extents-{seed}");
            let disks = random.u32(1..=4);
            let open = || {
                let options = site.cluster.options().read(true).write(true).create(true);
                options.extents().disk_count(disks).open(&path).unwrap()
            };
            let mut file = open();
            let mut model = Model::new();
            for _ in 0..OPERATIONS {
                let (subfile, extent) = (random.u32(0..disks), random_index(&mut random));
                let place = place(subfile, extent);
                match random.u32(0..12) {
                    0..=3 => {
                        let header = random_bytes(&mut random, 300);
                        let body = random_bytes(&mut random, 300 << 10);
                        file.write_extent(&header, &body, place).unwrap();
                        model.insert((subfile, extent), (header, body));
                    }
                    4..=6 => {
                        let found = file.read_extent(place).unwrap();
                        let found = found.map(|found| (found.header.to_vec(), found.body.to_vec()));
                        assert!(found.as_ref() == model.get(&(subfile, extent)), "{place:?}");
                    }
                    7 => {
                        let was_there = file.delete_extent(place).unwrap();
                        assert_eq!(was_there, model.remove(&(subfile, extent)).is_some());
                    }
                    8 => compare_list(&file, &model),
                    9 => start_several(&file, disks, &mut random, &mut model),
                    10 => {
                        let keys: Vec<_> =
                            model.keys().copied().chain([(subfile, extent)]).collect();
                        let reads: Vec<_> = keys
                            .iter()
                            .map(|key| file.start_read_extent(self::place(key.0, key.1)).unwrap())
                            .collect();
                        for (key, read) in keys.iter().zip(reads).rev() {
                            let found = read.wait().unwrap();
                            let found =
                                found.map(|found| (found.header.to_vec(), found.body.to_vec()));
                            assert!(found.as_ref() == model.get(key), "{key:?}");
                        }
                    }
                    _ => {
                        file.close().unwrap();
                        file = open();
                    }
                }
            }
            compare_list(&file, &model);
            for (&(subfile, extent), (header, body)) in &model {
                let found = file.read_extent(place(subfile, extent)).unwrap().unwrap();
                assert!(found.header == header && found.body == body);
            }
            let emptied = site.cluster.options().read(true).write(true).create(true);
            let emptied = emptied.truncate(true).extents().open(&path).unwrap();
            compare_list(&emptied, &Model::new());
        }
    });
}

/// More extents than one page of a list has.
#[test]
fn many_extents_are_listed_in_order() {
    over_every_transport(|site| {
        let options = site.cluster.options().read(true).write(true).create(true);
        let file = options.extents().disk_count(2).open("/many").unwrap();
        for number in (0..5000).rev() {
            file.write_extent(b"", b"x", place(1, number * 3)).unwrap();
        }
        file.write_extent(b"", b"", place(0, 9)).unwrap();
        let listed: Vec<_> = file.list_extents().unwrap().map(|found| found.unwrap().0).collect();
        let expected: Vec<_> =
            std::iter::once(place(0, 9)).chain((0..5000).map(|n| place(1, n * 3))).collect();
        assert!(listed == expected);
    });
}
