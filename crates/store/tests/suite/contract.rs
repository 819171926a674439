//! One contract for all engines of the queue and the blocking calls, on a directory, in memory and on
//! a slow disk: random requests against plain maps.

#![allow(clippy::cast_possible_truncation, reason = "patterns are meant to wrap")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use pario_store::medium::{
    DirectoryEntry, DirectoryMedium, Medium, MediumOpenMode, MemoryMedium, Pace, SlowMedium,
};
use pario_store::{
    Caching, CheckDepth, Completion, Disk, DiskOptions, EngineChoice, ExtentCache, ExtentFile,
    FlatFile, NewSubfile, Queue, QueueOptions, Reply, Request, SubfileId,
};
use tempfile::{TempDir, tempdir};

const DISKS: usize = 3;

/// The media of the disks of a test.
#[derive(Clone, Copy)]
enum Backing {
    Directory,
    Memory,
    /// Directories, with a pace.
    Slow(Pace),
}

/// A pace that costs a test little time.
const TINY: Pace =
    Pace { latency: Duration::from_micros(1), bytes_per_second: NonZeroU64::new(10_000_000_000) };

fn options(cache_bytes: u64) -> DiskOptions {
    DiskOptions {
        cache: ExtentCache::new(cache_bytes),
        journal_bytes: 4 << 10,
        ..DiskOptions::default()
    }
}

/// Three disks.
fn disks(backing: Backing, cache_bytes: u64) -> (Vec<Disk>, Option<TempDir>) {
    let mut options = options(cache_bytes);
    match backing {
        Backing::Memory => {
            let disk =
                |_| Disk::create_on(Arc::new(MemoryMedium::untracked()), options.clone()).unwrap();
            return ((0..DISKS).map(disk).collect(), None);
        }
        Backing::Slow(pace) => options.pace = Some(pace),
        Backing::Directory => {}
    }
    let dir = tempdir().unwrap();
    let disk = |i: usize| Disk::create(dir.path().join(i.to_string()), options.clone()).unwrap();
    ((0..DISKS).map(disk).collect(), Some(dir))
}

fn body(rng: &mut Rng) -> Vec<u8> {
    let len = *rng.choice(&[0, 10, 3_000, 4_032, 4_033, 20_000, 70_000]).unwrap();
    let fill = rng.u8(..);
    (0..len).map(|i: usize| fill.wrapping_add(i as u8)).collect()
}

/// The extent of a request, and its content before.
type Asked = ((usize, u64), Option<Vec<u8>>);

/// Random requests to extents through a queue. No two requests in flight concern the same extent,
/// so that the outcome is known.
fn extents_through_queue(engine: EngineChoice, backing: Backing, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let cache_bytes = *rng.choice(&[0, 300_000, 64 << 20]).unwrap();
    let (disks, _dir) = disks(backing, cache_bytes);
    let new = |i| NewSubfile::new(SubfileId::data(1, i));
    let files: Vec<ExtentFile> =
        disks.iter().zip(0..).map(|(disk, i)| disk.create_extents(new(i)).unwrap()).collect();
    let depth_per_disk = rng.usize(1..10);
    let mut queue = Queue::new(QueueOptions { depth_per_disk, engine }).unwrap();
    let mut model: HashMap<(usize, u64), Vec<u8>> = HashMap::new();
    let mut busy: HashSet<(usize, u64)> = HashSet::new();
    let mut asked: HashMap<u64, Asked> = HashMap::new();
    let mut answers = 0;
    for tag in 0.. {
        let place = (rng.usize(..DISKS), rng.u64(..60));
        let is_last = tag >= 400;
        if !is_last && !busy.contains(&place) {
            let (file, index) = (files[place.0].clone(), place.1);
            let caching = if rng.bool() { Caching::Use } else { Caching::Bypass };
            let known = model.get(&place).cloned();
            let request = match rng.u8(..100) {
                0..40 => {
                    let new = body(&mut rng);
                    let mut extent = file.buffer(2, new.len()).unwrap();
                    extent.header_mut().copy_from_slice(b"hd");
                    extent.body_mut().copy_from_slice(&new);
                    model.insert(place, new);
                    Request::WriteExtent { file, index, extent, caching }
                }
                40..50 => {
                    model.remove(&place);
                    Request::DeleteExtent { file, index }
                }
                50..53 => Request::SyncExtents { file },
                _ => Request::ReadExtent { file, index, caching, prefetch_index: rng.bool() },
            };
            if !matches!(request, Request::SyncExtents { .. }) {
                busy.insert(place);
            }
            asked.insert(tag, (place, known));
            queue.submit(tag, request);
        }
        while queue.len() > 20 || (is_last && !queue.is_empty()) {
            let Some(Completion { tag, result, .. }) = queue.wait() else {
                break;
            };
            let (place, known) = asked.remove(&tag).expect("answered once");
            match result.unwrap() {
                Reply::Extent(found) => {
                    assert!(found.as_ref().is_none_or(|extent| extent.header() == b"hd"));
                    assert_eq!(found.map(|extent| extent.body().to_vec()), known);
                }
                Reply::Deleted(was_there) => assert_eq!(was_there, known.is_some()),
                Reply::Written => {}
                Reply::Synced => {
                    answers += 1;
                    continue;
                }
                Reply::Read { .. } => panic!("no request reads bytes"),
            }
            answers += 1;
            busy.remove(&place);
        }
        if is_last {
            break;
        }
    }
    assert!(asked.is_empty() && answers > 100, "{answers}");
    // The blocking calls read what the queue has written, now and after a reopen.
    drop(queue);
    let check = |files: &[ExtentFile]| {
        for (i, file) in files.iter().enumerate() {
            for index in 0..60 {
                let found = file.read(index).unwrap().map(|extent| extent.body().to_vec());
                assert_eq!(found.as_ref(), model.get(&(i, index)));
            }
            assert!(file.check(CheckDepth::Content).unwrap().is_empty());
        }
    };
    check(&files);
    drop(files);
    let open = |(disk, i): (&Disk, u32)| disk.open_extents(SubfileId::data(1, i)).unwrap();
    check(&disks.iter().zip(0..).map(open).collect::<Vec<_>>());
}

