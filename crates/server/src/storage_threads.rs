//! The storage threads of a node: a few threads that drive all disks, and the threads for work that
//! blocks.
//!
//! Each storage thread owns a queue of the store ([`pario_store::Queue`]) for its share of the disks.
//! Any thread submits a request to it with a function that takes the result. The storage thread calls
//! that function, so the function must not wait and must not compute for long: it sends a reply, or
//! passes the extent to a compute thread. Work without an asynchronous form (opening, creating,
//! listing, syncing subfiles) runs in the lane of its disk, on threads that exist only while there is
//! such work. So a disk that does not answer delays neither a storage thread nor another disk.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pario_net::panic_text;
use pario_proto::StorageThreadStatus;
use pario_store::{
    Completion, Queue, QueueOptions, Reply, Request, StoreError, TaskLane, TaskThreads, Waker,
};
use parking_lot::Mutex;

/// The period at which a node that stops looks whether its storage threads have ended.
const STOP_POLL: Duration = Duration::from_millis(1);

/// The function that takes the result of a request, and the time since the disk began it.
type ResultFunction = Box<dyn FnOnce(Result<Reply, StoreError>, Duration) + Send>;

/// The storage threads of a node.
#[derive(Debug)]
pub struct StorageThreads {
    threads: Vec<Arc<ThreadState>>,
    handles: Mutex<Vec<JoinHandle<()>>>,
    /// The lane of each disk for work that blocks.
    lanes: Vec<TaskLane>,
}

#[derive(Debug, Default)]
struct ThreadState {
    inbox: Mutex<Inbox>,
    requests: Mutex<BTreeMap<u64, RequestEntry>>,
    next_number: AtomicU64,
    served: AtomicU64,
}

/// Requests that the thread has not taken yet.
#[derive(Default)]
struct Inbox {
    submitted: Vec<SubmittedRequest>,
    /// Set while the thread waits, or is about to wait.
    waker: Option<Waker>,
    is_asleep: bool,
    is_stopped: bool,
}

struct SubmittedRequest {
    /// The client or the call for which the request is: these take turns at a disk.
    caller: u64,
    request: Request,
    done: ResultFunction,
}

/// A request of a disk, for the status.
#[derive(Debug)]
struct RequestEntry {
    disk: usize,
    kind: &'static str,
    since: Instant,
}

/// A request that is registered with the storage thread of its disk. Dropping it ends the
/// registration.
#[derive(Debug)]
#[must_use = "the registration ends when this is dropped"]
pub struct RegisteredRequest {
    thread: Arc<ThreadState>,
    number: u64,
}

impl StorageThreads {
    /// Starts `count` threads for `disks` disks. Each disk has up to `depth` requests under way, and
    /// up to `depth` tasks that block. Work that blocks runs on `tasks`.
    pub fn start(
        count: usize,
        disks: usize,
        depth: usize,
        tasks: &TaskThreads,
    ) -> io::Result<Self> {
        let (mut threads, mut handles) = (Vec::new(), Vec::new());
        for number in 0..count.max(1) {
            let (state, tasks) = (Arc::new(ThreadState::default()), tasks.clone());
            let (ready, is_ready) = mpsc::channel();
            let serving = state.clone();
            let options = QueueOptions { depth_per_disk: depth, ..QueueOptions::default() };
            let thread = std::thread::Builder::new().name(format!("Storage[{number}]"));
            // A queue belongs to the thread that creates it.
            handles.push(thread.spawn(move || serving.run(options, &tasks, &ready))?);
            is_ready.recv().map_err(io::Error::other)??;
            threads.push(state);
        }
        let lanes = (0..disks).map(|_| tasks.lane(depth)).collect();
        Ok(Self { threads, handles: Mutex::new(handles), lanes })
    }

    /// The number of threads.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// Registers a request to a disk, so that the status tells of it.
    pub fn register(&self, disk: usize, kind: &'static str) -> RegisteredRequest {
        let thread = self.of(disk).clone();
        let number = thread.next_number.fetch_add(1, Ordering::Relaxed);
        let entry = RequestEntry { disk, kind, since: Instant::now() };
        thread.requests.lock().insert(number, entry);
        RegisteredRequest { thread, number }
    }

