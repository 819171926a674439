//! The graph of an operation as data.

use std::io;
use std::path::Path;

/// The graph of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationGraph {
    /// The name of the operation.
    pub name: String,
    /// The type of the input token.
    pub input: String,
    /// The type of the output token.
    pub output: String,
    /// The steps and constructs.
    pub body: GraphShape,
}

/// A part of an operation with one entry and one exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphShape {
    /// Parts one after the other; empty if the token passes unchanged.
    Sequence(Vec<GraphShape>),
    /// A sequential operation, run by a thread.
    Run {
        /// The name of the step.
        name: String,
        /// The thread, such as `Client`, `Disk[·]` or `Compute[any]`.
        thread: String,
        /// The type of the token it makes.
        output: String,
        /// How the thread runs it.
        kind: RunKind,
    },
    /// Another operation used as a step.
    Call {
        /// The name of the other operation.
        operation: String,
        /// The type of the token it makes.
        output: String,
    },
    /// A choice: one of two parts, or one part or nothing.
    If {
        /// The condition on the token.
        condition: String,
        /// The part for tokens that meet the condition.
        then: Box<GraphShape>,
        /// The part for other tokens; without it they pass unchanged.
        otherwise: Option<Box<GraphShape>>,
    },
    /// A part repeated as long as a condition holds; evaluated before each iteration.
    While {
        /// The condition on the token.
        condition: String,
        /// The part repeated.
        body: Box<GraphShape>,
    },
    /// A part repeated for each value of a range.
    For {
        /// The range, such as `0..10`.
        range: String,
        /// The part repeated.
        body: Box<GraphShape>,
    },
    /// A split into tokens that are processed at the same time, and their merge.
    Split {
        /// How the tokens are made.
        kind: SplitKind,
        /// The thread that splits.
        thread: String,
        /// The limit of tokens under way, such as `automatic` or `20`.
        window: String,
        /// The bodies; exactly one unless the kind is [`SplitKind::Parallel`].
        branches: Vec<Branch>,
        /// The thread that merges.
        merge_thread: String,
        /// The type of the merged token.
        output: String,
    },
}

/// One body of a split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// The name of the split function.
    pub split: String,
    /// The type of the token it makes.
    pub input: String,
    /// The steps of that token.
    pub body: GraphShape,
    /// The name of the merge function.
    pub merge: String,
}

/// How a thread runs a sequential operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunKind {
    /// The thread runs it to the end.
    Synchronous,
    /// The thread starts it; the token continues when the continuation is called.
    Asynchronous,
    /// The thread that has the token runs it, without a hop.
    Inline,
}

/// How the tokens of a split are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SplitKind {
    /// One token for each branch.
    Parallel,
    /// Tokens until the split function returns none.
    While,
    /// One token for each value of one or several indices.
    Indexed {
        /// The number of indices.
        indices: usize,
    },
}

impl OperationGraph {
    /// Draws the graph as SVG.
    pub fn to_svg(&self) -> String {
        super::svg::draw(self)
    }

    /// Writes the graph in the DOT language of Graphviz.
    pub fn to_dot(&self) -> String {
        super::dot::write(self)
    }

    /// Writes the graph to a file: as SVG for the extension `.svg`, as DOT for `.dot` and `.gv`. Any
    /// other extension is an error of kind `InvalidInput`.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let text = match path.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => self.to_svg(),
            Some("dot" | "gv") => self.to_dot(),
            _ => {
                let message = format!(
                    "cannot write the graph of an operation to {}: use the extension .svg, .dot or .gv",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        };
        std::fs::write(path, text)
    }
}
