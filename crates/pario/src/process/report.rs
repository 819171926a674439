//! The progress and the cost of a processing call.

use pario_flow::trace::{Span, SpanKind, Trace};
use pario_proto::{ProcessProgress, WorkSpan};

/// The progress and the cost of a processing call.
#[derive(Clone, Debug, Default)]
pub struct ProcessReport {
    /// All nodes together.
    pub progress: ProcessProgress,
    /// The number of replies so far.
    pub answers: u64,
    /// The trace, if it was requested: disks, compute threads, and replies under way.
    pub trace: Trace,
    /// The last progress of each node.
    nodes: Vec<ProcessProgress>,
}

impl ProcessReport {
    pub(super) fn new(nodes: usize) -> Self {
        Self { nodes: vec![ProcessProgress::default(); nodes], ..Self::default() }
    }

    /// Adds the progress of a node.
    pub(super) fn note(&mut self, node: usize, progress: ProcessProgress) {
        self.nodes[node] = progress;
        self.answers += 1;
        self.progress = ProcessProgress::default();
        for progress in &self.nodes {
            self.progress.add(progress);
        }
    }

    /// Adds the trace of a node, whose clock is `ahead_ns` ahead of the one here.
    pub(super) fn note_spans(
        &mut self,
        node: &str,
        call: u64,
        ahead_ns: i64,
        spans: Vec<WorkSpan>,
    ) {
        let here = |ns: u64| ns.saturating_add_signed(-ahead_ns);
        self.trace.spans.extend(spans.into_iter().map(|span| Span {
            process: node.to_owned(),
            kind: kind_of(&span),
            thread: span.thread,
            name: span.name,
            note: String::new(),
            call,
            token: 0,
            begin_ns: here(span.begin_ns),
            end_ns: here(span.end_ns),
            waited_ns: 0,
        }));
    }

    /// Adds the time that a reply with `bytes` of results was under way.
    pub(super) fn note_answer(
        &mut self,
        node: &str,
        call: u64,
        bytes: usize,
        (begin_ns, end_ns): (u64, u64),
    ) {
        self.trace.spans.push(Span {
            process: node.to_owned(),
            thread: "network".to_owned(),
            name: "answer".to_owned(),
            note: format!("{bytes} bytes"),
            kind: SpanKind::Run,
            call,
            token: 0,
            begin_ns,
            end_ns,
            waited_ns: 0,
        });
    }
}

fn kind_of(span: &WorkSpan) -> SpanKind {
    match span.name.starts_with(WorkSpan::WAITS_FOR) {
        true => SpanKind::Wait,
        false => SpanKind::Run,
    }
}