    /// Submits a request to a disk for a caller. The storage thread calls `done` with the result; if
    /// the node stops before, it drops `done`.
    pub fn submit(
        &self,
        disk: usize,
        caller: u64,
        request: Request,
        done: impl FnOnce(Result<Reply, StoreError>, Duration) + Send + 'static,
    ) {
        let submitted = SubmittedRequest { caller, request, done: Box::new(done) };
        self.of(disk).submit(submitted);
    }

    /// Runs work for a disk that may block.
    pub fn run(&self, disk: usize, work: impl FnOnce() + Send + 'static) {
        self.lanes[disk].run(work);
    }

    /// Returns the status of each thread.
    pub fn status(&self, name_of: impl Fn(usize) -> String) -> Vec<StorageThreadStatus> {
        let status = |thread: &Arc<ThreadState>| {
            let requests = thread.requests.lock();
            let oldest = requests.first_key_value().map(|(_, entry)| entry);
            let ms =
                |since: Instant| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            StorageThreadStatus {
                serves: oldest.map(|entry| format!("{} on {}", entry.kind, name_of(entry.disk))),
                serves_ms: oldest.map(|entry| ms(entry.since)),
                waiting: (requests.len() as u64).saturating_sub(1),
                served: thread.served.load(Ordering::Relaxed),
            }
        };
        self.threads.iter().map(status).collect()
    }

