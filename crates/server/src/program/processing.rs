//! The operation that processes the extents of a file. It reads some extents while it computes others
//! and sends results.

use std::ops::Range;
use std::sync::Arc;

use pario_flow::{OperationRef, PoolRef, Program, ThreadRef, Token, Window};
use pario_net::clock::monotonic_ns;
use pario_proto::SubfileLocation;

use super::compute::Compute;
use super::scheduled_extent::{FetchTask, ScheduledExtent};
use super::scheduler::Scheduler;
use crate::processing::{BATCH_EXTENTS, ExtentQueue, OpenSubfile, RunningCall};

/// Concurrent fetches of neighbours for one extent: enough for all around a tile.
pub const FETCHES_UNDER_WAY: usize = 32;

/// A call.
#[derive(Clone)]
pub struct ProcessCall(pub Arc<RunningCall>);

/// A subfile to open.
#[derive(Clone)]
pub struct SubfileToOpen {
    pub running: Arc<RunningCall>,
    pub part: SubfileLocation,
    pub disk: usize,
}

/// An opened subfile; `None` if it cannot be opened.
#[derive(Clone)]
pub struct OpenedSubfile(pub Option<OpenSubfile>);

/// The opened subfiles of a call.
struct OpenedSubfiles {
    running: Arc<RunningCall>,
    parts: Vec<OpenSubfile>,
}

/// A call, and its extents that are not scheduled yet.
struct ExtentSchedule {
    running: Arc<RunningCall>,
    queue: ExtentQueue,
    /// The number of extents that are left.
    remaining: u64,
    /// The limit of extents in a batch.
    batch_limit: usize,
}

/// Extents that are scheduled together. After the first step, only those are left that need a fetch
/// or have an output to write.
#[derive(Clone)]
pub struct ExtentBatch {
    pub running: Arc<RunningCall>,
    pub extents: Vec<ScheduledExtent>,
    /// When the batch was scheduled, if the call is traced.
    pub ready_ns: u64,
}

impl Token for ProcessCall {}
impl Token for SubfileToOpen {}
impl Token for OpenedSubfile {}
impl Token for OpenedSubfiles {}
impl Token for ExtentSchedule {}
impl Token for ExtentBatch {}

/// The threads that take part in processing.
#[derive(Clone, Copy)]
pub struct ProcessThreads {
    pub scheduler: ThreadRef<Scheduler>,
    pub compute: PoolRef<Compute>,
    /// The limit of batches of a call under way.
    pub window: usize,
    /// The number of disks.
    pub disks: usize,
}

/// Adds the operation to the program.
///
/// Its windows are fixed. An automatic window is the smallest that keeps *one* thread busy; here all
/// disks should be busy. Concurrent calls also delay each other, which an automatic window would
/// take for too many tokens and shrink.
pub fn add_to(
    program: &mut Program,
    threads: ProcessThreads,
) -> OperationRef<ProcessCall, ProcessCall> {
    let ProcessThreads { scheduler, compute, window, disks } = threads;
    let open = program.operation("open subfiles", |b| {
        b.on(scheduler)
            .window(Window::fixed(disks))
            .split_indexed(ProcessCall::numbers, ProcessCall::subfile_to_open)
            .run_async(Scheduler::open_subfile)
            .named("open")
            .merge(scheduler, OpenedSubfiles::empty, OpenedSubfiles::add)
            .map(OpenedSubfiles::into_call)
    });
    let fetch = program.operation("fetch", |b| {
        b.on(scheduler)
            .window(Window::fixed(FETCHES_UNDER_WAY))
            .split_indexed(ScheduledExtent::fetch_numbers, ScheduledExtent::fetch_task)
            .if_else(
                FetchTask::is_here,
                |b| {
                    b.run_async(Scheduler::fetch_from_disk)
                        .named("read")
                        .when(FetchTask::is_uncut, |b| {
                            b.on(compute.any()).run(Compute::cut_neighbour).named("cut")
                        })
                },
                |b| b.run_async(Scheduler::fetch_from_node).named("ask"),
            )
            .merge(scheduler, Clone::clone, ScheduledExtent::add_fetched)
    });
    let process_extents = program.operation("process extents", |b| {
        b.on(scheduler)
            .window(Window::fixed(BATCH_EXTENTS))
            .split_indexed(ExtentBatch::numbers, ExtentBatch::extent)
            .when(ScheduledExtent::lacks_only_itself, |b| {
                b.run_async(Scheduler::read_extent)
                    .named("read")
                    .on(compute.any())
                    .run_async(Compute::process_fetched)
                    .named("process")
            })
            .when(ScheduledExtent::lacks_neighbours, |b| {
                b.call(fetch).on(compute.any()).run_async(Compute::process_fetched).named("process")
            })
            .when(ScheduledExtent::has_output, |b| {
                b.on(scheduler).run_async(Scheduler::write_output).named("write")
            })
            .merge(scheduler, Clone::clone, |batch: &mut ExtentBatch, _: ScheduledExtent| {
                batch.running.note_done();
            })
    });
    program.operation("process", |b| {
        b.on(compute.any())
            .run(Compute::prepare)
            .named("prepare")
            .call(open)
            .on(scheduler)
            .map(ExtentSchedule::begin)
            .window(Window::fixed(window))
            .split_while(ExtentSchedule::next)
            .on(compute.any())
            .run_async(Compute::process_cached)
            .named("process cached")
            .when(ExtentBatch::is_unfinished, |b| b.call(process_extents))
            .merge(
                scheduler,
                |schedule: &ExtentSchedule| ProcessCall(schedule.running.clone()),
                |_, _: ExtentBatch| (),
            )
            .on(compute.any())
            .run(Compute::finish)
            .named("finish")
    })
}

