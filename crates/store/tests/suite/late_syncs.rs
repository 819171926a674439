//! Late syncs: writes wait before the subfile takes much more space than its live extents need.
//!
//! The medium blocks the syncs of chosen subfiles. One of them blocks the checkpoint worker, so that
//! only writers sync the others.

#![allow(clippy::cast_possible_truncation, reason = "patterns are meant to wrap")]

use std::any::Any;
use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fastrand::Rng;
use pario_store::medium::{
    DirectoryEntry, Medium, MediumFile, MediumOpenMode, MediumSpace, MemoryMedium,
};
use pario_store::{
    Caching, CheckDepth, Disk, DiskOptions, EngineChoice, ExtentCache, ExtentFile, NewSubfile,
    Queue, QueueOptions, Request, StoreError, SubfileId,
};
use parking_lot::{Condvar, Mutex};

/// The subfile that blocks the checkpoint worker.
const HELD: SubfileId = SubfileId::data(1, 0);
/// The subfile that the tests check.
const ID: SubfileId = SubfileId::data(2, 0);
/// The bytes of an extent of the tests on the disk, head included.
const EXTENT_BYTES: u64 = 100 << 10;
/// The bytes that may always wait for a sync.
const FLOOR_BYTES: u64 = 16 << 20;

/// The state of the syncs of a subfile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SyncGate {
    #[default]
    Open,
    /// They wait.
    Shut,
    /// They fail.
    Broken,
}

#[derive(Debug, Default)]
struct SyncGates {
    gates: Mutex<HashMap<u128, (SyncGate, usize)>>,
    changed: Condvar,
}

impl SyncGates {
    fn set(&self, subfile: SubfileId, gate: SyncGate) {
        self.gates.lock().entry(subfile.file).or_default().0 = gate;
        self.changed.notify_all();
    }

    /// Waits until a sync of a subfile is blocked; `false` if `or` becomes true before.
    fn wait_for_blocked_sync(&self, subfile: SubfileId, or: impl Fn() -> bool) -> bool {
        let mut gates = self.gates.lock();
        loop {
            if gates.get(&subfile.file).is_some_and(|(_, waiting)| *waiting > 0) {
                return true;
            }
            if or() {
                return false;
            }
            self.changed.wait(&mut gates);
        }
    }

    /// Makes `wait_for_blocked_sync` check its condition again.
    fn recheck(&self) {
        let _gates = self.gates.lock();
        self.changed.notify_all();
    }

    fn pass(&self, file: u128) -> io::Result<()> {
        let mut gates = self.gates.lock();
        gates.entry(file).or_default().1 += 1;
        self.changed.notify_all();
        while gates[&file].0 == SyncGate::Shut {
            self.changed.wait(&mut gates);
        }
        gates.get_mut(&file).expect("just put there").1 -= 1;
        if gates[&file].0 == SyncGate::Broken { Err(io::Error::other("worn out")) } else { Ok(()) }
    }
}

/// A medium in memory with a gate before each sync.
#[derive(Clone, Debug)]
struct Gated {
    memory: MemoryMedium,
    gates: Arc<SyncGates>,
}

impl Medium for Gated {
    fn open(&self, path: &str, mode: MediumOpenMode) -> io::Result<Arc<dyn MediumFile>> {
        let file = self.memory.open(path, mode)?;
        let subfile = path.split('-').next().and_then(|id| u128::from_str_radix(id, 16).ok());
        let Some(subfile) = subfile else { return Ok(file) };
        Ok(Arc::new(GatedFile { file, subfile, gates: self.gates.clone() }))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.memory.create_dir(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.memory.rename(from, to)
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        self.memory.remove_file(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.memory.remove_dir(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<DirectoryEntry>> {
        self.memory.list(path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.memory.sync_dir(path)
    }

    fn lock(&self, path: &str, exclusive: bool) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.memory.lock(path, exclusive)
    }

    fn space(&self) -> io::Result<MediumSpace> {
        self.memory.space()
    }

    fn label(&self) -> String {
        self.memory.label()
    }
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn MediumFile>,
    subfile: u128,
    gates: Arc<SyncGates>,
}

impl MediumFile for GatedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, position: u64, len: u64) -> io::Result<()> {
        self.file.allocate(position, len)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position)
    }

    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], position: u64) -> io::Result<usize> {
        self.file.read_vectored_at(buffers, position)
    }

    fn write_all_at(&self, buffer: &[u8], position: u64) -> io::Result<()> {
        self.file.write_all_at(buffer, position)
    }

    fn write_all_vectored_at(&self, buffers: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        self.file.write_all_vectored_at(buffers, position)
    }

    fn sync(&self) -> io::Result<()> {
        self.gates.pass(self.subfile)?;
        self.file.sync()
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.file.allocated_bytes()
    }
}

