//! The trace in the JSON format of Chrome's tracing, which Perfetto loads.
//!
//! Each address space is a process and each thread a thread of it; both are numbered from 1 and
//! named by metadata events. Times are in microseconds from the first execution on.

use std::collections::BTreeMap;

use serde::Serialize;

use super::rows::{Row, rows};
use super::span::{SpanKind, Trace};

/// Writes the trace.
pub(super) fn write(trace: &Trace) -> String {
    let rows = rows(&trace.spans);
    let mut events = Vec::with_capacity(trace.spans.len() + 2 * rows.len());
    let mut numbers: BTreeMap<Row<'_>, (usize, usize)> = BTreeMap::new();
    let mut space = 0;
    for (number, row) in rows.iter().enumerate() {
        if number == 0 || rows[number - 1].space != row.space {
            space += 1;
            let name = Arguments::Name { name: row.space };
            events.push(Event::metadata("process_name", space, 0, name));
            let order = Arguments::Order { sort_index: space };
            events.push(Event::metadata("process_sort_index", space, 0, order));
        }
        let thread = number + 1;
        numbers.insert(*row, (space, thread));
        let name = Arguments::Name { name: row.thread };
        events.push(Event::metadata("thread_name", space, thread, name));
        let order = Arguments::Order { sort_index: thread };
        events.push(Event::metadata("thread_sort_index", space, thread, order));
    }
    let start = trace.spans.iter().map(|span| span.begin_ns).min().unwrap_or(0);
    for span in &trace.spans {
        let (pid, tid) = numbers[&Row { space: &span.space, thread: &span.thread }];
        events.push(Event {
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
            args: Arguments::Execution {
                call: span.call,
                token: (span.token > 0).then_some(span.token),
                waited_us: microseconds(span.waited_ns),
                note: Some(span.note.as_str()).filter(|note| !note.is_empty()),
            },
        });
    }
    let file = File {
        events,
        unit: "ms",
        other: Other { executions: trace.spans.len(), dropped: trace.dropped },
    };
    // Numbers and texts always have a JSON form.
    serde_json::to_string(&file).unwrap_or_default()
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

#[derive(Serialize)]
struct File<'t> {
    #[serde(rename = "traceEvents")]
    events: Vec<Event<'t>>,
    #[serde(rename = "displayTimeUnit")]
    unit: &'static str,
    #[serde(rename = "otherData")]
    other: Other,
}

#[derive(Serialize)]
struct Other {
    executions: usize,
    dropped: u64,
}

#[derive(Serialize)]
struct Event<'t> {
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
    args: Arguments<'t>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Arguments<'t> {
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

impl<'t> Event<'t> {
    fn metadata(name: &'t str, pid: usize, tid: usize, args: Arguments<'t>) -> Self {
        Event { name, ph: "M", cat: None, pid, tid, ts: None, dur: None, args }
    }
}
