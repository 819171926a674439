//! A call at one node.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pario_net::{Bulk, SpaceId};
use pario_proto::{
    ExtentPlacement, ExtentSelection, Failure, ProcessProgress, ProcessUpdate, ProcessWork, Reply,
    ReplyMessage, SubfileLocation,
};
use pario_store::ExtentFile;
use parking_lot::Mutex;

use super::outbox::{Due, Outbox};
use super::timeline::{Timeline, now_ns};
use crate::disks::NodeDisk;
use crate::limits::Share;
use crate::operation::{Operation, OperationCall, OperationTask, Scratch};
use crate::reporter::Reporter;
use crate::shared::{Shared, Ticket};

/// So many extents set out together at most, and so many bytes.
pub const COMPANY: usize = 16;
const COMPANY_BYTES: u64 = 1 << 20;
/// The largest result.
const RESULT_LIMIT_BYTES: usize = 64 << 20;

/// A call at one node.
pub struct Running {
    pub shared: Arc<Shared>,
    /// Who asks, and under which number.
    caller: (SpaceId, u64),
    pub work: ProcessWork,
    parameters: Bulk,
    pub operation: Arc<dyn Operation>,
    task: OnceLock<Box<dyn OperationTask>>,
    /// The extents that the task has chosen, if it has.
    chosen: OnceLock<Vec<ExtentPlacement>>,
    /// One for each compute thread.
    scratches: Vec<Mutex<Option<Scratch>>>,
    /// One for each subfile of the file that is here.
    parts: OnceLock<Vec<OpenPart>>,
    is_stopped: AtomicBool,
    failure: Mutex<Option<Failure>>,
    counts: Counts,
    outbox: Mutex<Outbox>,
    /// If the call is traced.
    timeline: Option<Timeline>,
    /// The node does not stop before this is over.
    ticket: Mutex<Option<Ticket>>,
    /// What it takes of its user's calls, and of the extents that these have chosen.
    _call_share: Share,
    chosen_share: Mutex<Share>,
}

/// A subfile of the file that is here.
#[derive(Clone, Debug)]
pub struct OpenPart {
    /// Which one, and on which disk.
    pub part: SubfileLocation,
    /// The number of the disk.
    pub disk: usize,
    /// If it has come into being.
    pub file: Option<ExtentFile>,
    /// Which extents it has, if they are all wanted: first ones and how many.
    pub runs: Vec<(u64, u64)>,
}

/// How far a call has come.
#[derive(Default)]
struct Counts {
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

impl Running {
    /// A call that has not begun.
    pub fn new(
        shared: Arc<Shared>,
        caller: (SpaceId, u64),
        work: ProcessWork,
        parameters: Bulk,
        operation: Arc<dyn Operation>,
        (ticket, [call_share, chosen_share]): (Ticket, [Share; 2]),
    ) -> Self {
        let threads = shared.node().compute_threads.max(1);
        Self {
            shared,
            caller,
            timeline: work.is_traced.then(|| Timeline::new(threads)),
            work,
            parameters,
            operation,
            task: OnceLock::new(),
            chosen: OnceLock::new(),
            scratches: (0..threads).map(|_| Mutex::default()).collect(),
            parts: OnceLock::new(),
            is_stopped: AtomicBool::new(false),
            failure: Mutex::default(),
            counts: Counts::default(),
            outbox: Mutex::default(),
            ticket: Mutex::new(Some(ticket)),
            _call_share: call_share,
            chosen_share: Mutex::new(chosen_share),
        }
    }

    /// Makes the task of the parameters.
    pub fn prepare(&self) {
        let disks = &self.shared.disks;
        let is_here = |part: &SubfileLocation| disks.number_of(part.disk).is_ok();
        let here: Vec<bool> = self.work.parts.iter().map(is_here).collect();
        match self.operation.prepare(&OperationCall::new(&self.parameters, &here)) {
            Ok(task) => {
                if let Some(chosen) = task.extents() {
                    if let Err(failure) = self.chosen_share.lock().resize(chosen.len() as u64) {
                        return self.fail(failure);
                    }
                    drop(self.chosen.set(chosen));
                }
                drop(self.task.set(task));
                self.take_open_parts();
            }
            Err(why) => self.fail_at(None, why),
        }
    }

    /// The task, once it is made.
    pub fn task(&self) -> Option<&dyn OperationTask> {
        self.task.get().map(Box::as_ref)
    }

    /// Whether all extents that are there are meant.
    pub fn wants_all(&self) -> bool {
        self.work.extents == ExtentSelection::All && self.chosen.get().is_none()
    }

    /// If all subfiles are open, nobody has to wait for a disk to use them.
    fn take_open_parts(&self) {
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
            Some(OpenPart { part, disk, file, runs: Vec::new() })
        };
        if let Some(parts) = here.map(open).collect() {
            self.set_parts(parts);
        }
    }