/// A disk whose checkpoint worker is blocked in a sync.
struct LateDisk {
    medium: Gated,
    file: ExtentFile,
    _held: ExtentFile,
    _disk: Disk,
}

impl LateDisk {
    fn new(options: DiskOptions) -> Self {
        let medium = Gated { memory: MemoryMedium::untracked(), gates: Arc::default() };
        let options = DiskOptions { cache: ExtentCache::new(0), ..options };
        let disk = Disk::create_on(Arc::new(medium.clone()), options).unwrap();
        let held = disk.create_extents(NewSubfile::new(HELD)).unwrap();
        let file = disk.create_extents(NewSubfile::new(ID)).unwrap();
        medium.gates.set(HELD, SyncGate::Shut);
        // Enough to make the worker sync, too little to make a write wait.
        for _ in 0..80 {
            held.write(0, b"", &body(0)).unwrap();
        }
        assert!(medium.gates.wait_for_blocked_sync(HELD, || false));
        Self { medium, file, _held: held, _disk: disk }
    }

    /// The length of the longest journal.
    fn journal_bytes(&self) -> usize {
        let memory = &self.medium.memory;
        let paths = memory.file_paths().into_iter();
        let journals = paths.filter(|path| path.contains(&format!("{:032x}-0", ID.file)));
        let journals = journals.filter(|path| path.contains("journal"));
        journals.map(|path| memory.bytes(&path).unwrap().len()).max().unwrap()
    }
}

impl Drop for LateDisk {
    fn drop(&mut self) {
        // Dropping the disk joins the worker.
        self.medium.gates.set(HELD, SyncGate::Open);
        self.medium.gates.set(ID, SyncGate::Open);
    }
}

fn body(tag: u64) -> Vec<u8> {
    vec![tag as u8; EXTENT_BYTES as usize - 64]
}

/// Checks the bytes that wait for a sync and the space of the subfile, with `in_flight` writes in
/// progress.
#[track_caller]
fn check_space(file: &ExtentFile, in_flight: u64) {
    let stat = file.stat().unwrap();
    let live = stat.extents * EXTENT_BYTES;
    let waiting = (live / 8).max(FLOOR_BYTES) + (in_flight + 1) * EXTENT_BYTES;
    assert!(stat.waiting_bytes <= waiting, "more than {waiting}: {stat:?}");
    let data = live + waiting + in_flight * EXTENT_BYTES;
    let others = (data / 8).max(256 << 10) + (1 << 20);
    assert!(stat.disk_bytes <= data + others, "more than {data} + {others}: {stat:?}");
}

#[test]
fn a_write_makes_the_sync_that_the_blocked_worker_cannot_make() {
    for extents in [10, 3_000] {
        let late = LateDisk::new(DiskOptions::default());
        let mut rng = Rng::with_seed(extents);
        for tag in 0..extents + 2_000 {
            let index = if tag < extents { tag } else { rng.u64(..extents) };
            late.file.write(index, b"", &body(index)).unwrap();
            check_space(&late.file, 1);
        }
        assert!(late.file.check(CheckDepth::Content).unwrap().is_empty());
    }
}

