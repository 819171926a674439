//! Programs made of operations: threads, constructs, flow control, placement, traces.
#![forbid(unsafe_code)]

pub mod graph;
pub mod placement;
pub mod trace;