    /// Whether the subfiles that are here are open.
    pub fn has_parts(&self) -> bool {
        self.parts.get().is_some()
    }

    /// Takes the subfiles that are here, opened.
    pub fn set_parts(&self, parts: Vec<OpenPart>) {
        drop(self.parts.set(parts));
    }

    /// The subfiles that are here.
    pub fn parts(&self) -> &[OpenPart] {
        self.parts.get().map_or(&[], Vec::as_slice)
    }

    /// Which of the subfiles here is meant.
    pub fn part_of(&self, place: ExtentPlacement) -> Option<usize> {
        self.parts().iter().position(|open| open.part.subfile == place.subfile)
    }

    /// The extents to be seen, with the subfile of each among those here, all disks in turn.
    pub fn route(&self) -> Route {
        let chosen = match &self.work.extents {
            ExtentSelection::These(places) => Some(places.clone()),
            ExtentSelection::All => self.chosen.get().cloned(),
        };
        let route = match chosen {
            Some(places) => {
                let here = |place: ExtentPlacement| Some((self.part_of(place)?, place));
                Route::Listed(places.into_iter().filter_map(here).collect())
            }
            None => Route::All {
                runs: self.parts().iter().map(|open| open.runs.clone().into()).collect(),
                turn: 0,
            },
        };
        self.counts.total.store(route.len(), Ordering::Relaxed);
        route
    }

    /// How many extents set out together: fewer if they are long, one if it is not known how long
    /// they are, or if parts of others are wanted with them.
    pub fn company(&self, first: Option<ExtentPlacement>) -> usize {
        let wants = |place| self.task().is_none_or(|task| !task.neighbours(place).is_empty());
        if first.is_none_or(wants) {
            return 1;
        }
        let live = self.parts().iter().filter_map(|open| Some(open.file.as_ref()?.live()));
        let (extents, bytes) = live.fold((0, 0), |(extents, bytes), (some, their_bytes)| {
            (extents + some, bytes + their_bytes)
        });
        let each = bytes.checked_div(extents).unwrap_or(COMPANY_BYTES).max(1);
        usize::try_from(COMPANY_BYTES / each).unwrap_or(1).clamp(1, COMPANY)
    }

    /// How many compute threads may work for it.
    pub fn threads(&self) -> usize {
        self.scratches.len()
    }

    /// What a compute thread has for itself.
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

    /// What all compute threads had for themselves.
    pub fn take_scratches(&self) -> Vec<Scratch> {
        self.scratches.iter().filter_map(|slot| slot.lock().take()).collect()
    }

