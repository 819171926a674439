//! The trace in the JSON format of Chrome, which Perfetto loads.
//!
//! Processes and threads are numbered from 1 and named by metadata events. Times are in
//! microseconds since the first execution.

use std::collections::BTreeMap;

use serde::Serialize;

use super::rows::{ThreadRow, rows};
use super::span::{SpanKind, Trace};

/// Writes the trace.
pub(super) fn write(trace: &Trace) -> String {
    let rows = rows(&trace.spans);
    let mut events = Vec::with_capacity(trace.spans.len() + 2 * rows.len());
    let mut numbers: BTreeMap<ThreadRow<'_>, (usize, usize)> = BTreeMap::new();
    let mut process = 0;
    for (number, row) in rows.iter().enumerate() {
        if number == 0 || rows[number - 1].process != row.process {
            process += 1;
            let name = EventArguments::Name { name: row.process };
            events.push(TraceEvent::metadata("process_name", process, 0, name));
            let order = EventArguments::Order { sort_index: process };
            events.push(TraceEvent::metadata("process_sort_index", process, 0, order));
        }
        let thread = number + 1;
        numbers.insert(*row, (process, thread));
        let name = EventArguments::Name { name: row.thread };
        events.push(TraceEvent::metadata("thread_name", process, thread, name));
        let order = EventArguments::Order { sort_index: thread };
        events.push(TraceEvent::metadata("thread_sort_index", process, thread, order));
    }
    let start = trace.spans.iter().map(|span| span.begin_ns).min().unwrap_or(0);
    for span in &trace.spans {
        let (pid, tid) = numbers[&ThreadRow { process: &span.process, thread: &span.thread }];
        events.push(TraceEvent {
            name: &span.name,
            ph: "X",
            cat: Some(match span.kind {
                SpanKind::Run => "run",
                SpanKind::Split => "split",
                SpanKind::Merge => "merge",
                SpanKind::Wait => "wait",
            }),
            pid,
            tid,
            ts: Some(microseconds(span.begin_ns - start)),
            dur: Some(microseconds(span.end_ns.saturating_sub(span.begin_ns))),
            args: EventArguments::Execution {
                call: span.call,
                token: (span.token > 0).then_some(span.token),
                waited_us: microseconds(span.waited_ns),
                note: Some(span.note.as_str()).filter(|note| !note.is_empty()),
            },
        });
    }
    let file = TraceFile {
        events,
        unit: "ms",
        other: TraceMetadata { executions: trace.spans.len(), dropped: trace.dropped },
    };
    // Numbers and texts always have a JSON form.
    serde_json::to_string(&file).unwrap_or_default()
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

#[derive(Serialize)]
struct TraceFile<'t> {
    #[serde(rename = "traceEvents")]
    events: Vec<TraceEvent<'t>>,
    #[serde(rename = "displayTimeUnit")]
    unit: &'static str,
    #[serde(rename = "otherData")]
    other: TraceMetadata,
}

#[derive(Serialize)]
struct TraceMetadata {
    executions: usize,
    dropped: u64,
}

#[derive(Serialize)]
struct TraceEvent<'t> {
    name: &'t str,
    ph: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    pid: usize,
    tid: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    args: EventArguments<'t>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EventArguments<'t> {
    Name {
        name: &'t str,
    },
    Order {
        sort_index: usize,
    },
    Execution {
        call: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        token: Option<u64>,
        waited_us: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<&'t str>,
    },
}

impl<'t> TraceEvent<'t> {
    fn metadata(name: &'t str, pid: usize, tid: usize, args: EventArguments<'t>) -> Self {
        TraceEvent { name, ph: "M", cat: None, pid, tid, ts: None, dur: None, args }
    }
}
