//! The timeline of a traced call: the work of this node's threads, and the waits of its compute
//! threads.
//!
//! An idle compute thread waits for the first of these that applies: for the caller, if results
//! fill the outbox; for a disk or for neighbouring extents, until they are read; for extents from
//! the scheduler; then for a processor. Time without a processor is cut off the span of the work,
//! and shown as a wait after it.

use std::sync::atomic::{AtomicU64, Ordering};

use pario_net::clock::{monotonic_ns, thread_cpu_ns};
use pario_proto::WorkSpan;
use parking_lot::Mutex;

/// The limit of spans that the caller has not fetched.
const SPANS_LIMIT: usize = 1 << 16;
/// The timeline omits shorter waits.
const SHORTEST_WAIT_NS: u64 = 20_000;

/// What an idle compute thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The next extents of the call.
    Extents,
    /// An extent that a disk reads.
    Disk,
    /// Pieces of neighbouring extents, from disks or other nodes.
    Neighbours,
    /// Room in the outbox: the caller must fetch results.
    Caller,
    /// A processor: the work is ready.
    Processor,
}

/// The spans of a traced call at this node.
pub struct Timeline {
    spans: Mutex<Vec<WorkSpan>>,
    /// When each compute thread last ended a span.
    idle_since_ns: Vec<AtomicU64>,
    /// The processor time of each compute thread at that time.
    idle_processor_ns: Vec<AtomicU64>,
    /// When the caller last made room in the outbox.
    resumed_ns: AtomicU64,
}

impl Timeline {
    /// Creates a timeline that begins now.
    pub fn new(compute_threads: usize) -> Self {
        let now = monotonic_ns();
        Self {
            spans: Mutex::default(),
            idle_since_ns: (0..compute_threads).map(|_| AtomicU64::new(now)).collect(),
            idle_processor_ns: (0..compute_threads).map(|_| AtomicU64::new(0)).collect(),
            resumed_ns: AtomicU64::new(0),
        }
    }

    /// Takes the spans since the last call.
    pub fn take(&self) -> Vec<WorkSpan> {
        std::mem::take(&mut *self.spans.lock())
    }

    /// Records an access to a disk that ends now.
    pub fn add_disk_span(&self, disk: &str, name: &str, begin_ns: u64) {
        self.add(disk.to_owned(), name.to_owned(), begin_ns, monotonic_ns());
    }

    /// Runs `work`, and records it as a span of a thread.
    fn time<T>(&self, thread: impl FnOnce() -> String, name: &str, work: impl FnOnce() -> T) -> T {
        let begin_ns = monotonic_ns();
        let done = work();
        self.add(thread(), name.to_owned(), begin_ns, monotonic_ns());
        done
    }

    /// Runs `work` on a compute thread. Records the time without a processor, since the last span
    /// and in this one, as waits.
    pub fn time_computing<T>(&self, number: usize, name: &str, work: impl FnOnce() -> T) -> T {
        let (begin_ns, begin_processor_ns) = (monotonic_ns(), thread_cpu_ns());
        self.note_lack_between(number, begin_ns, begin_processor_ns);
        let done = work();
        let (end_ns, used_ns) =
            (monotonic_ns(), thread_cpu_ns().saturating_sub(begin_processor_ns));
        let lacked_ns = (end_ns - begin_ns).saturating_sub(used_ns);
        let worked_until_ns =
            if lacked_ns < SHORTEST_WAIT_NS { end_ns } else { end_ns - lacked_ns };
        self.add(compute_thread(number), name.to_owned(), begin_ns, worked_until_ns);
        self.add_wait(number, Awaited::Processor, worked_until_ns, end_ns);
        self.note_idle(number, end_ns);
        done
    }

    /// Sends results to the caller from a compute thread.
    pub fn time_sending<T>(&self, number: usize, send: impl FnOnce() -> T) -> T {
        let sent = self.time(|| compute_thread(number), "send results", send);
        self.note_idle(number, monotonic_ns());
        sent
    }

    /// Notes that this thread has ended a span.
    fn note_idle(&self, number: usize, since_ns: u64) {
        let times = self.idle_since_ns.get(number).zip(self.idle_processor_ns.get(number));
        if let Some((idle, processor)) = times {
            idle.store(since_ns, Ordering::Relaxed);
            processor.store(thread_cpu_ns(), Ordering::Relaxed);
        }
    }

    /// Records the time without a processor between the thread's last span and `now`.
    fn note_lack_between(&self, number: usize, now: u64, processor_now: u64) {
        let times = self.idle_since_ns.get(number).zip(self.idle_processor_ns.get(number));
        let Some((idle, processor)) = times else { return };
        let passed_ns = now.saturating_sub(idle.load(Ordering::Relaxed));
        let used_ns = processor_now.saturating_sub(processor.load(Ordering::Relaxed));
        let lacked_ns = passed_ns.saturating_sub(used_ns);
        self.add_wait(number, Awaited::Processor, now - lacked_ns, now);
    }

