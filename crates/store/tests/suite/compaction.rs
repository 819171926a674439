//! Compaction: the store compacts a subfile that wastes space by itself, beside readers and writers;
//! callers compact in steps.

#![allow(clippy::cast_possible_truncation, reason = "patterns are meant to wrap")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fastrand::Rng;
use pario_store::medium::MemoryMedium;
use pario_store::{
    Caching, CheckDepth, CompactionCursor, Disk, DiskOptions, ExtentCache, ExtentFile, NewSubfile,
    SubfileId,
};

const ID: SubfileId = SubfileId::data(0xc0, 0);
/// The bytes of an extent of the tests on the disk, head included.
const EXTENT_BYTES: u64 = 64 << 10;
const FLOOR_BYTES: u64 = 1 << 20;

fn options() -> DiskOptions {
    DiskOptions {
        cache: ExtentCache::new(0),
        compact_floor_bytes: FLOOR_BYTES,
        ..DiskOptions::default()
    }
}

/// Options without a worker: maintenance happens in the call that makes it necessary.
fn inline() -> DiskOptions {
    DiskOptions { background: false, ..options() }
}

fn body(index: u64) -> Vec<u8> {
    (0..EXTENT_BYTES - 64).map(|at| (at ^ index) as u8).collect()
}

#[track_caller]
fn check_extent(file: &ExtentFile, index: u64) {
    let extent = file.read_with(index, Caching::Bypass).unwrap().expect("a live extent");
    assert!(extent.body() == body(index), "extent {index}");
}

fn fill(file: &ExtentFile, extents: u64) {
    for index in 0..extents {
        file.write(index, b"", &body(index)).unwrap();
    }
    file.sync().unwrap();
}

/// Deletes all extents but every `keep`th one.
fn delete_most(file: &ExtentFile, extents: u64, keep: u64) {
    for index in (0..extents).filter(|index| index % keep != keep - 1) {
        assert!(file.delete(index).unwrap());
    }
}

/// The bytes of the data file on a medium in memory.
fn data_bytes(memory: &MemoryMedium) -> u64 {
    let path = memory.file_paths().into_iter().find(|path| path.ends_with("/data")).unwrap();
    memory.bytes(&path).unwrap().len() as u64
}

#[test]
fn the_worker_compacts_a_subfile_beside_readers_and_writers() {
    const EXTENTS: u64 = 1_600;
    const KEEP: u64 = 8;
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::create(dir.path(), options()).unwrap();
    let file = disk.create_extents(NewSubfile::new(ID)).unwrap();
    fill(&file, EXTENTS);
    let live_bytes = EXTENTS / KEEP * EXTENT_BYTES;
    let is_compact = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // The last version of each live extent is in its header: no move brings an old one back.
            let mut versions = vec![0_u32; (EXTENTS / KEEP) as usize];
            let mut rng = Rng::with_seed(1);
            while !is_compact.load(Ordering::Acquire) {
                let number = rng.usize(..versions.len());
                let index = number as u64 * KEEP + KEEP - 1;
                let extent = file.read_with(index, Caching::Bypass).unwrap().unwrap();
                let version = versions[number];
                let expected =
                    if version == 0 { Vec::new() } else { version.to_le_bytes().to_vec() };
                assert!(extent.header() == expected && extent.body() == body(index), "{index}");
                if rng.u8(..4) == 0 {
                    versions[number] += 1;
                    let header = versions[number].to_le_bytes();
                    file.write(index, &header, &body(index)).unwrap();
                }
            }
        });
        delete_most(&file, EXTENTS, KEEP);
        file.sync().unwrap();
        // Rewritten extents take space until a sync, and the data file has a reserve.
        while file.stat().unwrap().disk_bytes > live_bytes * 2 + (24 << 20) {
            thread::yield_now();
        }
        is_compact.store(true, Ordering::Release);
    });
    for index in (KEEP - 1..EXTENTS).step_by(KEEP as usize) {
        check_extent(&file, index);
    }
    assert!(file.check(CheckDepth::Content).unwrap().is_empty());
}

#[test]
fn one_subfile_is_compacted_after_the_other() {
    const EXTENTS: u64 = 200;
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::create(dir.path(), options()).unwrap();
    let new = |index| NewSubfile::new(SubfileId::data(1, index));
    let files: Vec<_> = (0..4).map(|index| disk.create_extents(new(index)).unwrap()).collect();
    files.iter().for_each(|file| fill(file, EXTENTS));
    files.iter().for_each(|file| delete_most(file, EXTENTS, 10));
    for file in &files {
        file.sync().unwrap();
        while file.stat().unwrap().disk_bytes > EXTENTS / 10 * EXTENT_BYTES + (1 << 20) {
            thread::yield_now();
        }
        assert!(file.check(CheckDepth::Content).unwrap().is_empty());
    }
}