#[test]
fn writes_of_a_queue_make_it_too() {
    for engine in [EngineChoice::Uring, EngineChoice::Threads, EngineChoice::Seeded(5)] {
        let late = LateDisk::new(DiskOptions::default());
        let mut queue = Queue::new(QueueOptions { depth_per_disk: 8, engine }).unwrap();
        for tag in 0..2_000 {
            while queue.len() >= 8 {
                queue.wait().unwrap().result.unwrap();
                check_space(&late.file, 8);
            }
            let (file, index) = (late.file.clone(), tag % 50);
            let mut extent = file.buffer(0, body(tag).len()).unwrap();
            extent.body_mut().copy_from_slice(&body(index));
            let caching = Caching::Bypass;
            queue.submit(tag, Request::WriteExtent { file, index, extent, caching });
        }
        while let Some(completion) = queue.wait() {
            completion.result.unwrap();
        }
        check_space(&late.file, 8);
        for index in 0..50 {
            assert!(late.file.read(index).unwrap().unwrap().body() == body(index));
        }
    }
}

#[test]
fn a_write_that_finds_a_free_run_does_not_wait() {
    let late = LateDisk::new(DiskOptions::default());
    let file = &late.file;
    for index in 0..600 {
        file.write(index, b"", &body(index)).unwrap();
    }
    for index in 0..300 {
        file.delete(index).unwrap();
    }
    // The last extents stay where they are: the freed runs lie before them.
    file.sync().unwrap();
    let gates = &late.medium.gates;
    gates.set(ID, SyncGate::Shut);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let written = (300..600).try_for_each(|index| file.write(index, b"", &body(index)));
            is_done.store(true, Ordering::Release);
            gates.recheck();
            written.unwrap();
        });
        let waits = gates.wait_for_blocked_sync(ID, || is_done.load(Ordering::Acquire));
        gates.set(ID, SyncGate::Open);
        assert!(!waits, "a write waited for a sync");
    });
    let waiting = file.stat().unwrap().waiting_bytes;
    assert!(waiting > FLOOR_BYTES, "{waiting} are too few to show anything");
}

#[test]
fn a_waiting_write_continues_after_the_sync_and_fails_with_it() {
    for outcome in [SyncGate::Open, SyncGate::Broken] {
        let late = LateDisk::new(DiskOptions::default());
        let gates = &late.medium.gates;
        let left = Mutex::new(3);
        gates.set(ID, SyncGate::Shut);
        let write = |writer: u64| {
            let written = (0..500).try_for_each(|tag| {
                let index = writer * 1_000 + tag % 7;
                late.file.write(index, b"", &body(index))
            });
            *left.lock() -= 1;
            gates.recheck();
            written
        };
        let answers: Vec<Result<(), StoreError>> = thread::scope(|scope| {
            let writers: Vec<_> = (0..3).map(|writer| scope.spawn(move || write(writer))).collect();
            let waits = gates.wait_for_blocked_sync(ID, || *left.lock() == 0);
            check_space(&late.file, 3);
            gates.set(ID, outcome);
            assert!(waits, "no write waited for a sync");
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        check_space(&late.file, 3);
        for answer in &answers {
            match outcome {
                SyncGate::Open => assert!(answer.is_ok(), "{answer:?}"),
                _ => assert!(answer.as_ref().unwrap_err().to_string().contains("worn out")),
            }
        }
        if outcome == SyncGate::Broken {
            let poisoned = |answer: &Result<(), StoreError>| {
                matches!(answer, Err(StoreError::Poisoned { .. }))
            };
            assert_eq!(answers.iter().filter(|answer| poisoned(answer)).count(), 2);
            assert!(poisoned(&late.file.sync()));
        }
    }
}

#[test]
fn a_long_journal_makes_writes_checkpoint() {
    let late = LateDisk::new(DiskOptions { journal_bytes: 16 << 10, ..DiskOptions::default() });
    for index in 0..5_000 {
        late.file.write(index, b"", b"short").unwrap();
    }
    let journal_bytes = late.journal_bytes();
    // Four times the limit, and what is reserved ahead.
    assert!(journal_bytes <= (64 << 10) + (128 << 10), "{journal_bytes}");
    assert!(late.file.check(CheckDepth::Content).unwrap().is_empty());
}
