//! What an operation looks like, and its pictures.
//!
//! An [`OperationGraph`] is plain data: the builder fills it in while it wires an operation, and
//! nothing here knows how operations run. Because operations are made of constructs that have one
//! way in and one way out, the graph is series-parallel and is laid out in this process, without
//! any layout engine; [`OperationGraph::to_dot`] is there for those who want one.
//!
//! ```
//! use pario_flow::graph::{OperationGraph, RunKind, Shape};
//!
//! let read = Shape::Run {
//!     name: "read".into(),
//!     place: "Disk[·]".into(),
//!     output: "Block".into(),
//!     kind: RunKind::Waiting,
//! };
//! let graph = OperationGraph {
//!     name: "fetch".into(),
//!     input: "Request".into(),
//!     output: "Block".into(),
//!     body: Shape::Sequence(vec![read]),
//! };
//! assert!(graph.to_svg().starts_with("<svg"));
//! assert!(graph.to_dot().starts_with("digraph"));
//! ```

mod chain;
mod dot;
mod layout;
mod names;
mod node;
pub(crate) mod palette;
mod piece;
mod shape;
mod svg;
pub(crate) mod text;

pub use names::short_name;
pub use shape::{Branch, OperationGraph, RunKind, Shape, SplitKind};
