//! A trace as data.

use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// What the threads of a program did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The executions, in any order.
    pub spans: Vec<Span>,
    /// How many executions were not recorded because there was no room for them.
    pub dropped: u64,
}

/// One execution of one function by one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The address space, that is the process.
    pub space: String,
    /// The thread, such as `Disk[0]`.
    pub thread: String,
    /// The operation, or the split or merge function.
    pub name: String,
    /// What it says beyond its name, such as a number of bytes; may be empty.
    pub note: String,
    /// What kind of function it was.
    pub kind: SpanKind,
    /// The call of the program's operation that it belonged to.
    pub call: u64,
    /// The number of the token within its split, from 1; 0 outside of splits.
    pub token: u64,
    /// When the execution began, on a clock common to the whole trace.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// How long the token had waited in the thread's queue before.
    pub waited_ns: u64,
}

/// What kind of function a thread executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SpanKind {
    /// A sequential operation.
    Run,
    /// A split function.
    Split,
    /// A merge function.
    Merge,
    /// No function: the thread waited, and the name says for what.
    Wait,
}

impl Trace {
    /// The trace in the JSON format that Perfetto and `chrome://tracing` load.
    pub fn to_chrome_json(&self) -> String {
        super::chrome::write(self)
    }

    /// The trace as a timing diagram: a row for each thread, a box for each execution.
    pub fn to_timing_svg(&self) -> String {
        super::timing::draw(self)
    }

    /// Writes the trace to a file: as Chrome trace if the name ends in `.json`, as timing diagram
    /// if it ends in `.svg`; any other ending is an error of kind `InvalidInput`.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let text = match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => self.to_chrome_json(),
            Some("svg") => self.to_timing_svg(),
            _ => {
                let message =
                    format!("a trace is written as .json or .svg, not as {}", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        };
        std::fs::write(path, text)
    }

    /// Puts the traces of several address spaces together, in the order of time.
    pub fn merge(parts: Vec<Trace>) -> Trace {
        let dropped = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.dropped));
        let mut spans: Vec<Span> = parts.into_iter().flat_map(|part| part.spans).collect();
        spans.sort_by_key(|span| (span.begin_ns, span.end_ns));
        Trace { spans, dropped }
    }
}
