//! NodeTask with extents as an operation of the node's program: one request, many extents, some read
//! while others are computed and others are sent.

use std::ops::Range;
use std::sync::Arc;

use pario_flow::{Continuation, OperationRef, PoolRef, Program, ThreadRef, Token, Window};
use pario_net::clock::monotonic_ns;
use pario_proto::SubfileLocation;

use super::compute::Compute;
use super::reader::Reader;
use super::scheduled_extent::{FetchTask, ScheduledExtent};
use super::storage::Storage;
use crate::processing::{BATCH_EXTENTS, ExtentQueue, OpenSubfile, RunningCall};

/// So many parts of other extents are fetched at once to be shown with one: all around a tile.
const FETCHES_UNDER_WAY: usize = 32;

/// The scheduler: sends the extents of all calls on their way, and sees them come back. It waits for
/// no disk, and computes nothing.
pub struct ExtentScheduler;

/// A call.
#[derive(Clone)]
pub struct ProcessCall(pub Arc<RunningCall>);

/// A subfile that is to be opened.
#[derive(Clone)]
pub struct SubfileToOpen {
    pub running: Arc<RunningCall>,
    pub part: SubfileLocation,
    pub disk: usize,
    pub thread: usize,
}

/// A subfile that was opened; nothing if it cannot be.
#[derive(Clone)]
pub struct OpenedSubfile(pub Option<OpenSubfile>);

/// Subfiles of a call that were opened.
struct OpenedSubfiles {
    running: Arc<RunningCall>,
    parts: Vec<OpenSubfile>,
}

/// A call, and its extents that have not set out.
struct ExtentSchedule {
    running: Arc<RunningCall>,
    route: ExtentQueue,
    /// So many are left.
    left: u64,
    /// So many set out together at most.
    company: usize,
}

/// Extents that set out together. Only those stay of which more has to be fetched, or to be written.
#[derive(Clone)]
pub struct ExtentBatch {
    pub running: Arc<RunningCall>,
    pub visits: Vec<ScheduledExtent>,
    /// When it set out, if the call is traced.
    pub ready_ns: u64,
}

impl Token for ProcessCall {}
impl Token for SubfileToOpen {}
impl Token for OpenedSubfile {}
impl Token for OpenedSubfiles {}
impl Token for ExtentSchedule {}
impl Token for ExtentBatch {}

/// The threads that work with extents.
#[derive(Clone, Copy)]
pub struct ProcessThreads {
    pub scheduler: ThreadRef<ExtentScheduler>,
    pub storage: PoolRef<Storage>,
    pub readers: PoolRef<Reader>,
    pub compute: PoolRef<Compute>,
    /// So many companies of a call are under way.
    pub window: usize,
}

