//! Parts that differ after a crash, and damaged parts.

use std::fs;

use pario_records::{RecordError, RecordFile, RecordId, map_of_part};

use crate::range::bytes;
use crate::ranks::together;

/// The end of the first log.
const LOG_END: usize = 8192 + (64 << 10);

/// The bytes of all parts.
type Parts = Vec<Vec<u8>>;

/// A record file in a directory of its own.
struct FileOnDisk {
    dir: tempfile::TempDir,
    parts: u32,
}

impl FileOnDisk {
    fn new(parts: u32) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), parts }
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("file")
    }

    fn part(&self, number: u32) -> std::path::PathBuf {
        self.dir.path().join(format!("file.part{number}"))
    }

    fn save(&self) -> Parts {
        (0..self.parts).map(|part| fs::read(self.part(part)).unwrap()).collect()
    }

    fn restore(&self, parts: &[&Vec<u8>]) {
        (0..).zip(parts).for_each(|(part, bytes)| fs::write(self.part(part), bytes).unwrap());
    }

    /// Opens the file; returns the numbers of its records, with their first bytes (0 if empty).
    fn inspect(&self, ranks: u32) -> Result<Vec<(u64, u8)>, RecordError> {
        let mut all = together(ranks, |team| {
            let file = RecordFile::open(&team, self.path())?;
            let mut records = Vec::new();
            for info in file.records() {
                let mut first = [0];
                if info.len > 0 {
                    file.read(&mut first, info.id, 0..1)?;
                }
                records.push((info.id.number(), first[0]));
            }
            file.close()?;
            Ok(records)
        });
        assert!(all.iter().all(|found| *found == all[0]), "{all:?}");
        all.remove(0)
    }
}

/// Combines parts that have and that have not seen the last change.
#[test]
fn opening_undoes_a_change_that_not_all_parts_have() {
    let on_disk = FileOnDisk::new(3);
    together(3, |team| {
        let file = RecordFile::create(&team, on_disk.path()).unwrap();
        let record = file.create_record(100).unwrap();
        file.write(&[7], record, 0..1).unwrap();
        file.create_record(100).unwrap();
        file.close().unwrap();
    });
    let before = on_disk.save();
    let changes: [fn(&RecordFile); 2] = [
        |file| assert_eq!(file.create_record_irregular(&[10, 0, 5000]).unwrap().number(), 3),
        |file| file.destroy_record(RecordId::of_number(1)).unwrap(),
    ];
    for (change, done) in changes.into_iter().zip([&[(1, 7), (2, 0), (3, 0)][..], &[(2, 0)]]) {
        on_disk.restore(&before.iter().collect::<Vec<_>>());
        together(3, |team| change(&RecordFile::open(&team, on_disk.path()).unwrap()));
        // A job frees the space of a destroyed record only after all parts have the change. A part
        // that a crash leaves behind still has the old blocks.
        let all_seen = on_disk.save();
        let after = all_seen.iter().zip(&before).map(|(after, before)| {
            let blocks = before.get(LOG_END..).unwrap_or_default();
            let mut part = [&after[..LOG_END], blocks].concat();
            part.resize(part.len().max(after.len()), 0);
            part
        });
        let after: Parts = after.collect();
        for seen in 0..8_u32 {
            let parts =
                |part: usize| if seen >> part & 1 == 1 { &after[part] } else { &before[part] };
            let mixed: Vec<&Vec<u8>> = (0..3).map(parts).collect();
            on_disk.restore(&mixed);
            let found = on_disk.inspect(1 + seen % 3).unwrap();
            let expected = if seen == 7 { done } else { &[(1, 7), (2, 0)] };
            assert_eq!(found, expected, "parts {seen:03b} have seen it");
            // Opening again gives the same records, and the file is usable.
            assert_eq!(on_disk.inspect(2).unwrap(), expected);
            together(2, |team| {
                let file = RecordFile::open(&team, on_disk.path()).unwrap();
                let record = file.create_record(9000).unwrap();
                let mut all = vec![1; 9000];
                file.read(&mut all, record, bytes(0, 9000)).unwrap();
                assert!(all.iter().all(|byte| *byte == 0));
                file.close().unwrap();
            });
        }
    }
}

#[test]
fn an_error_names_the_damaged_part_and_changes_nothing() {
    let on_disk = FileOnDisk::new(2);
    together(2, |team| {
        let file = RecordFile::create(&team, on_disk.path()).unwrap();
        for number in 1..=5 {
            assert_eq!(file.create_record(10_000).unwrap().number(), number);
        }
        file.close().unwrap();
    });
    let before = on_disk.save();
    let map = map_of_part(&before[1]).unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..60 {
        let mut parts = before.clone();
        // A bit of both superblocks, a bit of the log, or a truncated part.
        match round % 3 {
            0 => {
                let at = random.usize(..96);
                parts[1][at] ^= 1 << random.u8(..8);
                parts[1][4096 + at] ^= 1 << random.u8(..8);
            }
            1 => parts[1][8192 + random.usize(..512)] ^= 1 << random.u8(..8),
            _ => {
                let len = random.usize(..parts[1].len());
                parts[1].truncate(len);
            }
        }
        on_disk.restore(&parts.iter().collect::<Vec<_>>());
        let expected = map_of_part(&parts[1]);
        let needed = map.records.values().map(|block| block.offset + block.len).max().unwrap();
        match on_disk.inspect(2) {
            Ok(found) => {
                assert_eq!(found.len(), 5);
                assert_eq!(expected.unwrap(), map);
                assert!(parts[1].len() as u64 >= needed);
            }
            Err(error) => {
                assert!(matches!(error, RecordError::Damaged(_)), "{error:?}");
                assert!(error.to_string().contains("file.part1"), "{error}");
                assert!(parts.iter().eq(&on_disk.save()), "an error has changed something");
            }
        }
    }
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let on_disk = FileOnDisk::new(1);
    together(1, |team| RecordFile::create(&team, on_disk.path()).unwrap().close().unwrap());
    let mut bytes = on_disk.save().remove(0);
    for at in [0, 4096] {
        bytes[at + 16] = 9;
        let sum = crc(&bytes[at + 16..at + 96]);
        bytes[at + 8..at + 16].copy_from_slice(&sum.to_le_bytes());
    }
    on_disk.restore(&[&bytes]);
    let text = on_disk.inspect(1).unwrap_err().to_string();
    let expected = "the part has version 9 of the format, and this program knows version 1";
    assert!(text.contains(expected), "{text}");
}

/// CRC-64/NVME, bit by bit, as its definition has it.
fn crc(bytes: &[u8]) -> u64 {
    let mut sum = u64::MAX;
    for byte in bytes {
        sum ^= u64::from(*byte);
        for _ in 0..8 {
            let is_odd = sum & 1 == 1;
            sum >>= 1;
            if is_odd {
                sum ^= 0x9a6c_9329_ac4b_c9b5;
            }
        }
    }
    !sum
}
