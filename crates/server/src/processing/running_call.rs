//! A processing call at one node.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pario_net::clock::monotonic_ns;
use pario_net::{Bulk, SpaceId};
use pario_proto::{
    ExtentPlacement, ExtentSelection, Failure, ProcessProgress, ProcessUpdate, ProcessWork, Reply,
    ReplyMessage, SubfileLocation,
};
use pario_store::ExtentFile;
use parking_lot::Mutex;

use super::extent_queue::ExtentQueue;
use super::outbox::{DueUpdate, ResultOutbox};
use super::timeline::Timeline;
use crate::disks::NodeDisk;
use crate::limits::QuotaShare;
use crate::node_state::{NodeState, RequestTicket};
use crate::operation::{Operation, OperationCall, OperationTask, Scratch};
use crate::reply_sender::ReplySender;

/// The limits of a batch: extents and bytes.
pub const BATCH_EXTENTS: usize = 16;
const BATCH_BYTES: u64 = 1 << 20;
/// The limit of one result.
const RESULT_LIMIT_BYTES: usize = 64 << 20;

/// A processing call at one node.
pub struct RunningCall {
    pub shared: Arc<NodeState>,
    /// The client, and its number of the call.
    caller: (SpaceId, u64),
    pub work: ProcessWork,
    parameters: Bulk,
    /// The operation, and its name for other nodes. A module is set when it is found and compiled.
    operation: OnceLock<(Arc<dyn Operation>, String)>,
    task: OnceLock<Box<dyn OperationTask>>,
    /// The extents that the task has selected, if it selects any.
    chosen: OnceLock<Vec<ExtentPlacement>>,
    /// The scratch of each compute thread.
    scratches: Vec<Mutex<Option<Scratch>>>,
    /// The subfiles of the file on this node.
    parts: OnceLock<Vec<OpenSubfile>>,
    is_stopped: AtomicBool,
    failure: Mutex<Option<Failure>>,
    counts: CallCounts,
    outbox: Mutex<ResultOutbox>,
    /// Set if the call is traced.
    timeline: Option<Timeline>,
    /// The node waits for this ticket before it stops.
    ticket: Mutex<Option<RequestTicket>>,
    /// The call's shares of its user's calls and selected extents.
    _call_share: QuotaShare,
    chosen_share: Mutex<QuotaShare>,
}

/// A subfile of the file on this node.
#[derive(Clone, Debug)]
pub struct OpenSubfile {
    /// The subfile and its disk.
    pub part: SubfileLocation,
    /// The number of the disk.
    pub disk: usize,
    /// `None` for a lazy subfile.
    pub file: Option<ExtentFile>,
    /// The extents of the subfile, if the call processes all: runs of a first index and a length.
    pub runs: Vec<(u64, u64)>,
}

/// The progress of a call.
#[derive(Default)]
struct CallCounts {
    total: AtomicU64,
    done: AtomicU64,
    found: AtomicU64,
    cache_hits: AtomicU64,
    seen_bytes: AtomicU64,
    written: AtomicU64,
    written_bytes: AtomicU64,
    result_bytes: AtomicU64,
    neighbour_bytes: AtomicU64,
}

impl RunningCall {
    /// Creates a call.
    pub fn new(
        shared: Arc<NodeState>,
        caller: (SpaceId, u64),
        work: ProcessWork,
        parameters: Bulk,
        (ticket, [call_share, chosen_share]): (RequestTicket, [QuotaShare; 2]),
    ) -> Self {
        let threads = shared.node().compute_threads.max(1);
        Self {
            shared,
            caller,
            timeline: work.is_traced.then(|| Timeline::new(threads)),
            work,
            parameters,
            operation: OnceLock::new(),
            task: OnceLock::new(),
            chosen: OnceLock::new(),
            scratches: (0..threads).map(|_| Mutex::default()).collect(),
            parts: OnceLock::new(),
            is_stopped: AtomicBool::new(false),
            failure: Mutex::default(),
            counts: CallCounts::default(),
            outbox: Mutex::default(),
            ticket: Mutex::new(Some(ticket)),
            _call_share: call_share,
            chosen_share: Mutex::new(chosen_share),
        }
    }

