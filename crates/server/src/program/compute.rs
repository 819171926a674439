//! Compute threads: they show extents to tasks.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pario_flow::Successor;

use super::process::Calling;
use super::visit::{Visit, stored};
use crate::operation::{Outcome, Scratch, Seen};
use crate::processing::Running;

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

    /// Takes what is at hand, and goes on with it if it is enough.
    pub fn look(&mut self, mut visit: Visit, next: Successor<Visit>) {
        if visit.look() {
            self.see(visit, next);
        } else {
            next.call(visit);
        }
    }

    /// Shows an extent to the task.
    pub fn see(&mut self, mut visit: Visit, next: Successor<Visit>) {
        let running = visit.running.clone();
        if running.is_stopped() {
            return next.call(visit);
        }
        let place = visit.place;
        let number = self.number;
        let shown = catch_unwind(AssertUnwindSafe(|| {
            running.with_scratch(number, |scratch| show(&visit, number, scratch))
        }));
        let outcome = match shown {
            Ok(Some(Ok(outcome))) => outcome,
            Ok(Some(Err(why))) => {
                running.fail_at(Some(place), why);
                Outcome::Nothing
            }
            Ok(None) => Outcome::Nothing,
            Err(panic) => {
                running.fail_at(Some(place), told(panic.as_ref()));
                Outcome::Nothing
            }
        };
        match outcome {
            Outcome::Nothing => next.call(visit),
            Outcome::Result(bytes) => running.put(Some(place), bytes, move || next.call(visit)),
            made @ Outcome::Extent { .. } => {
                visit.made = Some(made.into());
                next.call(visit);
            }
        }
    }

    /// All extents have been seen: puts together what the threads have found.
    pub fn finish(&mut self, call: Calling) -> Calling {
        guarded(&call.0, |running| {
            let scratches = running.take_scratches();
            let Some(task) = running.task().filter(|_| !running.is_stopped()) else { return };
            let name = || format!("Compute[{}]", self.number);
            match running.timed(name, "finish", || task.finish(scratches)) {
                Ok(Some(bytes)) => running.put(None, bytes, || ()),
                Ok(None) => {}
                Err(why) => running.fail_at(None, why),
            }
        });
        call.0.end();
        call
    }
}

/// Shows an extent to the task; nothing comes of one that is not there, unless the task wants it.
fn show(visit: &Visit, thread: usize, scratch: &mut Scratch) -> Result<Outcome, String> {
    let running = &visit.running;
    let Some(task) = running.task() else { return Ok(Outcome::Nothing) };
    let extent = visit.found.as_ref().and_then(Option::as_ref);
    if extent.is_none() && !task.sees_absent() {
        return Ok(Outcome::Nothing);
    }
    let neighbours = visit.neighbours();
    let seen = Seen { place: visit.place, extent: extent.map(stored), neighbours: &neighbours };
    let name = || format!("Compute[{thread}]");
    running.timed(name, &running.work.operation, || task.see(&seen, scratch))
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