#[test]
fn a_dropped_disk_stops_a_compaction_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::create(dir.path(), options()).unwrap();
    let file = disk.create_extents(NewSubfile::new(ID)).unwrap();
    fill(&file, 400);
    delete_most(&file, 400, 2);
    file.sync().unwrap();
    drop((file, disk));
    let disk = Disk::open(dir.path(), options()).unwrap();
    let file = disk.open_extents(ID).unwrap();
    (1..400).step_by(2).for_each(|index| check_extent(&file, index));
    assert!(file.check(CheckDepth::Content).unwrap().is_empty());
}

#[test]
fn waste_below_the_share_or_the_floor_is_left_alone() {
    // A third of the extents dies: half of the live ones at most. The floor alone does not matter.
    for (extents, dead, compact_floor_bytes, is_compacted) in [
        (100, 30, FLOOR_BYTES, false),
        (100, 40, FLOOR_BYTES, true),
        (100, 40, 4 << 20, false),
        (20, 16, FLOOR_BYTES, false),
    ] {
        let memory = MemoryMedium::untracked();
        let options = DiskOptions { compact_floor_bytes, ..inline() };
        let disk = Disk::create_on(Arc::new(memory.clone()), options).unwrap();
        let file = disk.create_extents(NewSubfile::new(ID)).unwrap();
        fill(&file, extents);
        let before = data_bytes(&memory);
        // The last extent stays, so that the end of the data does not move by itself.
        for index in 0..dead {
            file.delete(index).unwrap();
        }
        file.sync().unwrap();
        let after = data_bytes(&memory);
        assert_eq!(after < before, is_compacted, "{dead} of {extents}: {before} to {after} bytes");
        if is_compacted {
            assert_eq!(after, (extents - dead) * EXTENT_BYTES);
        }
        (dead..extents).for_each(|index| check_extent(&file, index));
    }
}

/// An extent that cannot move leaves a hole. The store does not try to fill it again and again.
#[test]
fn a_compaction_that_cannot_finish_is_not_repeated_at_once() {
    let memory = MemoryMedium::untracked();
    let disk = Disk::create_on(Arc::new(memory.clone()), inline()).unwrap();
    let file = disk.create_extents(NewSubfile::new(ID)).unwrap();
    fill(&file, 100);
    let path = memory.file_paths().into_iter().find(|path| path.ends_with("/data")).unwrap();
    let mut bytes = memory.bytes(&path).unwrap();
    // The last extent is damaged in its body: compaction leaves it in place.
    bytes[(99 * EXTENT_BYTES) as usize + 1000] ^= 1;
    memory.set_bytes(&path, bytes).unwrap();
    (0..90).for_each(|index| assert!(file.delete(index).unwrap()));
    file.sync().unwrap();
    assert!(file.read(99).unwrap_err().is_damaged());
    let before = memory.changes();
    for _ in 0..20 {
        file.write(95, b"", &body(95)).unwrap();
    }
    // A write, a journal record, and a sync of two files with its record now and then.
    let changes = memory.changes() - before;
    assert!(changes < 20 * 6, "{changes} changes");
    (90..99).for_each(|index| check_extent(&file, index));
}

#[test]
fn steps_report_their_progress_and_take_any_cursor() {
    let memory = MemoryMedium::untracked();
    let options = DiskOptions { compact_floor_bytes: u64::MAX, ..inline() };
    let disk = Disk::create_on(Arc::new(memory.clone()), options).unwrap();
    let file = disk.create_extents(NewSubfile::new(ID)).unwrap();
    fill(&file, 1_000);
    delete_most(&file, 1_000, 2);
    let (mut cursor, mut done, mut steps) = (None, 0, 0);
    loop {
        let step = file.compact_step(cursor).unwrap();
        assert!(step.compact_bytes >= done && step.compact_bytes <= step.data_bytes, "{step:?}");
        assert!(step.moved_bytes <= 20 << 20, "{step:?}");
        (done, steps, cursor) = (step.compact_bytes, steps + 1, step.next);
        if cursor.is_none() {
            break;
        }
    }
    assert!(steps > 3, "{steps} steps");
    assert_eq!((done, data_bytes(&memory)), (500 * EXTENT_BYTES, 500 * EXTENT_BYTES));
    for granule in [0, 7, 1 << 40, u64::MAX] {
        for budget_granules in [0, 1, u64::MAX] {
            let cursor = CompactionCursor { granule, budget_granules };
            assert_eq!(file.compact_step(Some(cursor)).unwrap().moved_bytes, 0);
        }
    }
    assert!(file.check(CheckDepth::Content).unwrap().is_empty());
}
