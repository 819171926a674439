//! A disk that does not answer: one thread drives it and others through one queue, and only the
//! requests to that disk wait.

use std::any::Any;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use pario_store::medium::{
    DirectoryEntry, DirectoryMedium, Medium, MediumFile, MediumOpenMode, MediumSpace,
};
use pario_store::{
    Caching, Completion, Disk, DiskOptions, EngineChoice, ExtentCache, ExtentFile, NewSubfile,
    Queue, QueueOptions, Reply, Request, SubfileId, TaskThreads,
};
use parking_lot::{Condvar, Mutex};
use tempfile::tempdir;

const EXTENT_BYTES: usize = 20_000;
const DEPTH: usize = 4;

/// Whether the disk answers.
#[derive(Debug, Default)]
struct Stall {
    /// Whether it is stalled, and how many calls wait.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Stall {
    fn set(&self, is_stalled: bool) {
        self.state.lock().0 = is_stalled;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock();
        state.1 += 1;
        self.changed.notify_all();
        while state.0 {
            self.changed.wait(&mut state);
        }
        state.1 -= 1;
    }

    fn wait_for_blocked_call(&self) {
        let mut state = self.state.lock();
        while state.1 == 0 {
            self.changed.wait(&mut state);
        }
    }
}

/// A directory in which every call that reaches the disk waits while it is stalled. The kernel
/// performs asynchronous operations itself; a stalled disk delays them there.
#[derive(Debug)]
struct StallingMedium {
    directory: DirectoryMedium,
    stall: Arc<Stall>,
}

impl Medium for StallingMedium {
    fn open(&self, path: &str, mode: MediumOpenMode) -> io::Result<Arc<dyn MediumFile>> {
        self.stall.pass();
        let file = self.directory.open(path, mode)?;
        Ok(Arc::new(StallingFile { file, stall: self.stall.clone() }))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.directory.create_dir(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.directory.rename(from, to)
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        self.directory.remove_file(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.directory.remove_dir(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<DirectoryEntry>> {
        self.directory.list(path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.stall.pass();
        self.directory.sync_dir(path)
    }

    fn lock(&self, path: &str, exclusive: bool) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.directory.lock(path, exclusive)
    }

    fn space(&self) -> io::Result<MediumSpace> {
        self.directory.space()
    }

    fn label(&self) -> String {
        self.directory.label()
    }
}

#[derive(Debug)]
struct StallingFile {
    file: Arc<dyn MediumFile>,
    stall: Arc<Stall>,
}

impl MediumFile for StallingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.stall.pass();
        self.file.set_len(len)
    }

    fn allocate(&self, position: u64, len: u64) -> io::Result<()> {
        self.stall.pass();
        self.file.allocate(position, len)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.stall.pass();
        self.file.read_at(buffer, position)
    }

    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], position: u64) -> io::Result<usize> {
        self.stall.pass();
        self.file.read_vectored_at(buffers, position)
    }

    fn write_all_at(&self, buffer: &[u8], position: u64) -> io::Result<()> {
        self.stall.pass();
        self.file.write_all_at(buffer, position)
    }

    fn write_all_vectored_at(&self, buffers: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        self.stall.pass();
        self.file.write_all_vectored_at(buffers, position)
    }

    fn sync(&self) -> io::Result<()> {
        self.stall.pass();
        self.file.sync()
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.file.allocated_bytes()
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.file.descriptor()
    }
}

/// Opens the stalling disk, or creates it.
fn stalling_disk(path: &Path, stall: &Arc<Stall>, is_new: bool) -> Disk {
    let directory =
        if is_new { DirectoryMedium::create(path) } else { DirectoryMedium::new(path) }.unwrap();
    let medium = Arc::new(StallingMedium { directory, stall: stall.clone() });
    let options = DiskOptions { cache: ExtentCache::new(0), ..DiskOptions::default() };
    let disk = if is_new { Disk::create_on } else { Disk::open_on };
    disk(medium, options).unwrap()
}

fn write(queue: &mut Queue, tag: u64, file: &ExtentFile, index: u64) {
    let extent = file.buffer(0, EXTENT_BYTES).unwrap();
    let (file, caching) = (file.clone(), Caching::Bypass);
    queue.submit(tag, Request::WriteExtent { file, index, extent, caching });
}

fn read(queue: &mut Queue, tag: u64, file: &ExtentFile, index: u64) {
    let (file, caching, prefetch_index) = (file.clone(), Caching::Bypass, false);
    queue.submit(tag, Request::ReadExtent { file, index, caching, prefetch_index });
}

/// Tags of requests to the disk that answers.
const OTHERS: u64 = 1_000;

/// Waits for the completions of `count` requests to the disk that answers; returns the number of
/// other completions.
fn others_complete(queue: &mut Queue, count: usize) -> usize {
    let (mut done, mut stalled) = (0, 0);
    while done < count {
        let Completion { tag, result, .. } = queue.wait().expect("requests are in flight");
        if tag >= OTHERS {
            result.unwrap();
            done += 1;
        } else {
            stalled += 1;
        }
    }
    stalled
}

