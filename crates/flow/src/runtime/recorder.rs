//! What ran when, while a program is traced.

use parking_lot::Mutex;

use super::ids::Position;
use crate::schedule::Operation;
use crate::trace::{Span, SpanKind, Trace};
use std::sync::Arc;

/// How many executions of each thread are kept; the first ones, later ones are counted.
const LIMIT: usize = 250_000;

/// The executions of one thread.
pub(crate) struct Recorder {
    records: Mutex<(Vec<Record>, u64)>,
}

#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub(crate) position: Position,
    pub(crate) kind: SpanKind,
    pub(crate) call: u64,
    pub(crate) token: u64,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) waited_ns: u64,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { records: Mutex::new((Vec::new(), 0)) }
    }

    pub(crate) fn add(&self, record: Record) {
        let (records, dropped) = &mut *self.records.lock();
        if records.len() < LIMIT {
            records.push(record);
        } else {
            *dropped += 1;
        }
    }

    pub(crate) fn trace(&self, space: &str, thread: &str, operations: &[Arc<Operation>]) -> Trace {
        let (records, dropped) = &*self.records.lock();
        let span = |record: &Record| {
            let operation = &operations[record.position.operation as usize];
            Span {
                space: space.to_owned(),
                thread: thread.to_owned(),
                name: operation.nodes[record.position.node as usize].name.clone(),
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
