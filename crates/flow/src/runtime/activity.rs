//! The activity of a thread: counters and the current step, which other threads can read.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pario_net::clock::monotonic_ns;
use parking_lot::Mutex;

use super::ids::{CallId, StepPosition};
use super::snapshot::{CurrentStep, SplitStatus, StepStatus, ThreadStatus};
use super::span_recorder::SpanRecorder;
use crate::schedule::Schedule;

/// The counters of one thread. Only the thread itself writes them, except for completions of
/// asynchronous steps.
pub(crate) struct ThreadActivity {
    pub(crate) name: String,
    since_ns: u64,
    busy_ns: AtomicU64,
    handled: AtomicU64,
    /// The current step: operation and step, each plus one; 0 for none.
    doing: AtomicU64,
    doing_since_ns: AtomicU64,
    /// The counters of every step of the program.
    steps: Vec<StepCounters>,
    /// The index in `steps` of the first step of each operation.
    firsts: Vec<usize>,
    splits: Mutex<HashMap<u64, Arc<SplitCounters>>>,
    pub(crate) recorder: Option<SpanRecorder>,
}

#[derive(Default)]
struct StepCounters {
    tokens_in: AtomicU64,
    tokens_out: AtomicU64,
    busy_ns: AtomicU64,
    peak: AtomicU64,
}

/// The counters of a split under way.
pub(crate) struct SplitCounters {
    call: CallId,
    position: StepPosition,
    since_ns: u64,
    split: AtomicU64,
    merged: AtomicU64,
    window: AtomicU64,
    is_full: AtomicU64,
}

impl ThreadActivity {
    pub(crate) fn new(
        name: String,
        operations: &[Arc<Schedule>],
        recorder: Option<SpanRecorder>,
    ) -> Self {
        let mut firsts = Vec::new();
        let mut count = 0;
        for operation in operations {
            firsts.push(count);
            count += operation.steps.len();
        }
        Self {
            name,
            since_ns: monotonic_ns(),
            busy_ns: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            doing: AtomicU64::new(0),
            doing_since_ns: AtomicU64::new(0),
            steps: (0..count).map(|_| StepCounters::default()).collect(),
            firsts,
            splits: Mutex::default(),
            recorder,
        }
    }

    fn step(&self, position: StepPosition) -> &StepCounters {
        &self.steps[self.firsts[position.operation as usize] + position.step as usize]
    }

    pub(crate) fn begin(&self, position: StepPosition, now_ns: u64) {
        let code = (u64::from(position.operation) + 1) << 32 | (u64::from(position.step) + 1);
        self.doing_since_ns.store(now_ns, Relaxed);
        self.doing.store(code, Relaxed);
        add(&self.step(position).tokens_in, 1);
    }

    pub(crate) fn end(&self, position: StepPosition, began_ns: u64, now_ns: u64) {
        let step = self.step(position);
        add(&step.tokens_out, 1);
        add(&step.busy_ns, now_ns.saturating_sub(began_ns));
    }

    /// Notes that the thread has handled a message.
    pub(crate) fn idle(&self, busy_ns: u64) {
        self.doing.store(0, Relaxed);
        add(&self.busy_ns, busy_ns);
        add(&self.handled, 1);
    }

    /// Returns the number of messages that the thread has handled.
    pub(crate) fn messages_handled(&self) -> u64 {
        self.handled.load(Relaxed)
    }

    /// Counts a token that left an asynchronous step; any thread may call this.
    pub(crate) fn completed(&self, position: StepPosition) {
        self.step(position).tokens_out.fetch_add(1, Relaxed);
    }

    pub(crate) fn open_split(
        &self,
        number: u64,
        call: CallId,
        position: StepPosition,
    ) -> Arc<SplitCounters> {
        let counters = Arc::new(SplitCounters {
            call,
            position,
            since_ns: monotonic_ns(),
            split: AtomicU64::new(0),
            merged: AtomicU64::new(0),
            window: AtomicU64::new(0),
            is_full: AtomicU64::new(0),
        });
        self.splits.lock().insert(number, counters.clone());
        counters
    }

    pub(crate) fn close_split(&self, number: u64) {
        self.splits.lock().remove(&number);
    }

    /// Updates the counters of a split.
    pub(crate) fn note_split(
        &self,
        counters: &SplitCounters,
        split: u64,
        merged: u64,
        window: u64,
        is_full: bool,
    ) {
        let step = self.step(counters.position);
        step.tokens_in.fetch_add(split - counters.split.load(Relaxed), Relaxed);
        step.tokens_out.fetch_add(merged - counters.merged.load(Relaxed), Relaxed);
        counters.split.store(split, Relaxed);
        counters.merged.store(merged, Relaxed);
        counters.window.store(window, Relaxed);
        counters.is_full.store(is_full.into(), Relaxed);
        step.peak.fetch_max(split - merged, Relaxed);
    }

    pub(crate) fn status(
        &self,
        queued: u64,
        operations: &[Arc<Schedule>],
        process: &str,
    ) -> ThreadStatus {
        let now = monotonic_ns();
        let code = self.doing.load(Relaxed);
        let doing = (code != 0).then(|| {
            let operation = &operations[(code >> 32) as usize - 1];
            CurrentStep {
                operation: operation.name.clone(),
                step: operation.steps[(code & 0xffff_ffff) as usize - 1].name.clone(),
                for_ns: now.saturating_sub(self.doing_since_ns.load(Relaxed)),
            }
        });
        let running = doing.as_ref().map_or(0, |doing| doing.for_ns);
        let alive = now.saturating_sub(self.since_ns).max(1);
        let splits = self.splits.lock();
        let mut splits: Vec<SplitStatus> = splits
            .values()
            .map(|split| SplitStatus {
                call: split.call.number,
                operation: operations[split.position.operation as usize].name.clone(),
                step: operations[split.position.operation as usize].steps
                    [split.position.step as usize]
                    .name
                    .clone(),
                split: split.split.load(Relaxed),
                merged: split.merged.load(Relaxed),
                window: split.window.load(Relaxed),
                is_full: split.is_full.load(Relaxed) != 0,
                age_ns: now.saturating_sub(split.since_ns),
            })
            .collect();
        splits.sort_by_key(|split| (split.call, split.step.clone()));
        ThreadStatus {
            process: process.to_owned(),
            name: self.name.clone(),
            queued,
            handled: self.handled.load(Relaxed),
            busy_share: ((self.busy_ns.load(Relaxed) + running) as f64 / alive as f64).min(1.0),
            doing,
            splits,
        }
    }

    /// Adds the counters of this thread to `all`, the steps of all operations in order.
    pub(crate) fn add_to(&self, all: &mut [StepStatus]) {
        let alive = monotonic_ns().saturating_sub(self.since_ns).max(1);
        for (step, sum) in self.steps.iter().zip(all) {
            let busy = step.busy_ns.load(Relaxed) as f64 / alive as f64;
            sum.tokens_in += step.tokens_in.load(Relaxed);
            sum.tokens_out += step.tokens_out.load(Relaxed);
            sum.busy_share += busy;
            sum.peak = sum.peak.max(step.peak.load(Relaxed));
        }
    }
}

/// Adds to a counter that only this thread writes.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}
