//! The span recorder of a traced thread.

use parking_lot::Mutex;

use super::ids::StepPosition;
use crate::schedule::Schedule;
use crate::trace::{Span, SpanKind, Trace};
use std::sync::Arc;

/// The number of executions kept per thread: the first ones. The recorder only counts later ones.
const SPAN_LIMIT: usize = 250_000;

/// The executions of one thread, and the number of executions beyond the limit.
pub(crate) struct SpanRecorder {
    records: Mutex<(Vec<SpanRecord>, u64)>,
}

#[derive(Clone, Copy)]
pub(crate) struct SpanRecord {
    pub(crate) position: StepPosition,
    pub(crate) kind: SpanKind,
    pub(crate) call: u64,
    pub(crate) token: u64,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) waited_ns: u64,
}

impl SpanRecorder {
    pub(crate) fn new() -> Self {
        Self { records: Mutex::new((Vec::new(), 0)) }
    }

    pub(crate) fn add(&self, record: SpanRecord) {
        let (records, dropped) = &mut *self.records.lock();
        if records.len() < SPAN_LIMIT {
            records.push(record);
        } else {
            *dropped += 1;
        }
    }

    pub(crate) fn trace(&self, process: &str, thread: &str, operations: &[Arc<Schedule>]) -> Trace {
        let (records, dropped) = &*self.records.lock();
        let span = |record: &SpanRecord| {
            let operation = &operations[record.position.operation as usize];
            Span {
                process: process.to_owned(),
                thread: thread.to_owned(),
                name: operation.steps[record.position.step as usize].name.clone(),
                note: String::new(),
                kind: record.kind,
                call: record.call,
                token: record.token,
                begin_ns: record.begin_ns,
                end_ns: record.end_ns,
                waited_ns: record.waited_ns,
            }
        };
        Trace { spans: records.iter().map(span).collect(), dropped: *dropped }
    }
}
