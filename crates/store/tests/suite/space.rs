//! Freed space is found again.

#![allow(clippy::cast_possible_truncation, reason = "patterns are meant to wrap")]

use std::path::Path;

use fastrand::Rng;
use pario_store::{
    Caching, CheckDepth, Disk, DiskOptions, ExtentCache, NewSubfile, Queue, QueueOptions, Request,
    SubfileId,
};

const INDICES: u64 = 10_000;

/// Each extent is rewritten 25 times, after which the waste no longer grows; a hundred times in long
/// runs.
fn rewrites() -> u64 {
    let is_heavy = std::env::var("PARIO_HEAVY").is_ok_and(|value| value == "1");
    INDICES * if is_heavy { 100 } else { 25 }
}

/// A directory in memory if there is one, since this writes 16 GB.
fn directory() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    let in_memory = shm.is_dir().then(|| tempfile::tempdir_in(shm).ok()).flatten();
    in_memory.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

#[test]
fn rewrites_of_random_sizes_leave_little_waste() {
    let dir = directory();
    let options = DiskOptions { cache: ExtentCache::new(0), ..DiskOptions::default() };
    let disk = Disk::create(dir.path(), options).unwrap();
    let file = disk.create_extents(NewSubfile::new(SubfileId::data(1, 0))).unwrap();
    let mut queue = Queue::new(QueueOptions::default()).unwrap();
    let mut rng = Rng::with_seed(3);
    let mut sizes = vec![0; INDICES as usize];
    for tag in 0..rewrites() {
        let index = if tag < INDICES { tag } else { rng.u64(..INDICES) };
        // Two writes of one extent under way would make its final size unknown.
        while queue.len() >= 8 {
            queue.wait().unwrap().result.unwrap();
        }
        let size = rng.usize(1 << 10..128 << 10);
        let mut extent = file.buffer(0, size).unwrap();
        let stamp = (index << 32 | size as u64).to_le_bytes();
        extent.body_mut()[..8].copy_from_slice(&stamp);
        extent.body_mut()[size - 8..].copy_from_slice(&stamp);
        sizes[index as usize] = size;
        let (file, caching) = (file.clone(), Caching::Bypass);
        queue.submit(index, Request::WriteExtent { file, index, extent, caching });
    }
    while let Some(completion) = queue.wait() {
        completion.result.unwrap();
    }
    file.sync().unwrap();
    let stat = file.stat().unwrap();
    assert_eq!(stat.extents, INDICES);
    let ratio = stat.disk_bytes as f64 / stat.live_bytes as f64;
    println!("on disk after the rewrites: {ratio:.3} times the live bytes");
    assert!(ratio <= 1.3, "{ratio:.3}, {stat:?}");
    file.compact().unwrap();
    let stat = file.stat().unwrap();
    let ratio = stat.disk_bytes as f64 / stat.live_bytes as f64;
    println!("on disk after compaction: {ratio:.3} times the live bytes");
    assert!(ratio <= 1.05, "{ratio:.3}, {stat:?}");
    assert!(file.check(CheckDepth::Content).unwrap().is_empty());
    for index in 0..INDICES {
        let extent = file.read_with(index, Caching::Bypass).unwrap().unwrap();
        let size = extent.body().len();
        let stamp = (index << 32 | size as u64).to_le_bytes();
        assert!(extent.body().starts_with(&stamp) && extent.body().ends_with(&stamp));
    }
    // Deleting everything gives everything back.
    for index in 0..INDICES {
        file.delete(index).unwrap();
    }
    file.compact().unwrap();
    let left = file.stat().unwrap().disk_bytes;
    assert!(left < 1 << 20, "{left} bytes for nothing");
}