/// Random ranges of flat subfiles against byte arrays.
fn flat_through_queue(engine: EngineChoice, backing: Backing, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let (disks, _dir) = disks(backing, 0);
    let new = |i| NewSubfile::new(SubfileId::data(2, i));
    let files: Vec<FlatFile> =
        disks.iter().zip(0..).map(|(disk, i)| disk.create_flat(new(i)).unwrap()).collect();
    let mut queue = Queue::new(QueueOptions { depth_per_disk: 4, engine }).unwrap();
    let mut model = vec![Vec::<u8>::new(); DISKS];
    for round in 0..60 {
        // Rounds of writes, which do not overlap, alternate with rounds of reads, some from the disk.
        let mut reads = HashMap::new();
        for file in files.iter().filter(|_| round % 4 == 1) {
            file.sync().unwrap();
            if let Some(descriptor) = file.share(true, false).unwrap() {
                rustix::fs::fadvise(descriptor, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            }
        }
        for tag in 0..9u64 {
            let i = rng.usize(..DISKS);
            let (file, pool) = (files[i].clone(), disks[i].pool());
            if round % 2 == 0 {
                let (offset, len) = (tag * 40_000 + rng.u64(..20_000), rng.usize(1..20_000));
                let mut buffer = pool.get(len);
                buffer[..len].iter_mut().for_each(|byte| *byte = rng.u8(..));
                let end = offset as usize + len;
                let grown = model[i].len().max(end);
                model[i].resize(grown, 0);
                model[i][offset as usize..end].copy_from_slice(&buffer[..len]);
                queue.submit(tag, Request::WriteFlat { file, offset, buffer, len });
            } else {
                let range = |_| {
                    let offset = rng.u64(..400_000);
                    offset..offset + rng.u64(..50_000)
                };
                let ranges: Vec<Range<u64>> = (0..tag % 4).map(range).collect();
                let len = ranges.iter().map(|range| range.end - range.start).sum::<u64>() as usize;
                reads.insert(tag, (i, ranges.clone()));
                queue.submit(tag, Request::ReadFlat { file, ranges, buffer: pool.get(len) });
            }
        }
        while let Some(Completion { tag, result, .. }) = queue.wait() {
            if let Reply::Read { buffer, lens } = result.unwrap() {
                let (i, ranges) = &reads[&tag];
                let end = model[*i].len();
                let bytes = ranges.iter().map(|range| {
                    &model[*i][end.min(range.start as usize)..end.min(range.end as usize)]
                });
                assert!(bytes.clone().map(<[u8]>::len).eq(lens.iter().copied()));
                let expected = bytes.collect::<Vec<_>>().concat();
                assert!(buffer[..expected.len()] == expected);
            }
        }
        let file = files[round % DISKS].clone();
        queue.submit(99, Request::SyncFlat { file });
        assert!(matches!(queue.wait().unwrap().result.unwrap(), Reply::Synced));
        for (file, bytes) in files.iter().zip(&model) {
            assert_eq!(file.len().unwrap(), bytes.len() as u64);
        }
    }
}

fn suite(engine: EngineChoice, backing: Backing) {
    for seed in 0..8 {
        extents_through_queue(engine, backing, seed);
        flat_through_queue(engine, backing, seed);
    }
}

#[test]
fn io_uring_on_directories() {
    suite(EngineChoice::Uring, Backing::Directory);
}

#[test]
fn threads_on_directories() {
    suite(EngineChoice::Threads, Backing::Directory);
}

#[test]
fn seeded_order_on_directories() {
    suite(EngineChoice::Seeded(1), Backing::Directory);
}

#[test]
fn io_uring_in_memory() {
    suite(EngineChoice::Uring, Backing::Memory);
}

#[test]
fn threads_in_memory() {
    suite(EngineChoice::Threads, Backing::Memory);
}

#[test]
fn seeded_order_in_memory() {
    suite(EngineChoice::Seeded(2), Backing::Memory);
}

#[test]
fn io_uring_on_slow_disks() {
    suite(EngineChoice::Uring, Backing::Slow(TINY));
}

#[test]
fn threads_on_slow_disks() {
    suite(EngineChoice::Threads, Backing::Slow(TINY));
}

#[test]
fn seeded_order_on_slow_disks() {
    suite(EngineChoice::Seeded(4), Backing::Slow(TINY));
}

#[test]
fn no_engine_is_faster_than_a_slow_disk() {
    const READS: u32 = 20;
    let pace =
        Pace { latency: Duration::from_millis(2), bytes_per_second: NonZeroU64::new(50_000_000) };
    for engine in [EngineChoice::Uring, EngineChoice::Threads, EngineChoice::Seeded(5)] {
        let (disks, _dir) = disks(Backing::Slow(pace), 0);
        let file = disks[0].create_extents(NewSubfile::new(SubfileId::data(1, 0))).unwrap();
        for index in 0..u64::from(READS) {
            file.write(index, b"", &[1; 50_000]).unwrap();
        }
        let mut queue = Queue::new(QueueOptions { depth_per_disk: 8, engine }).unwrap();
        let begun = Instant::now();
        for index in 0..u64::from(READS) {
            let (file, caching) = (file.clone(), Caching::Use);
            queue
                .submit(index, Request::ReadExtent { file, index, caching, prefetch_index: false });
        }
        while let Some(Completion { result, .. }) = queue.wait() {
            assert!(matches!(result.unwrap(), Reply::Extent(Some(_))));
        }
        assert!(begun.elapsed() >= READS * pace.duration(50_000), "{}", queue.engine());
    }
}

#[test]
fn a_slow_disk_gives_away_no_descriptors() {
    let (disks, _dir) = disks(Backing::Slow(TINY), 0);
    let flat = disks[0].create_flat(NewSubfile::new(SubfileId::data(1, 0))).unwrap();
    flat.write_at(&[1; 100_000], 0).unwrap();
    assert!(flat.share(true, true).unwrap().is_none());
    assert!(flat.cached(0, 100_000).is_none());
}

#[test]
fn a_slow_or_failing_request_delays_no_other() {
    for engine in [EngineChoice::Uring, EngineChoice::Threads, EngineChoice::Seeded(3)] {
        let (disks, _dir) = disks(Backing::Directory, 0);
        let file = disks[0].create_extents(NewSubfile::new(SubfileId::data(1, 0))).unwrap();
        let flat = disks[1].create_flat(NewSubfile::new(SubfileId::data(1, 1))).unwrap();
        let mut queue = Queue::new(QueueOptions { depth_per_disk: 1, engine }).unwrap();
        // Far more requests than the depth allows, some of which fail at once.
        for tag in 0..500 {
            let (file, caching) = (file.clone(), Caching::Use);
            let index = if tag % 5 == 0 { u64::MAX } else { tag };
            queue.submit(tag, Request::ReadExtent { file, index, caching, prefetch_index: false });
            let buffer = disks[1].pool().get(100);
            let offset = if tag % 7 == 0 { u64::MAX } else { tag };
            queue.submit(
                1_000 + tag,
                Request::WriteFlat { file: flat.clone(), offset, buffer, len: 8 },
            );
        }
        let (mut fine, mut failed) = (0, 0);
        while let Some(Completion { result, .. }) = queue.wait() {
            if result.is_ok() { fine += 1 } else { failed += 1 }
        }
        assert_eq!((fine, failed), (400 + 428, 100 + 72));
    }
}

#[test]
fn a_waiting_queue_can_be_woken() {
    for engine in [EngineChoice::Uring, EngineChoice::Threads] {
        let mut queue = Queue::new(QueueOptions { depth_per_disk: 4, engine }).unwrap();
        for _ in 0..3 {
            let waker = queue.waker();
            let thread = std::thread::spawn(move || waker.wake());
            assert!(queue.wait_or_wake().is_none());
            thread.join().unwrap();
        }
    }
}

#[test]
fn dropping_a_queue_waits_for_requests_in_flight() {
    for engine in [EngineChoice::Uring, EngineChoice::Threads] {
        let (disks, _dir) = disks(Backing::Directory, 0);
        let file = disks[0].create_extents(NewSubfile::new(SubfileId::data(1, 0))).unwrap();
        let mut queue = Queue::new(QueueOptions { depth_per_disk: 8, engine }).unwrap();
        for index in 0..8 {
            let extent = file.buffer(0, 100_000).unwrap();
            let (file, caching) = (file.clone(), Caching::Bypass);
            queue.submit(index, Request::WriteExtent { file, index, extent, caching });
        }
        drop(queue);
        assert_eq!(file.stat().unwrap().extents, 8);
        assert!(file.check(CheckDepth::Content).unwrap().is_empty());
    }
}

#[test]
fn many_threads_share_a_subfile() {
    let (disks, _dir) = disks(Backing::Directory, 1 << 20);
    let file = disks[0].create_extents(NewSubfile::new(SubfileId::data(1, 0))).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let file = file.clone();
            scope.spawn(move || {
                let mut rng = Rng::with_seed(thread);
                for round in 0..400u64 {
                    // All threads write the same few extents; a reader sees one writer's pattern, whole.
                    let index = rng.u64(..5);
                    let fill = (thread * 50 + round % 50) as u8;
                    file.write(index, &[fill], &vec![fill; rng.usize(1..9_000)]).unwrap();
                    let caching = if round % 2 == 0 { Caching::Use } else { Caching::Bypass };
                    let extent = file.read_with(rng.u64(..5), caching).unwrap();
                    if let Some(extent) = extent {
                        let fill = extent.header()[0];
                        assert!(extent.body().iter().all(|&byte| byte == fill));
                    }
                    match round % 50 {
                        10 => file.sync().unwrap(),
                        20 if thread == 1 => file.compact().unwrap(),
                        _ => {}
                    }
                }
            });
        }
    });
    assert!(file.check(CheckDepth::Content).unwrap().is_empty());
}