    /// Whether nothing new should be begun.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Nothing new is begun from now on.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        let held = self.outbox.lock().forget();
        for go_on in held {
            go_on();
        }
    }

    /// Something went wrong: the first failure is the one that is told.
    pub fn fail(&self, failure: Failure) {
        self.failure.lock().get_or_insert(failure);
        self.stop();
    }

    /// The operation itself failed.
    pub fn fail_at(&self, place: Option<ExtentPlacement>, why: String) {
        let (node, operation) = (self.shared.name().into(), self.work.operation.as_str().into());
        self.fail(Failure::Operation { node, operation, place: place.map(Box::new), why });
    }

    /// Puts a result of a compute thread into the outbox.
    pub fn put(&self, thread: usize, place: Option<ExtentPlacement>, bytes: Vec<u8>) {
        if bytes.len() > RESULT_LIMIT_BYTES {
            let why = format!(
                "a result of {} bytes is too long, the limit is {RESULT_LIMIT_BYTES}: give it out \
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
            outbox.put(place, Bulk::from(bytes));
            outbox.due(now)
        };
        match &self.timeline {
            Some(timeline) if due.is_some() => {
                timeline.time_sending(thread, || self.deliver(due));
            }
            _ => self.deliver(due),
        }
    }

    /// Goes on with `then` when there is room for more results.
    pub fn go_on<T>(&self, then: T)
    where
        T: FnOnce() + Send + 'static,
    {
        let at_once = self.outbox.lock().hold(then);
        if let Some(then) = at_once {
            then();
        } else if self.is_stopped() {
            // Whoever stopped it has not seen what is held since.
            self.stop();
        }
    }

    /// The caller asks for more.
    pub fn ask(&self, responder: Reporter) {
        let now = Instant::now();
        let (before, due) = {
            let mut outbox = self.outbox.lock();
            (outbox.ask(responder, now), outbox.due(now))
        };
        if let Some(before) = before {
            let why = "a call is asked for more by one question at a time".to_owned();
            before.send_now(ReplyMessage { result: Err(Failure::Invalid(why)), data: Vec::new() });
        }
        self.deliver(due);
    }

    /// Answers a caller that has been waiting for a moment.
    pub fn tick(&self, now: Instant) {
        let due = self.outbox.lock().due(now);
        self.deliver(due);
    }

    /// Everything that could be done is done.
    pub fn end(&self) {
        let now = Instant::now();
        let result = self.failure.lock().clone().map_or(Ok(()), Err);
        let due = {
            let mut outbox = self.outbox.lock();
            outbox.end(result);
            outbox.due(now)
        };
        self.deliver(due);
        self.ticket.lock().take();
    }

    /// Whoever asked is gone, or has given the call up.
    pub fn give_up(&self) {
        self.stop();
        if let Some(question) = self.outbox.lock().take_question() {
            let why = "the call was given up".to_owned();
            question
                .send_now(ReplyMessage { result: Err(Failure::Invalid(why)), data: Vec::new() });
        }
    }

    fn deliver(&self, due: Option<Due>) {
        let Some(Due { to, load, held }) = due else { return };
        if load.as_ref().map_or(true, |load| load.is_over) {
            self.shared.calls.forget(self.caller.0, self.caller.1);
        }
        let answer = match load {
            Err(failure) => ReplyMessage { result: Err(failure), data: Vec::new() },
            Ok(load) => {
                let timeline = self.timeline.as_ref();
                let processed = ProcessUpdate {
                    results: load.places,
                    is_over: load.is_over,
                    progress: self.progress(),
                    spans: timeline.map_or_else(Vec::new, Timeline::take),
                    now_ns: now_ns(),
                };
                ReplyMessage { result: Ok(Reply::Processed(Box::new(processed))), data: load.data }
            }
        };
        to.send_now(answer);
        if let Some(timeline) = self.timeline.as_ref().filter(|_| !held.is_empty()) {
            timeline.note_resumed();
        }
        for go_on in held {
            go_on();
        }
    }

    /// An extent was found, or was not there.
    pub fn note_found(&self, bytes: Option<u64>, is_cached: bool) {
        if let Some(bytes) = bytes {
            self.counts.found.fetch_add(1, Ordering::Relaxed);
            self.counts.seen_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.counts.cache_hits.fetch_add(is_cached.into(), Ordering::Relaxed);
        }
    }

    /// An extent was written.
    pub fn note_written(&self, bytes: u64) {
        self.counts.written.fetch_add(1, Ordering::Relaxed);
        self.counts.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Another node has sent something.
    pub fn note_neighbour(&self, bytes: u64) {
        self.counts.neighbour_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// An extent is done.
    pub fn note_done(&self) {
        self.counts.done.fetch_add(1, Ordering::Relaxed);
    }

    /// How far it has come.
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

    /// What the threads of this node did when, if the call is traced.
    pub fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }

    /// Does `work`, as a span of the thread if the call is traced.
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

    /// The same on a compute thread.
    pub fn timed_computing<T>(&self, number: usize, name: &str, work: impl FnOnce() -> T) -> T {
        match &self.timeline {
            Some(timeline) => timeline.time_computing(number, name, work),
            None => work(),
        }
    }
}

/// The extents to be seen, in order, each with the number of its subfile among those here.
pub enum Route {
    /// One after the other.
    Listed(VecDeque<(usize, ExtentPlacement)>),
    /// All that there are, one of each disk in turn.
    All {
        /// What is left of each subfile.
        runs: Vec<VecDeque<(u64, u64)>>,
        /// Whose turn it is.
        turn: usize,
    },
}

impl Route {
    /// How many are left.
    pub fn len(&self) -> u64 {
        match self {
            Route::Listed(places) => places.len() as u64,
            Route::All { runs, .. } => runs.iter().flatten().map(|(_, len)| len).sum(),
        }
    }

    /// The next one, which stays.
    pub fn first(&self, parts: &[OpenPart]) -> Option<ExtentPlacement> {
        match self {
            Route::Listed(places) => places.front().map(|(_, place)| *place),
            Route::All { runs, .. } => parts.iter().zip(runs).find_map(|(open, runs)| {
                let extent = pario_proto::ExtentIndex(runs.front()?.0);
                Some(ExtentPlacement { subfile: open.part.subfile, extent })
            }),
        }
    }

    /// The next one.
    pub fn next(&mut self, parts: &[OpenPart]) -> Option<(usize, ExtentPlacement)> {
        match self {
            Route::Listed(places) => places.pop_front(),
            Route::All { runs, turn } => {
                let count = runs.len();
                let number = (0..count)
                    .map(|step| (*turn + step) % count)
                    .find(|number| !runs[*number].is_empty())?;
                *turn = number + 1;
                let (first, len) = runs[number].pop_front()?;
                if len > 1 {
                    runs[number].push_front((first + 1, len - 1));
                }
                let extent = pario_proto::ExtentIndex(first);
                Some((number, ExtentPlacement { subfile: parts[number].part.subfile, extent }))
            }
        }
    }
}
