//! Opening upgrades a disk of format version 1, written by an old program, to version 2, in spite of
//! crashes.

use std::path::Path;
use std::sync::Arc;

use pario_store::medium::{Fault, Medium as _, MediumOpenMode, MemoryMedium};
use pario_store::{CheckDepth, Disk, DiskOptions, SubfileId};

use crate::memory_disk::{inline_options, open_disk};

const FILE: u128 = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;
const FIXTURE: &str = include_str!("../fixtures/disk-v1.txt");

/// The files of the fixture: `file NAME LENGTH`, then `OFFSET BYTES` in hexadecimal for everything
/// that is not zero.
fn old_files() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for line in FIXTURE.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["file", name, len] = words[..] {
            files.push((name.to_owned(), vec![0; len.parse().unwrap()]));
        } else {
            let at = usize::from_str_radix(words[0], 16).unwrap();
            let bytes = (0..words[1].len()).step_by(2);
            let bytes = bytes.map(|n| u8::from_str_radix(&words[1][n..n + 2], 16).unwrap());
            for (n, byte) in bytes.enumerate() {
                files.last_mut().unwrap().1[at + n] = byte;
            }
        }
    }
    files
}

fn old_memory() -> MemoryMedium {
    let memory = MemoryMedium::new();
    for (name, bytes) in old_files() {
        if let Some((dir, _)) = name.split_once('/') {
            let _ = memory.create_dir(dir);
        }
        let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
        memory.open(&name, mode).unwrap();
        memory.set_bytes(&name, bytes).unwrap();
        memory.sync_dir(name.split_once('/').map_or("", |(dir, _)| dir)).unwrap();
    }
    memory.sync_dir("").unwrap();
    memory
}

/// Every byte is what it was, and every subfile says of itself what it said.
fn check(disk: &Disk) {
    let found = disk.subfiles().unwrap();
    assert_eq!(found.len(), 3);
    for subfile in found {
        let described = subfile.description.unwrap();
        assert_eq!((described.layout, described.path.as_str()), (vec![7, 8, 9], "/a/b"));
        assert_eq!((described.rights, described.synced), (None, None), "nothing is known of them");
        assert!(described.created_s > 1_700_000_000 && !described.is_poisoned);
    }
    let flat = disk.open_flat(SubfileId::data(FILE, 0)).unwrap();
    assert_eq!(flat.len().unwrap(), (1 << 20) + 7);
    let mut bytes = vec![0; (1 << 20) + 7];
    assert_eq!(flat.read_at(&mut bytes, 0).unwrap(), bytes.len());
    let mut expected = vec![0; (1 << 20) + 7];
    for (byte, value) in expected[10..3010].iter_mut().zip((0..251).cycle()) {
        *byte = value;
    }
    expected[1 << 20..].copy_from_slice(b"far out");
    assert!(bytes == expected);
    let unsynced = disk.open_flat(SubfileId::data(FILE, 2)).unwrap();
    let mut bytes = [0; 20];
    assert_eq!(unsynced.read_at(&mut bytes, 0).unwrap(), 8);
    assert_eq!(&bytes[..8], b"unsynced");
    let extents = disk.open_extents(SubfileId::data(FILE, 1)).unwrap();
    let four = extents.read(4).unwrap().unwrap();
    assert_eq!((four.header(), four.body()), (&b"head"[..], &b"body of four"[..]));
    assert_eq!(extents.read(9).unwrap().unwrap().body(), b"new");
    assert!(extents.check(CheckDepth::Content).unwrap().is_empty());
}

fn version(memory: &MemoryMedium) -> u8 {
    memory.bytes("pario.disk").unwrap()[16]
}

#[test]
fn an_old_disk_is_upgraded_when_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in old_files() {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let mark = |dir: &Path| std::fs::read(dir.join("pario.disk")).unwrap()[16];
    // A read-only opening reads the old format.
    let read_only =
        Disk::open(dir.path(), DiskOptions { read_only: true, ..inline_options() }).unwrap();
    check(&read_only);
    let id = read_only.id();
    drop(read_only);
    assert_eq!(mark(dir.path()), 1);
    let disk = Disk::open(dir.path(), inline_options()).unwrap();
    assert_eq!((mark(dir.path()), disk.id()), (2, id));
    check(&disk);
    assert!(Disk::open(dir.path(), inline_options()).is_err(), "the new mark is locked too");
    // DescriptionStore of both kinds can be changed now.
    for index in 0..3 {
        let id = SubfileId::data(FILE, index);
        disk.update_description(id, |description| assert!(description.add_synced(&[1]))).unwrap();
    }
    disk.open_flat(SubfileId::data(FILE, 0)).unwrap().sync().unwrap();
    drop(disk);
    let disk = Disk::open(dir.path(), inline_options()).unwrap();
    for index in 0..3 {
        assert_eq!(disk.description(SubfileId::data(FILE, index)).unwrap().synced, Some(vec![1]));
    }
    disk.remove(SubfileId::data(FILE, 0)).unwrap();
    disk.remove(SubfileId::data(FILE, 2)).unwrap();
    drop(disk);
    let names = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(names, 2, "the mark and the subfile of extents");
}

#[test]
fn an_upgrade_can_be_interrupted_at_every_step() {
    let steps = {
        let memory = old_memory();
        let before = memory.changes();
        check(&open_disk(&memory));
        assert_eq!(version(&memory), 2);
        memory.changes() - before
    };
    let mut versions = [0; 3];
    for at in 1..=steps {
        for seed in 0..20 {
            let memory = old_memory();
            memory.set_fault(memory.changes() + at, Fault::Crash);
            let _ = Disk::open_on(Arc::new(memory.clone()), inline_options()).map(drop);
            let mut random = fastrand::Rng::with_seed(seed);
            if seed % 3 == 0 {
                memory.kill();
            } else {
                memory.power_loss(&mut |n| random.u64(0..n));
            }
            versions[usize::from(version(&memory))] += 1;
            let disk = Disk::open_on(Arc::new(memory.clone()), inline_options());
            check(&disk.unwrap_or_else(|error| panic!("crash at {at}, seed {seed}: {error}")));
            assert_eq!(version(&memory), 2);
            memory.power_loss(&mut |_| 0);
            check(&open_disk(&memory));
        }
    }
    assert!(steps > 8 && versions[1] > 50 && versions[2] > 0, "{steps} steps, {versions:?}");
}

#[test]
fn an_upgrade_that_fails_changes_nothing_and_says_so() {
    for fault in [Fault::Error, Fault::Full] {
        for at in 1..12 {
            let memory = old_memory();
            memory.set_fault(memory.changes() + at, fault);
            if let Err(error) = Disk::open_on(Arc::new(memory.clone()), inline_options()) {
                let text = error.to_string();
                assert!(text.contains("upgrade it from format version 1 to 2"), "{text}");
            }
            check(&open_disk(&memory));
        }
    }
}