#[test]
fn the_cache_is_bounded_counted_and_can_be_bypassed() {
    let (disks, _dir) = disks(Backing::Directory, 1 << 20);
    let file = disks[0].create_extents(NewSubfile::new(SubfileId::data(1, 0))).unwrap();
    for index in 0..100 {
        file.write(index, b"", &[1; 50_000]).unwrap();
    }
    let stat = disks[0].cache().stat();
    assert!(stat.bytes <= 1 << 20 && stat.limit_bytes == 1 << 20, "{stat:?}");
    file.write(0, b"", b"small").unwrap();
    let before = disks[0].cache().stat();
    for _ in 0..10 {
        assert_eq!(file.read(0).unwrap().unwrap().body(), b"small");
        file.read_with(0, Caching::Bypass).unwrap();
    }
    let after = disks[0].cache().stat();
    assert_eq!((after.hits - before.hits, after.misses - before.misses), (10, 0));
}

#[test]
fn flat_ranges_can_be_scattered_and_gathered() {
    for backing in [Backing::Directory, Backing::Memory, Backing::Slow(TINY)] {
        let (disks, _dir) = disks(backing, 0);
        let flat = disks[0].create_flat(NewSubfile::new(SubfileId::data(1, 0))).unwrap();
        let parts: Vec<Vec<u8>> = (0..3_000u32).map(|i| i.to_le_bytes().to_vec()).collect();
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        flat.write_vectored_at(&mut slices, 5).unwrap();
        assert_eq!(flat.len().unwrap(), 5 + 12_000);
        let (mut first, mut empty, mut rest) = ([9; 7], [0; 0], vec![9; 20_000]);
        let mut into =
            [IoSliceMut::new(&mut first), IoSliceMut::new(&mut empty), IoSliceMut::new(&mut rest)];
        assert_eq!(flat.read_vectored_at(&mut into, 0).unwrap(), 12_005);
        assert_eq!(first, [0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(rest[2..6], 1u32.to_le_bytes());
        flat.set_len(10).unwrap();
        flat.grow(20).unwrap();
        flat.grow(15).unwrap();
        let mut bytes = [7; 30];
        assert_eq!(flat.read_at(&mut bytes, 0).unwrap(), 20);
        assert_eq!(bytes[10..20], [0; 10]);
    }
}

/// All media answer alike.
#[test]
fn media_follow_one_contract() {
    let dir = tempdir().unwrap();
    let slow_dir = tempdir().unwrap();
    let directory = DirectoryMedium::new(dir.path()).unwrap();
    let memory = MemoryMedium::new();
    let slow = SlowMedium::new(Arc::new(DirectoryMedium::new(slow_dir.path()).unwrap()), TINY);
    let media: [&dyn Medium; 3] = [&directory, &memory, &slow];
    let create = MediumOpenMode { create: true, write: true, direct_alignment: None };
    let kind = |result: std::io::Result<()>| result.map_err(|error| error.kind());
    for medium in media {
        let facts: BTreeMap<&str, String> = BTreeMap::from([
            (
                "missing",
                format!("{:?}", kind(medium.open("x", MediumOpenMode::default()).map(|_| ()))),
            ),
            ("no parent", format!("{:?}", kind(medium.open("d/x", create).map(|_| ())))),
            ("list missing", format!("{:?}", kind(medium.list("d").map(|_| ())))),
            ("remove missing", format!("{:?}", kind(medium.remove_file("x")))),
            ("rename missing", format!("{:?}", kind(medium.rename("x", "y")))),
        ]);
        assert!(facts.values().all(|fact| fact == "Err(NotFound)"), "{facts:?}");
        medium.create_dir("d").unwrap();
        let file = medium.open("d/x", create).unwrap();
        let again = medium.open("d/x", create).map(|_| ());
        assert_eq!(kind(again), Err(std::io::ErrorKind::AlreadyExists));
        file.write_all_at(b"hello", 3).unwrap();
        let mut bytes = [1; 10];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 8);
        assert_eq!(&bytes, b"\0\0\0hello\x01\x01");
        assert_eq!(file.read_at(&mut bytes, 8).unwrap(), 0);
        assert_eq!(file.read_at(&mut bytes, 1 << 40).unwrap(), 0);
        file.allocate(0, 100).unwrap();
        assert_eq!(file.len().unwrap(), 100);
        file.allocate(0, 50).unwrap();
        assert_eq!(file.len().unwrap(), 100);
        file.set_len(5).unwrap();
        file.sync().unwrap();
        let not_empty = medium.remove_dir("d").unwrap_err().kind();
        assert_eq!(not_empty, std::io::ErrorKind::DirectoryNotEmpty);
        medium.rename("d", "e").unwrap();
        medium.sync_dir("").unwrap();
        let name = |name: &str, is_dir| DirectoryEntry { name: name.into(), is_dir };
        assert_eq!(medium.list("").unwrap(), [name("e", true)]);
        assert_eq!(medium.list("e").unwrap(), [name("x", false)]);
        let one = medium.lock("e/x", true).unwrap();
        let second = medium.lock("e/x", false).map(|_| ());
        assert_eq!(kind(second), Err(std::io::ErrorKind::WouldBlock));
        drop(one);
        let shared = (medium.lock("e/x", false).unwrap(), medium.lock("e/x", false).unwrap());
        drop(shared);
        // An open file outlives its name.
        medium.remove_file("e/x").unwrap();
        assert_eq!(file.read_at(&mut bytes, 3).unwrap(), 2);
        medium.remove_dir("e").unwrap();
        assert!(medium.list("").unwrap().is_empty());
        assert!(medium.space().unwrap().free_bytes > 0);
    }
}
