//! The load of a disk: its queue and its counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The limit of requests in the queue of a disk.
pub const QUEUE_LIMIT: usize = 32_768;
/// The limit of bytes in the queue of a disk.
const QUEUE_LIMIT_BYTES: u64 = 512 << 20;
/// A disk with a queue that finishes no request for this long has stalled.
const STALL_AFTER: Duration = Duration::from_secs(1);

/// How long a disk counts as failing after a failed request.
const ERROR_MEMORY: Duration = Duration::from_secs(60);

/// The queue and the counters of a disk.
#[derive(Debug)]
pub struct DiskLoad {
    pub(super) reads: AtomicU64,
    pub(super) read_bytes: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) queue: AtomicU64,
    queue_bytes: AtomicU64,
    pub(super) errors: AtomicU64,
    /// The last error and its time.
    last_error: Mutex<Option<(Instant, String)>>,
    /// Requests served since the last call of `take_served`, and their duration in microseconds.
    served: AtomicU64,
    served_us: AtomicU64,
    since: Instant,
    /// When the disk last finished a request or got the first one: milliseconds since `since`.
    progress_ms: AtomicU64,
    /// Subfiles for which a client has stopped waiting.
    late: AtomicU64,
    /// The number of threads that wait for room in the queue.
    waiting: AtomicU64,
    queue_lock: Mutex<()>,
    dequeued: Condvar,
}

impl Default for DiskLoad {
    /// Creates an empty queue.
    fn default() -> Self {
        Self {
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            queue: AtomicU64::new(0),
            queue_bytes: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            last_error: Mutex::default(),
            served: AtomicU64::new(0),
            served_us: AtomicU64::new(0),
            since: Instant::now(),
            progress_ms: AtomicU64::new(0),
            late: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            queue_lock: Mutex::default(),
            dequeued: Condvar::new(),
        }
    }
}

impl DiskLoad {
    /// Adds a request with its bytes to the queue.
    pub fn enqueue(&self, bytes: u64) {
        if self.queue.fetch_add(1, Ordering::Relaxed) == 0 {
            self.note_progress();
        }
        self.queue_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes how long the disk took for a request.
    pub fn note_served(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.served_us.fetch_add(us, Ordering::Relaxed);
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a request with its bytes from the queue.
    pub fn dequeue(&self, bytes: u64) {
        self.note_progress();
        self.queue_bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.queue.fetch_sub(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _crowd = self.queue_lock.lock();
            self.dequeued.notify_all();
        }
    }

    /// Waits until the queue has room, or the disk may have stalled.
    pub fn wait_for_room(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut queue_lock = self.queue_lock.lock();
        // A thread that removes a request after this check takes the lock first, and then notifies
        // this one.
        if self.is_full() {
            self.dequeued.wait_for(&mut queue_lock, STALL_AFTER);
        }
        drop(queue_lock);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether the queue is full.
    pub fn is_full(&self) -> bool {
        self.queue.load(Ordering::SeqCst) >= QUEUE_LIMIT as u64
            || self.queue_bytes.load(Ordering::SeqCst) >= QUEUE_LIMIT_BYTES
    }

    /// Returns how long the disk has finished no request of its queue, if it has stalled.
    pub fn stalled_for(&self) -> Option<Duration> {
        let progress = Duration::from_millis(self.progress_ms.load(Ordering::Relaxed));
        let idle = self.since.elapsed().saturating_sub(progress);
        (self.queue.load(Ordering::Relaxed) > 0 && idle >= STALL_AFTER).then_some(idle)
    }

    pub(super) fn stall_text(&self, stalled: Duration) -> String {
        let (seconds, queue) = (stalled.as_secs(), self.queue.load(Ordering::Relaxed));
        format!("it has finished nothing for {seconds} s, and {queue} requests wait for it")
    }

    /// Returns the number of requests served since the last call, and their total duration.
    pub fn take_served(&self) -> (u64, Duration) {
        let served = self.served.swap(0, Ordering::Relaxed);
        (served, Duration::from_micros(self.served_us.swap(0, Ordering::Relaxed)))
    }

    fn note_progress(&self) {
        let now_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.progress_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Notes that a client has stopped waiting for a subfile.
    pub fn note_late(&self) {
        self.late.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that such a subfile was opened after all.
    pub fn clear_late(&self) {
        self.late.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether clients have stopped waiting for subfiles that are not open yet.
    pub fn has_late_subfiles(&self) -> bool {
        self.late.load(Ordering::SeqCst) > 0
    }

    /// Counts a read.
    pub fn read(&self, bytes: u64) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a failed request.
    pub fn note_error(&self, why: &str, now: Instant) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        *self.last_error.lock() = Some((now, why.to_owned()));
    }

    /// Returns the last error and its age, if it is recent.
    pub fn recent_error(&self, now: Instant) -> Option<(Duration, String)> {
        let (at, why) = self.last_error.lock().clone()?;
        let age = now.saturating_duration_since(at);
        (age < ERROR_MEMORY).then_some((age, why))
    }

    /// Counts a write.
    pub fn written(&self, bytes: u64) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_is_noticed_and_whether_it_moves() {
        let load = DiskLoad::default();
        for _ in 0..QUEUE_LIMIT {
            assert!(!load.is_full());
            load.enqueue(1);
        }
        assert!(load.is_full());
        assert_eq!(load.stalled_for(), None, "the first has just come");
        load.dequeue(1);
        assert!(!load.is_full());
        load.enqueue(QUEUE_LIMIT_BYTES);
        load.dequeue(1);
        assert!(load.is_full(), "few large requests fill the queue");
        let mut load = load;
        load.since -= STALL_AFTER;
        assert!(load.stalled_for().is_some_and(|stalled| stalled >= STALL_AFTER));
        load.dequeue(QUEUE_LIMIT_BYTES);
        assert_eq!(load.stalled_for(), None, "something was finished");
        assert!(!load.is_full());
        let mut idle = DiskLoad::default();
        idle.since -= STALL_AFTER;
        assert_eq!(idle.stalled_for(), None, "it has nothing to do");
    }

    #[test]
    fn an_error_is_recent_for_a_minute() {
        let (load, now) = (DiskLoad::default(), Instant::now());
        assert_eq!(load.recent_error(now), None);
        load.note_error("I/O error", now);
        let age = ERROR_MEMORY / 2;
        assert_eq!(load.recent_error(now + age), Some((age, "I/O error".to_owned())));
        assert_eq!(load.recent_error(now + ERROR_MEMORY), None);
        assert_eq!(load.errors.load(Ordering::Relaxed), 1);
    }

    /// A removed request ends the wait; otherwise each round would last as long as a stall.
    #[test]
    fn a_thread_that_waits_for_room_continues_when_a_request_ends() {
        let load = DiskLoad::default();
        let (entered, begun) = (std::sync::Barrier::new(2), Instant::now());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..30 {
                    entered.wait();
                    load.dequeue(QUEUE_LIMIT_BYTES);
                }
            });
            for _ in 0..30 {
                load.enqueue(QUEUE_LIMIT_BYTES);
                entered.wait();
                while load.is_full() {
                    load.wait_for_room();
                }
            }
        });
        assert!(begun.elapsed() < 10 * STALL_AFTER, "{:?}", begun.elapsed());
    }
}