    /// Sets the operation, before the call is launched. Other nodes know it by `peer_name`.
    pub fn set_operation(&self, operation: Arc<dyn Operation>, peer_name: String) {
        drop(self.operation.set((operation, peer_name)));
    }

    /// Returns the operation and its name for other nodes.
    pub fn operation(&self) -> Option<&(Arc<dyn Operation>, String)> {
        self.operation.get()
    }

    /// Prepares the task from the parameters.
    pub fn prepare(&self) {
        let Some((operation, _)) = self.operation() else { return };
        let disks = &self.shared.disks;
        let is_here = |part: &SubfileLocation| disks.number_of(part.disk).is_ok();
        let here: Vec<bool> = self.work.parts.iter().map(is_here).collect();
        match operation.prepare(&OperationCall::new(&self.parameters, &here)) {
            Ok(task) => {
                if let Some(chosen) = task.extents() {
                    if let Err(failure) = self.chosen_share.lock().resize(chosen.len() as u64) {
                        return self.fail(failure);
                    }
                    drop(self.chosen.set(chosen));
                }
                drop(self.task.set(task));
                self.take_open_subfiles();
            }
            Err(why) => self.fail_at(None, why),
        }
    }

    /// Returns the task, once it is prepared.
    pub fn task(&self) -> Option<&dyn OperationTask> {
        self.task.get().map(Box::as_ref)
    }

    /// Returns whether the call processes all extents.
    pub fn wants_all(&self) -> bool {
        self.work.extents == ExtentSelection::All && self.chosen.get().is_none()
    }

    /// Takes the subfiles if all of them are open already, so that the call need not wait for a
    /// disk.
    fn take_open_subfiles(&self) {
        if self.wants_all() {
            return;
        }
        let disks = &self.shared.disks;
        let here = self.work.parts.iter().filter_map(|part| {
            let disk = disks.number_of(part.disk).ok()?;
            Some((*part, disk, disks.disk(disk)))
        });
        let open = |(part, disk, at): (SubfileLocation, usize, &NodeDisk)| {
            let file = Some(at.open_extents(self.work.grant.file, part.subfile.0)?);
            Some(OpenSubfile { part, disk, file, runs: Vec::new() })
        };
        if let Some(parts) = here.map(open).collect() {
            self.set_parts(parts);
        }
    }

    /// Returns whether the subfiles on this node are open.
    pub fn has_parts(&self) -> bool {
        self.parts.get().is_some()
    }

    /// Sets the opened subfiles.
    pub fn set_parts(&self, parts: Vec<OpenSubfile>) {
        drop(self.parts.set(parts));
    }

    /// Returns the open subfiles on this node.
    pub fn parts(&self) -> &[OpenSubfile] {
        self.parts.get().map_or(&[], Vec::as_slice)
    }

    /// Returns the number of the open subfile that holds an extent.
    pub fn part_of(&self, place: ExtentPlacement) -> Option<usize> {
        self.parts().iter().position(|open| open.part.subfile == place.subfile)
    }

    /// Returns the extents to process, in the order of processing.
    pub fn extent_queue(&self) -> ExtentQueue {
        let chosen = match &self.work.extents {
            ExtentSelection::These(places) => Some(places.clone()),
            ExtentSelection::All => self.chosen.get().cloned(),
        };
        let queue = match chosen {
            Some(places) => {
                let here = |place: ExtentPlacement| Some((self.part_of(place)?, place));
                ExtentQueue::Listed(places.into_iter().filter_map(here).collect())
            }
            None => ExtentQueue::All {
                runs: self.parts().iter().map(|open| open.runs.clone().into()).collect(),
                turn: 0,
            },
        };
        self.counts.total.store(queue.len(), Ordering::Relaxed);
        queue
    }

