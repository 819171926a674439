//! What is on the disk is what docs/disk-format.md draws: read here by hand, field by field.

use std::sync::Arc;

use crc_fast::{CrcAlgorithm, checksum};
use pario_store::medium::MemoryMedium;
use pario_store::{Disk, DiskOptions, NewSubfile, Rights, SubfileId};

const ID: SubfileId = SubfileId::data(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10, 3);
const STEM: &str = "0102030405060708090a0b0c0d0e0f10-3-data";

/// A file read by position.
struct Bytes(Vec<u8>);

impl Bytes {
    fn of(memory: &MemoryMedium, path: &str) -> Self {
        Self(memory.bytes(path).unwrap())
    }

    fn number(&self, at: usize, size: usize) -> u128 {
        let bytes = self.0[at..at + size].iter().rev();
        bytes.fold(0, |number, &byte| number << 8 | u128::from(byte))
    }

    fn text(&self, at: usize, size: usize) -> &str {
        std::str::from_utf8(&self.0[at..at + size]).unwrap()
    }

    fn sum(&self, from: usize, to: usize) -> u128 {
        checksum(CrcAlgorithm::Crc64Nvme, &self.0[from..to]).into()
    }
}

fn new_subfile() -> NewSubfile {
    NewSubfile {
        layout: vec![7, 8, 9],
        path: "/a/b".into(),
        rights: Some(Rights { uid: 1000, gid: 100, mode: 0o640, version: 7 }),
        synced: Some(vec![0b1001]),
        ..NewSubfile::new(ID)
    }
}

fn disk() -> (MemoryMedium, Disk) {
    let memory = MemoryMedium::untracked();
    let options = DiskOptions { background: false, ..DiskOptions::default() };
    let disk = Disk::create_on(Arc::new(memory.clone()), options).unwrap();
    (memory, disk)
}

#[track_caller]
fn check_description(bytes: &Bytes, kind: u128, granule: u128) {
    assert_eq!(bytes.text(0, 8), "PARIOSUB");
    assert_eq!(bytes.number(8, 8), bytes.sum(16, 96 + 8 + 3 + 4));
    assert_eq!(bytes.number(16, 2), 2);
    assert_eq!((bytes.number(18, 1), bytes.number(19, 1), bytes.number(20, 4)), (kind, 0, 3));
    assert_eq!(bytes.number(24, 16), ID.file);
    assert!(bytes.number(40, 8) > 1_600_000_000);
    assert_eq!((bytes.number(48, 4), bytes.number(52, 4), bytes.number(56, 4)), (granule, 3, 4));
    assert_eq!((bytes.number(60, 4), bytes.number(64, 8)), (3, 0), "flags, generation");
    let rights: Vec<u128> = (72..96).step_by(4).map(|at| bytes.number(at, 4)).collect();
    assert_eq!(rights, [1000, 100, 0o640, 7, 1, 0]);
    assert_eq!(bytes.number(96, 8), 0b1001);
    assert_eq!(&bytes.0[104..107], [7, 8, 9]);
    assert_eq!(bytes.text(107, 4), "/a/b");
    assert_eq!(bytes.0.len(), 111);
}

#[test]
fn a_disk_and_a_flat_subfile() {
    let (memory, disk) = disk();
    let mark = Bytes::of(&memory, "pario.disk");
    assert_eq!((mark.0.len(), mark.text(0, 8)), (48, "PARIODSK"));
    assert_eq!((mark.number(8, 8), mark.number(16, 2)), (mark.sum(16, 48), 2));
    assert_eq!(mark.number(32, 16), disk.id());
    let flat = disk.create_flat(new_subfile()).unwrap();
    flat.write_at(b"bytes", 5).unwrap();
    let file = Bytes::of(&memory, &format!("{STEM}.flat"));
    assert!(file.0[..65_536].iter().all(|&byte| byte == 0));
    assert_eq!(file.text(65_536 + 5, 5), "bytes");
    assert_eq!(file.0.len(), 65_536 + 10);
    let path = format!("{STEM}.description");
    let described = Bytes::of(&memory, &path);
    check_description(&described, 1, 1);
    // A change goes to the other slot, with the next generation.
    disk.update_description(ID, |description| description.is_poisoned = true).unwrap();
    let changed = Bytes::of(&memory, &path);
    assert_eq!(changed.0[..111], described.0);
    assert_eq!(changed.0.len(), 2048 + 111);
    assert!(changed.0[111..2048].iter().all(|&byte| byte == 0));
    let slot = Bytes(changed.0[2048..].to_vec());
    assert_eq!(slot.number(8, 8), slot.sum(16, 111));
    assert_eq!((slot.number(60, 4), slot.number(64, 8)), (7, 1));
    assert_eq!(slot.0[72..], described.0[72..]);
    // A long description has its slots further apart, in a file of fixed length.
    let (long, path) = (SubfileId::data(7, 0), "/a".repeat(500));
    disk.create_flat(NewSubfile { path, ..NewSubfile::new(long) }).unwrap();
    disk.update_description(long, |description| description.is_poisoned = true).unwrap();
    let long = Bytes::of(&memory, &format!("{:032x}-0-data.description", 7));
    assert_eq!((long.0.len(), long.text(0, 8)), (262_144, "PARIOSUB"));
    assert_eq!((long.text(131_072, 8), long.number(131_072 + 64, 8)), ("PARIOSUB", 1));
}

