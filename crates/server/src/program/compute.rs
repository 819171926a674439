//! Compute threads: they show extents to tasks.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pario_flow::Continuation;

use super::process::{Calling, Company};
use super::visit::{Visit, stored};
use crate::operation::{ExtentInput, ExtentOutput, Scratch};
use crate::processing::{Awaited, Running};

/// A compute thread.
pub struct Compute {
    number: usize,
}

impl Compute {
    /// The thread of a number.
    pub fn new(number: usize) -> Self {
        Self { number }
    }

    /// Makes the task of a call.
    pub fn prepare(&mut self, call: Calling) -> Calling {
        guarded(&call.0, |running| running.prepare());
        call
    }

    /// Takes what is at hand of each extent, and shows those to the task of which that is enough.
    pub fn look(&mut self, mut company: Company, next: Continuation<Company>) {
        let running = company.running.clone();
        if let Some(timeline) = running.timeline() {
            timeline.note_wait(self.number, Awaited::Extents, company.ready_ns);
        }
        company.visits.retain_mut(|visit| {
            if !visit.look() {
                return true;
            }
            self.show(&running, visit);
            if visit.made.is_none() {
                running.note_done();
            }
            visit.made.is_some()
        });
        running.go_on(move || next.call(company));
    }

    /// Shows an extent to the task, now that everything is there.
    pub fn see(&mut self, mut visit: Visit, next: Continuation<Visit>) {
        let running = visit.running.clone();
        if let Some(timeline) = running.timeline() {
            let (awaited, ready_ns) = visit.awaited();
            timeline.note_wait(self.number, awaited, ready_ns);
        }
        self.show(&running, &mut visit);
        running.go_on(move || next.call(visit));
    }

    /// Shows an extent to the task, and keeps what comes of it.
    fn show(&mut self, running: &Running, visit: &mut Visit) {
        if running.is_stopped() {
            return;
        }
        let (place, number) = (visit.place, self.number);
        let shown = catch_unwind(AssertUnwindSafe(|| {
            running.with_scratch(number, |scratch| show(visit, number, scratch))
        }));
        match shown {
            Ok(Some(Ok(ExtentOutput::Result(bytes)))) => running.put(number, Some(place), bytes),
            Ok(Some(Ok(made @ ExtentOutput::Extent { .. }))) => visit.made = Some(made.into()),
            Ok(Some(Ok(ExtentOutput::Nothing)) | None) => {}
            Ok(Some(Err(why))) => running.fail_at(Some(place), why),
            Err(panic) => running.fail_at(Some(place), told(panic.as_ref())),
        }
    }

    /// All extents have been seen: puts together what the threads have found.
    pub fn finish(&mut self, call: Calling) -> Calling {
        guarded(&call.0, |running| {
            let scratches = running.take_scratches();
            let Some(task) = running.task().filter(|_| !running.is_stopped()) else { return };
            match running.timed_computing(self.number, "finish", || task.finish(scratches)) {
                Ok(Some(bytes)) => running.put(self.number, None, bytes),
                Ok(None) => {}
                Err(why) => running.fail_at(None, why),
            }
        });
        call.0.end();
        call
    }
}

/// Shows an extent to the task; nothing comes of one that is not there, unless the task wants it.
fn show(visit: &Visit, thread: usize, scratch: &mut Scratch) -> Result<ExtentOutput, String> {
    let running = &visit.running;
    let Some(task) = running.task() else { return Ok(ExtentOutput::Nothing) };
    let extent = visit.found.as_ref().and_then(Option::as_ref);
    if extent.is_none() && !task.includes_absent() {
        return Ok(ExtentOutput::Nothing);
    }
    let neighbours = visit.neighbours();
    let (placement, extent) = (visit.place, extent.map(stored));
    let input = ExtentInput { placement, extent, neighbours: &neighbours };
    running.timed_computing(thread, &running.work.operation, || task.process(&input, scratch))
}

/// What panics is the end of the call and of nothing else.
fn guarded(running: &Running, work: impl FnOnce(&Running)) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(running))) {
        running.fail_at(None, told(panic.as_ref()));
    }
}

fn told(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("it panicked: {}", text.unwrap_or_else(|| "nobody knows why".to_owned()))
}
