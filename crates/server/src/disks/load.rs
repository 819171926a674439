//! What is done with a disk, and what waits for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// So many requests may wait for a disk.
pub const QUEUE_LIMIT: usize = 32_768;
/// So many bytes may wait for a disk.
const QUEUE_LIMIT_BYTES: u64 = 512 << 20;
/// A disk that finishes nothing for so long, though something waits for it, has stalled.
const STALL_AFTER: Duration = Duration::from_secs(1);

/// A disk is failing for so long after a request that it has failed.
const ERROR_MEMORY: Duration = Duration::from_secs(60);

/// What is done with a disk, counted.
#[derive(Debug)]
pub struct DiskLoad {
    pub(super) reads: AtomicU64,
    pub(super) read_bytes: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) queue: AtomicU64,
    queue_bytes: AtomicU64,
    pub(super) errors: AtomicU64,
    /// The last error, and when it happened.
    last_error: Mutex<Option<(Instant, String)>>,
    /// Requests served since they were last asked for, and the time they took, in microseconds.
    served: AtomicU64,
    served_us: AtomicU64,
    since: Instant,
    /// When a request was last finished, or came when there was none: milliseconds since then.
    moved_ms: AtomicU64,
    /// Subfiles that clients have been waiting for in vain.
    late: AtomicU64,
    /// How many wait until fewer requests do.
    waiting: AtomicU64,
    queue_lock: Mutex<()>,
    dequeued: Condvar,
}

/// A request that is over when this is dropped.
#[derive(Debug)]
#[must_use = "the request is over at once"]
pub struct ServedRequest<'a> {
    load: &'a DiskLoad,
    bytes: u64,
    began: Instant,
}

impl Drop for ServedRequest<'_> {
    fn drop(&mut self) {
        let us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.load.served_us.fetch_add(us, Ordering::Relaxed);
        self.load.served.fetch_add(1, Ordering::Relaxed);
        self.load.dequeue(self.bytes);
    }
}

impl Default for DiskLoad {
    /// Nothing is to be done.
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
            moved_ms: AtomicU64::new(0),
            late: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            queue_lock: Mutex::default(),
            dequeued: Condvar::new(),
        }
    }
}

impl DiskLoad {
    /// A request with so many bytes waits for the disk.
    pub fn enqueue(&self, bytes: u64) {
        if self.queue.fetch_add(1, Ordering::Relaxed) == 0 {
            self.note_move();
        }
        self.queue_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Serves a request that waits for the disk from now on; it is over when the result is dropped,
    /// also by a panic.
    pub fn serve(&self, bytes: u64) -> ServedRequest<'_> {
        ServedRequest { load: self, bytes, began: Instant::now() }
    }

    /// It is over.
    pub fn dequeue(&self, bytes: u64) {
        self.note_move();
        self.queue_bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.queue.fetch_sub(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _crowd = self.queue_lock.lock();
            self.dequeued.notify_all();
        }
    }

    /// Waits until there is no queue_lock any more, or the disk may have stalled.
    pub fn wait_for_room(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut queue_lock = self.queue_lock.lock();
        // Who leaves after this look takes the lock first, and so finds somebody waiting.
        if self.is_full() {
            self.dequeued.wait_for(&mut queue_lock, STALL_AFTER);
        }
        drop(queue_lock);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether so much waits for the disk that no more should.
    pub fn is_full(&self) -> bool {
        self.queue.load(Ordering::SeqCst) >= QUEUE_LIMIT as u64
            || self.queue_bytes.load(Ordering::SeqCst) >= QUEUE_LIMIT_BYTES
    }

    /// For how long the disk has done nothing of what waits for it, if that is too long.
    pub fn stalled_for(&self) -> Option<Duration> {
        let moved = Duration::from_millis(self.moved_ms.load(Ordering::Relaxed));
        let idle = self.since.elapsed().saturating_sub(moved);
        (self.queue.load(Ordering::Relaxed) > 0 && idle >= STALL_AFTER).then_some(idle)
    }

    pub(super) fn stall_text(&self, stalled: Duration) -> String {
        let (seconds, queue) = (stalled.as_secs(), self.queue.load(Ordering::Relaxed));
        format!("it has finished nothing for {seconds} s, and {queue} requests wait for it")
    }

    /// How many requests were served since this was last asked, and how long that took, all together.
    pub fn take_served(&self) -> (u64, Duration) {
        let served = self.served.swap(0, Ordering::Relaxed);
        (served, Duration::from_micros(self.served_us.swap(0, Ordering::Relaxed)))
    }

    fn note_move(&self) {
        let now_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_ms.store(now_ms, Ordering::Relaxed);
    }

    /// A client has waited for subfiles for too long.
    pub fn note_late(&self) {
        self.late.fetch_add(1, Ordering::SeqCst);
    }

    /// They have come after all.
    pub fn clear_late(&self) {
        self.late.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether it would be in vain to wait for subfiles.
    pub fn has_late_subfiles(&self) -> bool {
        self.late.load(Ordering::SeqCst) > 0
    }

    /// So much was read.
    pub fn read(&self, bytes: u64) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The disk has failed a request.
    pub fn note_error(&self, why: &str, now: Instant) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        *self.last_error.lock() = Some((now, why.to_owned()));
    }

    /// The last error and its age, if the disk has failed a request of late.
    pub fn recent_error(&self, now: Instant) -> Option<(Duration, String)> {
        let (at, why) = self.last_error.lock().clone()?;
        let age = now.saturating_duration_since(at);
        (age < ERROR_MEMORY).then_some((age, why))
    }

    /// So much was written.
    pub fn written(&self, bytes: u64) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_in_front_of_a_disk_is_noticed_and_whether_it_moves() {
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
        assert!(load.is_full(), "few can be too many");
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

    /// Whoever leaves ends the wait; without that each round would last as long as a stall.
    #[test]
    fn whoever_waits_before_a_crowd_goes_on_when_somebody_leaves() {
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