    /// Records the waits of a compute thread that begins work now: for `awaited` until `ready_ns`,
    /// then for a processor.
    pub fn note_wait(&self, number: usize, awaited: Awaited, ready_ns: u64) {
        let Some(idle) = self.idle_since_ns.get(number) else { return };
        let now = monotonic_ns();
        let since_ns = idle.load(Ordering::Relaxed);
        self.note_idle(number, now);
        let resumed_ns = self.resumed_ns.load(Ordering::Relaxed).clamp(since_ns, now);
        let ready_ns = ready_ns.clamp(resumed_ns, now);
        self.add_wait(number, Awaited::Caller, since_ns, resumed_ns);
        self.add_wait(number, awaited, resumed_ns, ready_ns);
        self.add_wait(number, Awaited::Processor, ready_ns, now);
    }

    /// Notes that the caller has made room in the outbox.
    pub fn note_resumed(&self) {
        self.resumed_ns.store(monotonic_ns(), Ordering::Relaxed);
    }

    fn add_wait(&self, number: usize, awaited: Awaited, begin_ns: u64, end_ns: u64) {
        if end_ns.saturating_sub(begin_ns) >= SHORTEST_WAIT_NS {
            let name = format!("{}{}", WorkSpan::WAITS_FOR, awaited.noun());
            self.add(compute_thread(number), name, begin_ns, end_ns);
        }
    }

    fn add(&self, thread: String, name: String, begin_ns: u64, end_ns: u64) {
        let mut spans = self.spans.lock();
        if spans.len() < SPANS_LIMIT {
            spans.push(WorkSpan { thread, name, begin_ns, end_ns });
        }
    }
}

impl Awaited {
    fn noun(self) -> &'static str {
        match self {
            Self::Extents => "extents",
            Self::Disk => "a disk",
            Self::Neighbours => "neighbours",
            Self::Caller => "the caller",
            Self::Processor => "a processor",
        }
    }
}

fn compute_thread(number: usize) -> String {
    format!("Compute[{number}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(timeline: &Timeline) -> Vec<(String, u64)> {
        let spans = timeline.take();
        spans.into_iter().map(|span| (span.name, span.end_ns - span.begin_ns)).collect()
    }

    /// Makes a thread idle since `ns` ago. Returns that time.
    fn idle_for(timeline: &Timeline, number: usize, ns: u64) -> u64 {
        let since = monotonic_ns() - ns;
        timeline.idle_since_ns[number].store(since, Ordering::Relaxed);
        since
    }

    #[test]
    fn an_idle_thread_waits_for_its_work_and_then_for_a_processor() {
        let timeline = Timeline::new(2);
        let since = idle_for(&timeline, 1, 10_000_000);
        timeline.note_wait(1, Awaited::Disk, since + 3_000_000);
        let waits = names(&timeline);
        assert_eq!(waits[0], ("waits for a disk".to_owned(), 3_000_000));
        assert_eq!(waits[1].0, "waits for a processor");
        assert!(waits[1].1 >= 7_000_000, "{waits:?}");
        assert_eq!(waits.len(), 2);
    }

    #[test]
    fn held_results_are_a_wait_for_the_caller() {
        let timeline = Timeline::new(1);
        let since = idle_for(&timeline, 0, 10_000_000);
        timeline.resumed_ns.store(since + 4_000_000, Ordering::Relaxed);
        timeline.note_wait(0, Awaited::Extents, since + 5_000_000);
        let waits = names(&timeline);
        assert_eq!(waits[0], ("waits for the caller".to_owned(), 4_000_000));
        assert_eq!(waits[1], ("waits for extents".to_owned(), 1_000_000));
    }

    #[test]
    fn work_that_was_ready_before_is_no_wait_for_it() {
        let timeline = Timeline::new(1);
        let since = idle_for(&timeline, 0, 1_000_000);
        timeline.note_wait(0, Awaited::Extents, since - 500_000);
        let waits = names(&timeline);
        assert_eq!(waits.len(), 1, "{waits:?}");
        assert_eq!(waits[0].0, "waits for a processor");
    }

    /// Uses no processor for some milliseconds.
    fn be_without_processor() {
        let (_kept, receiver) = std::sync::mpsc::channel::<()>();
        receiver.recv_timeout(std::time::Duration::from_millis(30)).unwrap_err();
    }

    #[test]
    fn time_without_a_processor_is_cut_off_the_work() {
        let timeline = Timeline::new(1);
        timeline.note_idle(0, monotonic_ns());
        timeline.time_computing(0, "project", be_without_processor);
        let spans = names(&timeline);
        let at = spans.iter().position(|(name, _)| name == "project").unwrap();
        assert_eq!(spans[at + 1].0, "waits for a processor");
        assert!(spans[at + 1].1 > spans[at].1, "{spans:?}");
    }

    #[test]
    fn time_without_a_processor_between_two_extents_is_a_wait() {
        let timeline = Timeline::new(1);
        timeline.time_computing(0, "project", || ());
        timeline.take();
        be_without_processor();
        timeline.time_computing(0, "project", || ());
        let spans = names(&timeline);
        assert_eq!(spans[0].0, "waits for a processor");
        assert!(spans[0].1 >= 20_000_000, "{spans:?}");
    }
}
