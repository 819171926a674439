//! Traces: the executions of all threads, and their pictures.
//!
//! A [`Trace`] is plain data recorded by the threads of a program. It has two output formats: a
//! Chrome trace, which Perfetto and `chrome://tracing` load, and a timing diagram with one row for
//! each thread, a box for each execution, and a dashed box for each wait.
//!
//! ```
//! use pario_flow::trace::{Span, SpanKind, Trace};
//!
//! let span = Span {
//!     process: "A".into(),
//!     thread: "Disk[0]".into(),
//!     name: "read".into(),
//!     note: String::new(),
//!     kind: SpanKind::Run,
//!     call: 1,
//!     token: 3,
//!     begin_ns: 1_000,
//!     end_ns: 51_000,
//!     waited_ns: 400,
//! };
//! let trace = Trace { spans: vec![span], dropped: 0 };
//! assert!(trace.to_timing_svg().contains("Disk[0]"));
//! assert!(trace.to_chrome_json().contains("\"ph\":\"X\""));
//! ```

mod axis;
mod boxes;
mod chrome;
mod rows;
mod span;
mod timing;

pub use span::{Span, SpanKind, Trace};