impl ProcessCall {
    /// Returns the numbers of the subfiles to open.
    fn numbers(&self) -> Range<u64> {
        match self.0.has_parts() {
            true => 0..0,
            false => 0..self.0.work.parts.len() as u64,
        }
    }

    /// Returns a subfile to open, if it is on this node.
    fn subfile_to_open(&self, number: u64) -> Option<SubfileToOpen> {
        let running = self.0.clone();
        let part = *running.work.parts.get(usize::try_from(number).ok()?)?;
        let disk = running.shared.disks.number_of(part.disk).ok()?;
        Some(SubfileToOpen { running, part, disk })
    }
}

impl OpenedSubfiles {
    fn empty(call: &ProcessCall) -> Self {
        Self { running: call.0.clone(), parts: Vec::new() }
    }

    fn add(&mut self, opened: OpenedSubfile) {
        self.parts.extend(opened.0);
    }

    fn into_call(mut self) -> ProcessCall {
        self.parts.sort_by_key(|open| open.part.subfile);
        self.running.set_parts(self.parts);
        ProcessCall(self.running)
    }
}

impl ExtentSchedule {
    fn begin(call: ProcessCall) -> Self {
        let queue = call.0.extent_queue();
        let batch_limit = call.0.batch_limit(queue.first(call.0.parts()));
        Self { running: call.0, remaining: queue.len(), queue, batch_limit }
    }

    /// Returns the next batch. Batches become smaller towards the end, so that no thread waits long
    /// for another one.
    fn next(&mut self) -> Option<ExtentBatch> {
        if self.running.is_stopped() {
            return None;
        }
        let running = self.running.clone();
        let share = self.remaining / (4 * running.threads() as u64);
        let count = usize::try_from(share).unwrap_or(self.batch_limit).clamp(1, self.batch_limit);
        let extent = |(part, place)| ScheduledExtent::new(running.clone(), part, place);
        let next = std::iter::from_fn(|| self.queue.next(running.parts()));
        let extents: Vec<ScheduledExtent> = next.take(count).map(extent).collect();
        self.remaining = self.remaining.saturating_sub(extents.len() as u64);
        let ready_ns = running.timeline().map_or(0, |_| monotonic_ns());
        (!extents.is_empty()).then(|| ExtentBatch { running, extents, ready_ns })
    }
}

impl ExtentBatch {
    fn is_unfinished(&self) -> bool {
        !self.extents.is_empty()
    }

    fn numbers(&self) -> Range<u64> {
        0..self.extents.len() as u64
    }

    fn extent(&self, number: u64) -> Option<ScheduledExtent> {
        self.extents.get(usize::try_from(number).ok()?).cloned()
    }
}