#[test]
fn an_extent_subfile() {
    let (memory, disk) = disk();
    let file = disk.create_extents(new_subfile()).unwrap();
    let path = |name: &str| format!("{STEM}.extents/{name}");
    file.write(1 << 40, b"head", b"body!").unwrap();
    file.write(9, b"", &[1; 5000]).unwrap();
    file.write(9, b"", b"new").unwrap();
    file.delete(1 << 40).unwrap();
    file.sync().unwrap();
    let description = Bytes::of(&memory, &path("description"));
    check_description(&description, 2, 4096);

    let data = Bytes::of(&memory, &path("data"));
    assert_eq!((data.text(0, 4), data.number(4, 4), data.number(8, 16)), ("PEXT", 3, ID.file));
    assert_eq!((data.number(24, 8), data.number(40, 4), data.number(44, 4)), (1 << 40, 4, 5));
    assert_eq!(data.text(64, 9), "headbody!");
    let mut block = Bytes(data.0[..73].to_vec());
    block.0[56..64].fill(0);
    assert_eq!(data.number(56, 8), block.sum(0, 73));
    assert!(data.0[73..4096].iter().all(|&byte| byte == 0));
    assert_eq!(data.number(4096 + 24, 8), 9);
    assert_eq!(data.number(3 * 4096 + 44, 4), 3);
    assert!(data.number(3 * 4096 + 32, 8) > data.number(4096 + 32, 8), "later, larger version");

    let journal = Bytes::of(&memory, &path("journal.1"));
    assert_eq!((journal.text(0, 8), journal.number(16, 2)), ("PARIOJNL", 1));
    assert_eq!(journal.number(8, 8), journal.sum(16, 128));
    assert_eq!((journal.number(20, 4), journal.number(24, 16)), (3, ID.file));
    let head: Vec<u128> = (40..80).step_by(8).map(|at| journal.number(at, 8)).collect();
    assert_eq!(head, [1, 1, 1, 0, 0]);
    let mut kinds = Vec::new();
    for number in 0..5 {
        let at = 128 + number * 64;
        assert_eq!(journal.number(at, 8), journal.sum(at + 8, at + 64));
        assert_eq!(journal.number(at + 8, 8), 1 + number as u128);
        assert_eq!(journal.number(at + 60, 4), 1);
        kinds.push((journal.number(at + 23, 1), journal.number(at + 16, 7)));
    }
    assert_eq!(kinds, [(1, 1 << 40), (1, 9), (1, 9), (2, 1 << 40), (3, 0)]);
    let (put, again, delete) = (128, 128 + 2 * 64, 128 + 3 * 64);
    assert_eq!(journal.number(put + 24, 8), 0);
    assert_eq!(journal.number(put + 32, 8), data.number(56, 8));
    assert_eq!((journal.number(put + 40, 4), journal.number(put + 44, 4)), (4, 5));
    assert_eq!(journal.number(put + 48, 8), u128::from(u64::MAX));
    assert_eq!((journal.number(again + 24, 8), journal.number(again + 48, 8)), (3, 1));
    assert_eq!(journal.number(again + 56, 4), 5000);
    assert_eq!((journal.number(delete + 48, 8), journal.number(delete + 56, 4)), (0, 9));
    assert_eq!(journal.number(128 + 4 * 64 + 24, 8), 4, "everything up to 4 is durable");
    assert!(journal.0[128 + 5 * 64..].iter().all(|&byte| byte == 0));

    file.close().unwrap();
    let index = Bytes::of(&memory, &path("index"));
    let block = 4096; // The first checkpoint after the creation has generation 1.
    assert_eq!((index.text(block, 8), index.number(block + 16, 2)), ("PARIOIDX", 1));
    assert_eq!(index.number(block + 8, 8), index.sum(block + 16, block + 4096));
    assert_eq!((index.number(block + 20, 4), index.number(block + 24, 16)), (3, ID.file));
    let field = |at: usize| index.number(block + at, 8);
    assert_eq!((field(40), field(64), field(144), field(152), field(160)), (1, 1, 4, 1, 3));
    assert_eq!(field(176), 2, "the journal goes on in segment 2");
    assert!(memory.bytes(&path("journal.1")).is_err() && memory.bytes(&path("journal.2")).is_ok());

    let root = usize::try_from(field(48)).unwrap() * 4096;
    assert_eq!(index.number(root, 8), index.sum(root + 8, root + 4096));
    assert_eq!(index.number(root + 8, 8) * 4096, root as u128);
    assert_eq!((index.number(root + 16, 8), index.number(root + 24, 2)), (1, 0x100));
    assert_eq!(index.number(root + 26, 2), 1);
    let entry: Vec<u128> = (32..64).step_by(8).map(|at| index.number(root + at, 8)).collect();
    assert_eq!(entry, [9, 3, 3 << 32, data.number(3 * 4096 + 56, 8)]);

    // What the two gone extents had is on its way to being free: held by the segment.
    let held = Bytes::of(&memory, &path("journal.2"));
    assert_eq!(held.number(72, 8), 0, "the sync had freed it");
    let free = usize::try_from(field(72)).unwrap() * 4096;
    assert_eq!(index.number(free + 24, 2), 0x200);
    assert_eq!((index.number(free + 32, 8), index.number(free + 40, 8)), (0, 3));
    let by_size = usize::try_from(field(96)).unwrap() * 4096;
    assert_eq!(index.number(by_size + 32, 8), 3 << 40);
}
