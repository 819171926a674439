//! The graph of an operation, and its pictures.
//!
//! An [`OperationGraph`] is plain data. The chain fills it in; this module does not depend on the
//! runtime. Every construct has one entry and one exit, so the graph is series-parallel and needs
//! no layout engine; [`OperationGraph::to_dot`] exports it for Graphviz.
//!
//! ```
//! use pario_flow::graph::{OperationGraph, RunKind, GraphShape};
//!
//! let read = GraphShape::Run {
//!     name: "read".into(),
//!     thread: "Disk[·]".into(),
//!     output: "Block".into(),
//!     kind: RunKind::Synchronous,
//! };
//! let graph = OperationGraph {
//!     name: "fetch".into(),
//!     input: "Request".into(),
//!     output: "Block".into(),
//!     body: GraphShape::Sequence(vec![read]),
//! };
//! assert!(graph.to_svg().starts_with("<svg"));
//! assert!(graph.to_dot().starts_with("digraph"));
//! ```

mod dot;
mod layout;
mod names;
pub(crate) mod palette;
mod part;
mod sequence;
mod shape;
mod svg;
mod symbols;
pub(crate) mod text;

pub use names::short_name;
pub use shape::{Branch, GraphShape, OperationGraph, RunKind, SplitKind};
