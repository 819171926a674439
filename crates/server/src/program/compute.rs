//! Compute threads: they run the tasks of operations on extents.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pario_flow::Continuation;
use pario_net::{Bulk, panic_text};
use pario_proto::Failure;

use super::cut::{CutResult, PieceToCut};
use super::processing::{ExtentBatch, ProcessCall};
use super::scheduled_extent::{FetchTask, OutputExtent, ScheduledExtent, stored};
use crate::operation::{ExtentInput, ExtentOutput, Scratch};
use crate::processing::{Awaited, RunningCall};

/// A compute thread.
pub struct Compute {
    number: usize,
}

impl Compute {
    /// Creates the thread with a number.
    pub fn new(number: usize) -> Self {
        Self { number }
    }

    /// Prepares the task of a call.
    pub fn prepare(&mut self, call: ProcessCall) -> ProcessCall {
        guarded(&call.0, |running| running.prepare());
        call
    }

    /// Loads cached extents and neighbours, and processes the extents that need nothing else.
    pub fn process_cached(&mut self, mut batch: ExtentBatch, next: Continuation<ExtentBatch>) {
        let running = batch.running.clone();
        if let Some(timeline) = running.timeline() {
            timeline.note_wait(self.number, Awaited::Extents, batch.ready_ns);
        }
        batch.extents.retain_mut(|extent| {
            if !extent.load_cached() {
                return true;
            }
            self.process_extent(&running, extent);
            if extent.output.is_none() {
                running.note_done();
            }
            extent.output.is_some()
        });
        running.when_room(move || next.call(batch));
    }

    /// Processes an extent for which everything is fetched.
    pub fn process_fetched(
        &mut self,
        mut extent: ScheduledExtent,
        next: Continuation<ScheduledExtent>,
    ) {
        let running = extent.running.clone();
        if let Some(timeline) = running.timeline() {
            let (awaited, ready_ns) = extent.awaited();
            timeline.note_wait(self.number, awaited, ready_ns);
        }
        self.process_extent(&running, &mut extent);
        running.when_room(move || next.call(extent));
    }

    /// Processes an extent, and keeps its outcome.
    fn process_extent(&mut self, running: &RunningCall, extent: &mut ScheduledExtent) {
        if running.is_stopped() {
            return;
        }
        let (place, number) = (extent.place, self.number);
        let processed = catch_unwind(AssertUnwindSafe(|| {
            running.with_scratch(number, |scratch| call_task(extent, number, scratch))
        }));
        match processed {
            Ok(Some(Ok(ExtentOutput::Result(bytes)))) => {
                running.add_result(number, Some(place), bytes)
            }
            Ok(Some(Ok(ExtentOutput::Extent { placement, header, body }))) => {
                let pool = running.shared.disks.pool();
                let output = OutputExtent::copy_of(pool, placement, &header, &body);
                extent.output = Some(output.into());
            }
            Ok(Some(Ok(ExtentOutput::Nothing)) | None) => {}
            Ok(Some(Err(why))) => running.fail_at(Some(place), why),
            Err(panic) => running.fail_at(Some(place), panic_failure(panic.as_ref())),
        }
    }

    /// Cuts a neighbour from an extent of this node.
    pub fn cut_neighbour(&mut self, fetch: FetchTask) -> FetchTask {
        fetch.cut()
    }

    /// Cuts a piece of an extent for another node.
    pub fn cut_piece(&mut self, piece: PieceToCut) -> CutResult {
        let PieceToCut { task, extent } = piece;
        let (call, number) = (task.call, task.number);
        let wanted = &call.pieces[number].1;
        let bytes = extent.and_then(|extent| {
            let cut = call.operation.cut(&wanted.what, extent.as_ref().map(stored));
            cut.map(Bulk::from).map_err(|why| Failure::Operation {
                node: call.node.as_str().into(),
                operation: call.name.as_str().into(),
                place: Some(Box::new(wanted.place)),
                why,
            })
        });
        CutResult { number, bytes }
    }

    /// Merges the scratches of the compute threads when all extents are processed, and ends the
    /// call.
    pub fn finish(&mut self, call: ProcessCall) -> ProcessCall {
        guarded(&call.0, |running| {
            let scratches = running.take_scratches();
            let Some(task) = running.task().filter(|_| !running.is_stopped()) else { return };
            match running.timed_computing(self.number, "finish", || task.finish(scratches)) {
                Ok(Some(bytes)) => running.add_result(self.number, None, bytes),
                Ok(None) => {}
                Err(why) => running.fail_at(None, why),
            }
        });
        call.0.end();
        call
    }
}

/// Calls the task with an extent. A missing extent has no output, unless the task processes
/// missing ones.
fn call_task(
    extent: &ScheduledExtent,
    thread: usize,
    scratch: &mut Scratch,
) -> Result<ExtentOutput, String> {
    let running = &extent.running;
    let Some(task) = running.task() else { return Ok(ExtentOutput::Nothing) };
    let content = extent.content.as_ref().and_then(Option::as_ref);
    if content.is_none() && !task.includes_absent() {
        return Ok(ExtentOutput::Nothing);
    }
    let neighbours = extent.neighbours();
    let (placement, bytes) = (extent.place, content.map(stored));
    let input = ExtentInput { placement, extent: bytes, neighbours: &neighbours };
    running.timed_computing(thread, &running.work.operation, || task.process(&input, scratch))
}

/// Runs `work`; a panic fails only the call.
fn guarded(running: &RunningCall, work: impl FnOnce(&RunningCall)) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(running))) {
        running.fail_at(None, panic_failure(panic.as_ref()));
    }
}

fn panic_failure(panic: &(dyn Any + Send)) -> String {
    format!("it panicked: {}", panic_text(panic))
}