/// Adds the operation.
///
/// Its windows are fixed. An automatic one is the smallest that keeps *a* thread busy; here each disk
/// has a thread of its own, and all of them should be. And calls that run beside each other would
/// take the waiting that they cause each other for tokens too many, until hardly any are under way.
pub fn add_to(
    program: &mut Program,
    workers: ProcessThreads,
) -> OperationRef<ProcessCall, ProcessCall> {
    let ProcessThreads { scheduler, storage, readers, compute, window } = workers;
    let open = program.operation("open subfiles", |b| {
        b.on(scheduler)
            .split_indexed(ProcessCall::numbers, ProcessCall::opening)
            .on(storage.at(|opening: &SubfileToOpen| opening.thread))
            .run(Storage::open_part)
            .named("open")
            .merge(scheduler, OpenedSubfiles::none, OpenedSubfiles::add)
            .map(OpenedSubfiles::done)
    });
    let fetch = program.operation("fetch", |b| {
        b.on(scheduler)
            .window(Window::fixed(FETCHES_UNDER_WAY))
            .split_indexed(ScheduledExtent::pieces, ScheduledExtent::piece)
            .if_else(
                FetchTask::is_here,
                |b| {
                    let read = |_: &mut Reader, piece: FetchTask| piece.read();
                    b.on(readers.at(FetchTask::reader)).run(read).named("read")
                },
                |b| b.on(scheduler).run_async(ExtentScheduler::ask).named("ask"),
            )
            .merge(scheduler, Clone::clone, ScheduledExtent::take)
    });
    let visit = program.operation("visit", |b| {
        b.on(scheduler)
            .window(Window::fixed(BATCH_EXTENTS))
            .split_indexed(ExtentBatch::numbers, ExtentBatch::visit)
            .when(ScheduledExtent::lacks_itself_only, |b| {
                b.on(readers.at(ScheduledExtent::reader))
                    .run(Reader::fetch)
                    .named("read")
                    .on(compute.any())
                    .run_async(Compute::see)
                    .named("see")
            })
            .when(ScheduledExtent::lacks_others, |b| {
                b.call(fetch).on(compute.any()).run_async(Compute::see).named("see")
            })
            .when(ScheduledExtent::is_made, |b| {
                b.on(storage.at(ScheduledExtent::target_thread)).run(Storage::put).named("write")
            })
            .merge(scheduler, Clone::clone, |company: &mut ExtentBatch, _: ScheduledExtent| {
                company.running.note_done();
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
            .run_async(Compute::look)
            .named("look")
            .when(ExtentBatch::is_unfinished, |b| b.call(visit))
            .merge(
                scheduler,
                |walk: &ExtentSchedule| ProcessCall(walk.running.clone()),
                |_, _: ExtentBatch| (),
            )
            .on(compute.any())
            .run(Compute::finish)
            .named("finish")
    })
}

impl ExtentScheduler {
    /// Asks another node for something that is wanted with an extent.
    fn ask(&mut self, piece: FetchTask, next: Continuation<FetchTask>) {
        piece.ask(move |piece| next.call(piece));
    }
}

impl ProcessCall {
    /// The numbers of the subfiles that are to be opened.
    fn numbers(&self) -> Range<u64> {
        match self.0.has_parts() {
            true => 0..0,
            false => 0..self.0.work.parts.len() as u64,
        }
    }

    /// A subfile that is to be opened, if it is here.
    fn opening(&self, number: u64) -> Option<SubfileToOpen> {
        let running = self.0.clone();
        let part = *running.work.parts.get(usize::try_from(number).ok()?)?;
        let disk = running.shared.disks.number_of(part.disk).ok()?;
        let thread = running.shared.disks.disk(disk).thread;
        Some(SubfileToOpen { running, part, disk, thread })
    }
}

impl OpenedSubfiles {
    fn none(call: &ProcessCall) -> Self {
        Self { running: call.0.clone(), parts: Vec::new() }
    }

    fn add(&mut self, opened: OpenedSubfile) {
        self.parts.extend(opened.0);
    }

    fn done(mut self) -> ProcessCall {
        self.parts.sort_by_key(|open| open.part.subfile);
        self.running.set_parts(self.parts);
        ProcessCall(self.running)
    }
}

impl ExtentSchedule {
    fn begin(call: ProcessCall) -> Self {
        let route = call.0.route();
        let company = call.0.company(route.first(call.0.parts()));
        Self { running: call.0, left: route.len(), route, company }
    }

    /// The next extents. Towards the end fewer set out together, so that no thread has to wait long
    /// for another one.
    fn next(&mut self) -> Option<ExtentBatch> {
        if self.running.is_stopped() {
            return None;
        }
        let running = self.running.clone();
        let share = self.left / (4 * running.threads() as u64);
        let count = usize::try_from(share).unwrap_or(self.company).clamp(1, self.company);
        let visit = |(part, place)| ScheduledExtent::new(running.clone(), part, place);
        let next = std::iter::from_fn(|| self.route.next(running.parts()));
        let visits: Vec<ScheduledExtent> = next.take(count).map(visit).collect();
        self.left = self.left.saturating_sub(visits.len() as u64);
        let ready_ns = running.timeline().map_or(0, |_| monotonic_ns());
        (!visits.is_empty()).then(|| ExtentBatch { running, visits, ready_ns })
    }
}

impl ExtentBatch {
    fn is_unfinished(&self) -> bool {
        !self.visits.is_empty()
    }

    fn numbers(&self) -> Range<u64> {
        0..self.visits.len() as u64
    }

    fn visit(&self, number: u64) -> Option<ScheduledExtent> {
        self.visits.get(usize::try_from(number).ok()?).cloned()
    }
}
