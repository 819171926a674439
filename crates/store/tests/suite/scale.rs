//! Ten million extents in one subfile.

#![allow(clippy::cast_possible_truncation, reason = "patterns are meant to wrap")]

use std::fs;
use std::time::Instant;

use fastrand::Rng;
use pario_store::{
    Caching, Disk, DiskOptions, ExtentCache, NewSubfile, Queue, QueueOptions, Request, SubfileId,
};

const EXTENTS: u64 = 10_000_000;
const ID: SubfileId = SubfileId::data(1, 0);

/// The largest memory the process has had since the last call.
fn peak_bytes_since_last_call() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    fs::write("/proc/self/clear_refs", "5").unwrap();
    kib << 10
}

fn content(index: u64) -> [u8; 24] {
    let mut body = [index as u8; 24];
    body[..8].copy_from_slice(&index.to_le_bytes());
    body
}

/// Scattered over the whole range of indices, but not at random: each index once.
fn index_of(number: u64) -> u64 {
    (number << 24) | (number.wrapping_mul(0x9e37_79b9) & 0xff_ffff)
}

#[test]
fn ten_million_extents_open_at_once() {
    // A real disk: cold data is part of the test.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = || DiskOptions { cache: ExtentCache::new(0), ..DiskOptions::default() };
    let disk = Disk::create(dir.path(), options()).unwrap();
    let new = NewSubfile { granule_bytes: 512, ..NewSubfile::new(ID) };
    let file = disk.create_extents(new).unwrap();
    for number in 0..EXTENTS {
        let index = index_of(number);
        file.write(index, &[], &content(index)).unwrap();
    }
    let limit = 1 << 30;
    let peak = peak_bytes_since_last_call();
    assert!(peak < limit, "{peak} bytes while filling");

    // As a kill leaves it: the last changes are in the journal only.
    drop((file, disk));
    let open = |label: &str| {
        let disk = Disk::open(dir.path(), options()).unwrap();
        peak_bytes_since_last_call();
        let start = Instant::now();
        let file = disk.open_extents(ID).unwrap();
        let (took, peak) = (start.elapsed(), peak_bytes_since_last_call());
        println!("opened {label} in {took:?} with {peak} bytes");
        assert!(took.as_secs_f64() < 1.0, "{label}: {took:?}");
        assert!(peak < limit, "{label}: {peak} bytes");
        (disk, file)
    };
    let (disk, file) = open("with a journal");
    assert_eq!(file.stat().unwrap().extents, EXTENTS);
    file.close().unwrap();
    drop(disk);
    for path in fs::read_dir(dir.path()).unwrap().flatten() {
        for path in fs::read_dir(path.path()).into_iter().flatten().flatten() {
            let file = fs::File::open(path.path()).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    }
    let (_disk, file) = open("cold");

    // Reads and rewrites anywhere, with as little memory.
    let mut rng = Rng::with_seed(1);
    let mut queue = Queue::new(QueueOptions::default()).unwrap();
    for tag in 0..20_000 {
        let (index, caching) = (index_of(rng.u64(..EXTENTS)), Caching::Bypass);
        let extent = file.buffer(0, 24).unwrap();
        let file = file.clone();
        if tag % 2 == 0 {
            queue
                .submit(index, Request::ReadExtent { file, index, caching, prefetch_index: false });
        } else {
            let mut extent = extent;
            extent.body_mut().copy_from_slice(&content(index));
            queue.submit(index, Request::WriteExtent { file, index, extent, caching });
        }
        while queue.len() > 32 {
            let completion = queue.wait().unwrap();
            if let pario_store::Reply::Extent(extent) = completion.result.unwrap() {
                assert_eq!(extent.unwrap().body(), content(completion.tag));
            }
        }
    }
    drop(queue);
    let first: Vec<u64> = file.list(0..=u64::MAX).take(1_000).map(|i| i.unwrap().index).collect();
    assert!(first.iter().copied().eq((0..1_000).map(index_of)));
    assert!(file.read(1).unwrap().is_none());
    let peak = peak_bytes_since_last_call();
    assert!(peak < limit, "{peak} bytes while in use");
}