    /// Returns the limit of extents in a batch: fewer if they are long; one if their length is not
    /// known or the task needs neighbours.
    pub fn batch_limit(&self, first: Option<ExtentPlacement>) -> usize {
        let wants = |task: &dyn OperationTask, place| {
            let listed = || task.neighbours(place).is_ok_and(|listed| !listed.is_empty());
            task.has_neighbours().unwrap_or_else(listed)
        };
        if first.is_none_or(|place| self.task().is_none_or(|task| wants(task, place))) {
            return 1;
        }
        let live = self.parts().iter().filter_map(|open| Some(open.file.as_ref()?.live()));
        let (extents, bytes) = live.fold((0, 0), |(extents, bytes), (some, their_bytes)| {
            (extents + some, bytes + their_bytes)
        });
        let each = bytes.checked_div(extents).unwrap_or(BATCH_BYTES).max(1);
        usize::try_from(BATCH_BYTES / each).unwrap_or(1).clamp(1, BATCH_EXTENTS)
    }

    /// Returns the number of compute threads.
    pub fn threads(&self) -> usize {
        self.scratches.len()
    }

    /// Calls `work` with the scratch of a compute thread.
    pub fn with_scratch<T>(
        &self,
        thread: usize,
        work: impl FnOnce(&mut Scratch) -> T,
    ) -> Option<T> {
        let task = self.task()?;
        let mut slot = self.scratches.get(thread)?.lock();
        let scratch = slot.get_or_insert_with(|| task.scratch());
        Some(work(scratch))
    }

    /// Takes the scratches of all compute threads.
    pub fn take_scratches(&self) -> Vec<Scratch> {
        self.scratches.iter().filter_map(|slot| slot.lock().take()).collect()
    }