#[test]
fn a_stalled_disk_delays_only_its_own_requests() {
    for engine in [EngineChoice::Uring, EngineChoice::Threads] {
        let (dir, stall) = (tempdir().unwrap(), Arc::new(Stall::default()));
        let path = dir.path().join("stalling");
        let disk = stalling_disk(&path, &stall, true);
        let new = NewSubfile::new(SubfileId::data(1, 0));
        let file = disk.create_extents(new).unwrap();
        for index in 0..500 {
            file.write(index, b"", &[1; EXTENT_BYTES]).unwrap();
        }
        file.close().unwrap();
        drop(disk);
        // Opened again, so that its index is not in memory.
        let disk = stalling_disk(&path, &stall, false);
        let file = disk.open_extents(SubfileId::data(1, 0)).unwrap();
        let options = DiskOptions { cache: ExtentCache::new(0), ..DiskOptions::default() };
        let other_disk = Disk::create(dir.path().join("other"), options).unwrap();
        let other = other_disk.create_extents(NewSubfile::new(SubfileId::data(2, 0))).unwrap();

        let tasks = TaskThreads::new();
        let options = QueueOptions { depth_per_disk: DEPTH, engine };
        let mut queue = Queue::with_tasks(options, &tasks).unwrap();
        stall.set(true);
        let mut tag = 0;
        let mut submit = |queue: &mut Queue, is_first: bool| {
            for index in 0..20 {
                // Commits that append to the journal, deletions, syncs, and lookups beside them.
                write(queue, tag, &file, 1_000 + index);
                queue.submit(tag + 1, Request::DeleteExtent { file: file.clone(), index });
                read(queue, tag + 2, &file, 400 + index);
                queue.submit(tag + 3, Request::SyncExtents { file: file.clone() });
                tag += 4;
                if is_first {
                    return;
                }
            }
        };
        submit(&mut queue, true);
        stall.wait_for_blocked_call();
        submit(&mut queue, false);
        for index in 0..50 {
            write(&mut queue, OTHERS + index, &other, index);
        }
        let mut finished = others_complete(&mut queue, 50);
        for index in 0..50 {
            read(&mut queue, OTHERS + index, &other, index);
        }
        queue.submit(OTHERS + 50, Request::SyncExtents { file: other.clone() });
        finished += others_complete(&mut queue, 51);
        let stalled = usize::try_from(tag).unwrap();
        assert!(finished < stalled, "the disk has answered {finished} of {stalled}");
        assert!(tasks.count() <= 3 * DEPTH, "{} threads wait for the disk", tasks.count());
        stall.set(false);
        while let Some(Completion { result, .. }) = queue.wait() {
            result.unwrap();
            finished += 1;
        }
        assert_eq!(finished, stalled);
        assert!((0..20).all(|index| file.read(index).unwrap().is_none()));
        assert!((1_000..1_020).all(|index| file.read(index).unwrap().is_some()));
    }
}

/// A caller with many requests and one with few share a disk.
#[test]
fn callers_take_turns() {
    let dir = tempdir().unwrap();
    let options = DiskOptions { cache: ExtentCache::new(0), ..DiskOptions::default() };
    let disk = Disk::create(dir.path(), options).unwrap();
    let file = disk.create_extents(NewSubfile::new(SubfileId::data(1, 0))).unwrap();
    file.write(0, b"", &[1; EXTENT_BYTES]).unwrap();
    for engine in [EngineChoice::Uring, EngineChoice::Threads, EngineChoice::Seeded(1)] {
        let mut queue = Queue::new(QueueOptions { depth_per_disk: 2, engine }).unwrap();
        let request = || Request::ReadExtent {
            file: file.clone(),
            index: 0,
            caching: Caching::Bypass,
            prefetch_index: false,
        };
        for tag in 0..2_000 {
            queue.submit_for(1, tag, request());
        }
        for tag in 2_000..2_010 {
            queue.submit_for(2, tag, request());
        }
        let mut order = Vec::new();
        while let Some(Completion { tag, result, .. }) = queue.wait() {
            assert!(matches!(result.unwrap(), Reply::Extent(Some(_))));
            order.push(tag);
        }
        assert_eq!(order.len(), 2_010);
        let last = order.iter().position(|tag| *tag == 2_009).unwrap();
        assert!(last < 40, "{}: ten requests waited for {last} others", queue.engine());
    }
}

/// A wake-up that comes together with the end of one step of a request counts, too.
#[test]
fn a_wake_up_is_not_lost_between_two_steps() {
    let dir = tempdir().unwrap();
    let disk = Disk::create(dir.path(), DiskOptions::default()).unwrap();
    let file = disk.create_extents(NewSubfile::new(SubfileId::data(1, 0))).unwrap();
    for engine in [EngineChoice::Uring, EngineChoice::Threads] {
        let mut queue = Queue::new(QueueOptions { depth_per_disk: DEPTH, engine }).unwrap();
        let waker = queue.waker();
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let is_late = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (is_late, waker) = (&is_late, &waker);
            scope.spawn(move || {
                if is_done.recv_timeout(Duration::from_secs(30)) == Err(RecvTimeoutError::Timeout) {
                    is_late.store(true, Ordering::SeqCst);
                    waker.wake();
                }
            });
            for round in 0..400 {
                write(&mut queue, 0, &file, round % 10);
                // Long enough for the first step, so that its end and the wake-up meet.
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_micros(round) {
                    std::hint::spin_loop();
                }
                waker.wake();
                let (mut completions, mut wakes) = (0, 0);
                while completions == 0 || wakes == 0 {
                    match queue.wait_or_wake() {
                        Some(completion) => completions += usize::from(completion.result.is_ok()),
                        None => wakes += 1,
                    }
                    assert!(!is_late.load(Ordering::SeqCst), "round {round}: the wake-up is lost");
                }
            }
            drop(done);
        });
    }
}
