//! The data of a trace.

use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// The executions of the threads of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The executions, in any order.
    pub spans: Vec<Span>,
    /// The number of executions beyond the limit of the recorder.
    pub dropped: u64,
}

/// One execution of a function by a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The process.
    pub process: String,
    /// The thread, such as `Disk[0]`.
    pub thread: String,
    /// The operation, or the split or merge function.
    pub name: String,
    /// A note, such as a number of bytes; may be empty.
    pub note: String,
    /// The kind of the function.
    pub kind: SpanKind,
    /// The number of the call.
    pub call: u64,
    /// The number of the token within its split, from 1; 0 outside of splits.
    pub token: u64,
    /// The begin, on one clock for the whole trace.
    pub begin_ns: u64,
    /// The end.
    pub end_ns: u64,
    /// The time that the token waited in the queue of the thread.
    pub waited_ns: u64,
}

/// The kind of a function that a thread executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SpanKind {
    /// A sequential operation.
    Run,
    /// A split function.
    Split,
    /// A merge function.
    Merge,
    /// No function: the thread waited; the name says for what.
    Wait,
}

impl Trace {
    /// Writes the trace in the JSON format that Perfetto and `chrome://tracing` load.
    pub fn to_chrome_json(&self) -> String {
        super::chrome::write(self)
    }

    /// Draws the trace as a timing diagram: a row for each thread, a box for each execution.
    pub fn to_timing_svg(&self) -> String {
        super::timing::draw(self)
    }

    /// Writes the trace to a file: as a Chrome trace for the extension `.json`, as a timing diagram
    /// for `.svg`. Any other extension is an error of kind `InvalidInput`.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let text = match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => self.to_chrome_json(),
            Some("svg") => self.to_timing_svg(),
            _ => {
                let message = format!(
                    "cannot write a trace to {}: use the extension .json or .svg",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        };
        std::fs::write(path, text)
    }

    /// Combines the traces of several processes, in order of time.
    pub fn merge(parts: Vec<Trace>) -> Trace {
        let dropped = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.dropped));
        let mut spans: Vec<Span> = parts.into_iter().flat_map(|part| part.spans).collect();
        spans.sort_by_key(|span| (span.begin_ns, span.end_ns));
        Trace { spans, dropped }
    }
}