    /// Returns whether the call has stopped.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Stops the call: no further extent is processed.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        let held = self.outbox.lock().clear();
        for resume in held {
            resume();
        }
    }

    /// Fails the call; the client gets the first failure.
    pub fn fail(&self, failure: Failure) {
        self.failure.lock().get_or_insert(failure);
        self.stop();
    }

    /// Fails the call with an error of the operation.
    pub fn fail_at(&self, place: Option<ExtentPlacement>, why: String) {
        let (node, operation) = (self.shared.name().into(), self.work.operation.as_str().into());
        self.fail(Failure::Operation { node, operation, place: place.map(Box::new), why });
    }

    /// Adds a result of a compute thread to the outbox.
    pub fn add_result(&self, thread: usize, place: Option<ExtentPlacement>, bytes: Vec<u8>) {
        if bytes.len() > RESULT_LIMIT_BYTES {
            let why = format!(
                "a result of {} bytes is too long, the limit is {RESULT_LIMIT_BYTES}: return it \
                 in parts, or write it to a file",
                bytes.len()
            );
            self.fail_at(place, why);
        }
        if self.is_stopped() {
            return;
        }
        self.counts.result_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let now = Instant::now();
        let due = {
            let mut outbox = self.outbox.lock();
            outbox.add(place, Bulk::from(bytes));
            outbox.due(now)
        };
        match &self.timeline {
            Some(timeline) if due.is_some() => {
                timeline.time_sending(thread, || self.send(due));
            }
            _ => self.send(due),
        }
    }

    /// Calls `then` when the outbox has room for further results.
    pub fn when_room<T>(&self, then: T)
    where
        T: FnOnce() + Send + 'static,
    {
        let at_once = self.outbox.lock().hold(then);
        if let Some(then) = at_once {
            then();
        } else if self.is_stopped() {
            // `stop` may have run before `then` was held.
            self.stop();
        }
    }

    /// Handles the client's request for further results.
    pub fn request_more(&self, reply: ReplySender) {
        let now = Instant::now();
        let (before, due) = {
            let mut outbox = self.outbox.lock();
            (outbox.set_waiting(reply, now), outbox.due(now))
        };
        if let Some(before) = before {
            let why = "a client sends one request for the results of a call at a time".to_owned();
            before.send_now(ReplyMessage { result: Err(Failure::Invalid(why)), data: Vec::new() });
        }
        self.send(due);
    }

    /// Sends a progress update if the client has waited for one update period.
    pub fn send_due_update(&self, now: Instant) {
        let due = self.outbox.lock().due(now);
        self.send(due);
    }

    /// Ends the call when all its steps are done.
    pub fn end(&self) {
        let now = Instant::now();
        let result = self.failure.lock().clone().map_or(Ok(()), Err);
        let due = {
            let mut outbox = self.outbox.lock();
            outbox.end(result);
            outbox.due(now)
        };
        self.send(due);
        self.ticket.lock().take();
    }

    /// Cancels the call, because its client is lost or has cancelled it.
    pub fn cancel(&self) {
        self.stop();
        if let Some(reply) = self.outbox.lock().take_waiting() {
            let why = "the client has cancelled the call".to_owned();
            reply.send_now(ReplyMessage { result: Err(Failure::Invalid(why)), data: Vec::new() });
        }
    }

    fn send(&self, due: Option<DueUpdate>) {
        let Some(DueUpdate { to, content, held }) = due else { return };
        if content.as_ref().map_or(true, |content| content.is_over) {
            self.shared.calls.remove(self.caller.0, self.caller.1);
        }
        let answer = match content {
            Err(failure) => ReplyMessage { result: Err(failure), data: Vec::new() },
            Ok(content) => {
                let timeline = self.timeline.as_ref();
                let processed = ProcessUpdate {
                    results: content.places,
                    is_over: content.is_over,
                    progress: self.progress(),
                    spans: timeline.map_or_else(Vec::new, Timeline::take),
                    now_ns: monotonic_ns(),
                };
                ReplyMessage {
                    result: Ok(Reply::Processed(Box::new(processed))),
                    data: content.data,
                }
            }
        };
        to.send_now(answer);
        if let Some(timeline) = self.timeline.as_ref().filter(|_| !held.is_empty()) {
            timeline.note_resumed();
        }
        for resume in held {
            resume();
        }
    }

    /// Counts an extent; `None` if it does not exist.
    pub fn note_found(&self, bytes: Option<u64>, is_cached: bool) {
        if let Some(bytes) = bytes {
            self.counts.found.fetch_add(1, Ordering::Relaxed);
            self.counts.seen_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.counts.cache_hits.fetch_add(is_cached.into(), Ordering::Relaxed);
        }
    }

    /// Counts a written extent.
    pub fn note_written(&self, bytes: u64) {
        self.counts.written.fetch_add(1, Ordering::Relaxed);
        self.counts.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the bytes of a neighbour from another node.
    pub fn note_neighbour(&self, bytes: u64) {
        self.counts.neighbour_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a processed extent.
    pub fn note_done(&self) {
        self.counts.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the progress.
    pub fn progress(&self) -> ProcessProgress {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ProcessProgress {
            total: count(&self.counts.total),
            done: count(&self.counts.done),
            found: count(&self.counts.found),
            cache_hits: count(&self.counts.cache_hits),
            seen_bytes: count(&self.counts.seen_bytes),
            written: count(&self.counts.written),
            written_bytes: count(&self.counts.written_bytes),
            result_bytes: count(&self.counts.result_bytes),
            neighbour_bytes: count(&self.counts.neighbour_bytes),
        }
    }

    /// Returns the timeline, if the call is traced.
    pub fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }

    /// Runs `work`, as a span of the thread if the call is traced.
    pub fn timed<T>(
        &self,
        thread: impl FnOnce() -> String,
        name: &str,
        work: impl FnOnce() -> T,
    ) -> T {
        match &self.timeline {
            Some(timeline) => timeline.time(thread, name, work),
            None => work(),
        }
    }

    /// Runs `work` on a compute thread, as a span if the call is traced.
    pub fn timed_computing<T>(&self, number: usize, name: &str, work: impl FnOnce() -> T) -> T {
        match &self.timeline {
            Some(timeline) => timeline.time_computing(number, name, work),
            None => work(),
        }
    }
}
