//! The storage threads of a node: which of them serves a request, and what each of them does.
//!
//! The threads form groups of equal size. A disk belongs to one group, and a group usually to one
//! disk, so that a disk that hangs delays no request to another one. A request goes to the thread of
//! its disk's group that has the fewest requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pario_proto::{FileId, StorageThreadStatus};
use parking_lot::Mutex;

/// The storage threads of a node.
#[derive(Debug)]
pub struct StorageThreads {
    groups: usize,
    threads: Vec<ThreadState>,
}

#[derive(Debug, Default)]
struct ThreadState {
    /// Requests that wait for the thread, and the one that it serves.
    queue: AtomicU64,
    served: AtomicU64,
    /// The request that it serves.
    serves: Mutex<Option<ServedRequest>>,
}

#[derive(Clone, Debug)]
struct ServedRequest {
    disk: String,
    kind: &'static str,
    file: Option<FileId>,
    since: Instant,
}

/// A request that a storage thread has in its queue. Dropping it removes the request.
#[derive(Debug)]
#[must_use = "the request leaves the queue at once"]
pub struct QueuedRequest {
    threads: Arc<StorageThreads>,
    thread: usize,
}

/// A request that a storage thread serves. The request is over when this is dropped, also by a panic.
#[derive(Debug)]
#[must_use = "the request is over at once"]
pub struct ServingThread<'t>(&'t ThreadState);

impl StorageThreads {
    /// Creates `groups` groups of threads, each of which serves up to `per_group` requests at once.
    pub fn new(groups: usize, per_group: usize) -> Self {
        let (groups, per_group) = (groups.max(1), per_group.max(1));
        let threads = (0..groups * per_group).map(|_| ThreadState::default()).collect();
        Self { groups, threads }
    }

    /// The number of threads.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// The first thread of the group of a disk, for work that is not divided among the group.
    pub fn first_of(&self, disk: usize) -> usize {
        disk % self.groups
    }

    /// Puts a request to a disk into the queue of the thread with the fewest requests. Returns the
    /// thread.
    pub fn enqueue(self: &Arc<Self>, disk: usize) -> (usize, QueuedRequest) {
        let of_group = (self.first_of(disk)..self.threads.len()).step_by(self.groups);
        let queue = |thread: &usize| self.threads[*thread].queue.load(Ordering::Relaxed);
        let thread = of_group.min_by_key(queue).unwrap_or(0);
        self.threads[thread].queue.fetch_add(1, Ordering::Relaxed);
        (thread, QueuedRequest { threads: self.clone(), thread })
    }

    /// Begins to serve a request on a thread.
    pub fn serve(
        &self,
        thread: usize,
        disk: &str,
        kind: &'static str,
        file: Option<FileId>,
    ) -> ServingThread<'_> {
        let state = &self.threads[thread];
        let (disk, since) = (disk.to_owned(), Instant::now());
        *state.serves.lock() = Some(ServedRequest { disk, kind, file, since });
        ServingThread(state)
    }

    /// Returns the status of each thread.
    pub fn status(&self) -> Vec<StorageThreadStatus> {
        let status = |thread: &ThreadState| {
            let serves = thread.serves.lock().clone();
            let waiting = thread.queue.load(Ordering::Relaxed);
            let ms =
                |since: Instant| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            StorageThreadStatus {
                waiting: waiting.saturating_sub(u64::from(serves.is_some())),
                served: thread.served.load(Ordering::Relaxed),
                serves_ms: serves.as_ref().map(|served| ms(served.since)),
                file: serves.as_ref().and_then(|served| served.file),
                serves: serves.map(|served| format!("{} on {}", served.kind, served.disk)),
            }
        };
        self.threads.iter().map(status).collect()
    }
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        self.threads.threads[self.thread].queue.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for ServingThread<'_> {
    fn drop(&mut self) {
        *self.0.serves.lock() = None;
        self.0.served.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_served_by_all_threads_of_its_group_and_no_others() {
        let threads = Arc::new(StorageThreads::new(4, 8));
        assert_eq!(threads.count(), 32);
        let queued: Vec<_> = (0..16).map(|_| threads.enqueue(1)).collect();
        let mut used: Vec<usize> = queued.iter().map(|(thread, _)| *thread).collect();
        used.sort_unstable();
        let of_disk: Vec<usize> = (0..8).flat_map(|turn| [1 + 4 * turn; 2]).collect();
        assert_eq!(used, of_disk, "two for each of the eight threads");
        assert_eq!(threads.enqueue(2).0, 2, "another disk has threads of its own");
        drop(queued);
        assert_eq!(threads.enqueue(5).0, 1, "disks may share a group");
    }

    #[test]
    fn the_status_tells_what_each_thread_does() {
        let threads = Arc::new(StorageThreads::new(1, 2));
        let (first, queued) = threads.enqueue(0);
        let (_, _second) = threads.enqueue(0);
        let (again, _third) = threads.enqueue(0);
        assert_eq!((first, again), (0, 0));
        let serving = threads.serve(first, "a/disk0", "read", Some(FileId(7)));
        let status = threads.status();
        assert_eq!(status[0].serves.as_deref(), Some("read on a/disk0"));
        assert_eq!((status[0].file, status[1].file), (Some(FileId(7)), None));
        assert_eq!((status[0].waiting, status[1].waiting), (1, 1));
        drop((serving, queued));
        let status = threads.status();
        assert_eq!((&status[0].serves, status[0].served, status[0].waiting), (&None, 1, 1));
    }
}