    /// Stops the threads. Requests under way finish; those that wait are dropped. Returns `false` if
    /// a thread has not ended by the deadline, because a disk does not answer.
    pub fn stop(&self, deadline: Instant) -> bool {
        for thread in &self.threads {
            let mut inbox = thread.inbox.lock();
            inbox.is_stopped = true;
            let waiting = std::mem::take(&mut inbox.submitted);
            let waker = inbox.waker.clone();
            drop(inbox);
            drop(waiting);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        for handle in self.handles.lock().drain(..) {
            while !handle.is_finished() {
                if Instant::now() >= deadline {
                    return false;
                }
                std::thread::sleep(STOP_POLL);
            }
            // The panic hook has reported a panic of the thread.
            let _ = handle.join();
        }
        true
    }

    fn of(&self, disk: usize) -> &Arc<ThreadState> {
        &self.threads[disk % self.threads.len()]
    }
}

impl ThreadState {
    fn submit(&self, submitted: SubmittedRequest) {
        let mut inbox = self.inbox.lock();
        if inbox.is_stopped {
            drop(inbox);
            return drop(submitted);
        }
        inbox.submitted.push(submitted);
        let waker = std::mem::take(&mut inbox.is_asleep).then(|| inbox.waker.clone()).flatten();
        drop(inbox);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The thread: serves requests until it is stopped. A panic fails the requests under way; those
    /// that follow get a new queue.
    fn run(
        &self,
        options: QueueOptions,
        tasks: &TaskThreads,
        ready: &mpsc::Sender<io::Result<()>>,
    ) {
        loop {
            let mut queue = match Queue::with_tasks(options, tasks) {
                Ok(queue) => queue,
                Err(error) => {
                    tracing::error!(%error, "a storage thread cannot start its queue");
                    self.inbox.lock().is_stopped = true;
                    // Fails the start of the node, or nobody listens any more.
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            self.inbox.lock().waker = Some(queue.waker());
            let _ = ready.send(Ok(()));
            match catch_unwind(AssertUnwindSafe(|| self.serve(&mut queue))) {
                Ok(()) => return,
                Err(panic) => tracing::error!(
                    panic = panic_text(&*panic),
                    "a storage thread panicked; the requests that it had have failed"
                ),
            }
        }
    }

    fn serve(&self, queue: &mut Queue) {
        let mut pending: HashMap<u64, ResultFunction> = HashMap::new();
        let (mut next_tag, mut submitted) = (0, Vec::new());
        loop {
            let is_idle = {
                let mut inbox = self.inbox.lock();
                if inbox.is_stopped {
                    return;
                }
                std::mem::swap(&mut inbox.submitted, &mut submitted);
                inbox.is_asleep = submitted.is_empty() && !queue.has_finished();
                inbox.is_asleep
            };
            for SubmittedRequest { caller, request, done } in submitted.drain(..) {
                pending.insert(next_tag, done);
                queue.submit_for(caller, next_tag, request);
                next_tag += 1;
            }
            let finished = if is_idle { queue.wait_or_wake() } else { queue.poll() };
            if let Some(Completion { tag, result, took }) = finished
                && let Some(done) = pending.remove(&tag)
                && let Err(panic) = catch_unwind(AssertUnwindSafe(|| done(result, took)))
            {
                tracing::error!(
                    panic = panic_text(&*panic),
                    "a storage thread panicked with a result; only this request has failed"
                );
            }
        }
    }
}

impl Drop for StorageThreads {
    fn drop(&mut self) {
        self.stop(Instant::now());
    }
}

impl Drop for RegisteredRequest {
    fn drop(&mut self) {
        self.thread.requests.lock().remove(&self.number);
        self.thread.served.fetch_add(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} requests", self.submitted.len())
    }
}

#[cfg(test)]
mod tests {
    use pario_store::{Caching, Disk, DiskOptions, ExtentFile, NewSubfile, SubfileId};

    use super::*;

    fn file(dir: &tempfile::TempDir) -> (Disk, ExtentFile) {
        let disk = Disk::create(dir.path(), DiskOptions::default()).unwrap();
        let file = disk.create_extents(NewSubfile::new(SubfileId::data(1, 0))).unwrap();
        file.write(0, b"", b"here").unwrap();
        (disk, file)
    }

    fn read(file: &ExtentFile, index: u64) -> Request {
        let (file, caching) = (file.clone(), Caching::Use);
        Request::ReadExtent { file, index, caching, prefetch_index: false }
    }

    #[test]
    fn results_arrive_and_a_panic_ends_only_its_request() {
        let dir = tempfile::tempdir().unwrap();
        let (_disk, file) = file(&dir);
        let threads = StorageThreads::start(1, 3, 4, &TaskThreads::new()).unwrap();
        let (send, receive) = mpsc::channel();
        for number in 0..300u64 {
            let send = send.clone();
            let disk = usize::try_from(number % 3).unwrap();
            threads.submit(disk, number % 2, read(&file, number % 2), move |result, _| {
                if number % 10 == 7 {
                    std::panic::resume_unwind(Box::new("of a test"));
                }
                match result.unwrap() {
                    Reply::Extent(found) => send.send((number, found.is_some())).unwrap(),
                    other => panic!("{other:?}"),
                }
            });
        }
        drop(send);
        let mut found: Vec<_> = receive.iter().collect();
        found.sort_unstable();
        let expected = (0..300).filter(|number| number % 10 != 7);
        assert!(found.into_iter().eq(expected.map(|number| (number, number % 2 == 0))));
        assert!(threads.stop(Instant::now() + Duration::from_secs(30)));
        let (send, receive) = mpsc::channel::<()>();
        threads.submit(0, 0, read(&file, 0), move |_, _| drop(send));
        assert!(receive.recv().is_err(), "a stopped thread drops requests");
    }

    #[test]
    fn the_status_tells_of_the_oldest_request() {
        let threads = StorageThreads::start(2, 4, 4, &TaskThreads::new()).unwrap();
        let oldest = threads.register(0, "read");
        let others = [threads.register(2, "write"), threads.register(1, "sync")];
        let status = threads.status(|disk| format!("a/disk{disk}"));
        assert_eq!(status[0].serves.as_deref(), Some("read on a/disk0"));
        assert_eq!(status[1].serves.as_deref(), Some("sync on a/disk1"));
        assert_eq!((status[0].waiting, status[1].waiting), (1, 0));
        drop((oldest, others));
        let status = threads.status(|disk| format!("a/disk{disk}"));
        assert_eq!((&status[0].serves, status[0].served, status[0].waiting), (&None, 2, 0));
    }
}
