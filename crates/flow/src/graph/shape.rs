//! The graph of an operation as data.

use std::io;
use std::path::Path;

/// An operation: its name, the tokens at its two ends, and what lies between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationGraph {
    /// The operation's name.
    pub name: String,
    /// The type of the token that goes in.
    pub input: String,
    /// The type of the token that comes out.
    pub output: String,
    /// What happens in between.
    pub body: Shape,
}

/// A part of an operation with one way in and one way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// One part after the other; empty where the token passes unchanged.
    Sequence(Vec<Shape>),
    /// A sequential operation, run by a thread.
    Run {
        /// The operation's name.
        name: String,
        /// The thread, such as `Client`, `Disk[·]` or `Compute[any]`.
        place: String,
        /// The type of the token it makes.
        output: String,
        /// How the thread runs it.
        kind: RunKind,
    },
    /// A whole operation used as one step of this one.
    Call {
        /// The name of the operation used.
        operation: String,
        /// The type of the token it makes.
        output: String,
    },
    /// A choice: one of two parts, or one part or nothing.
    If {
        /// What is asked of the token.
        condition: String,
        /// The part taken when the answer is yes.
        then: Box<Shape>,
        /// The part taken when the answer is no; without it the token passes by.
        otherwise: Option<Box<Shape>>,
    },
    /// A part repeated as long as a condition holds; it is asked before each turn.
    While {
        /// What is asked of the token.
        condition: String,
        /// The part repeated.
        body: Box<Shape>,
    },
    /// A part repeated for each value of a range.
    For {
        /// The range, such as `0..10`.
        range: String,
        /// The part repeated.
        body: Box<Shape>,
    },
    /// A token cut into tokens that travel at the same time and are put together again.
    Split {
        /// How the tokens are made.
        kind: SplitKind,
        /// The thread that splits.
        place: String,
        /// How many tokens may be under way, such as `automatic` or `20`.
        window: String,
        /// The ways the tokens take; exactly one unless the kind is [`SplitKind::Parallel`].
        branches: Vec<Branch>,
        /// The thread that merges.
        merge_place: String,
        /// The type of the merged token.
        output: String,
    },
}

/// One way through a split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// The name of the split function.
    pub split: String,
    /// The type of the token it makes.
    pub input: String,
    /// What happens to that token.
    pub body: Shape,
    /// The name of the merge function.
    pub merge: String,
}

/// How a thread runs a sequential operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunKind {
    /// The thread runs it to its end.
    Waiting,
    /// The thread starts it; the token goes on when somebody completes it.
    Asynchronous,
    /// The thread that made the token runs it at once, without a hop.
    Inline,
}

/// How the tokens of a split are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SplitKind {
    /// One token for each branch.
    Parallel,
    /// Tokens until the split function says that it made the last one.
    While,
    /// One token for each value of one or several indices.
    Indexed {
        /// The number of indices.
        indices: usize,
    },
}

impl OperationGraph {
    /// The graph as a picture.
    pub fn to_svg(&self) -> String {
        super::svg::draw(self)
    }

    /// The graph in the language of Graphviz.
    pub fn to_dot(&self) -> String {
        super::dot::write(self)
    }

    /// Writes the graph to a file, as SVG if the name ends in `.svg` and as DOT if it ends in
    /// `.dot` or `.gv`; any other ending is an error of kind `InvalidInput`.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let text = match path.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => self.to_svg(),
            Some("dot" | "gv") => self.to_dot(),
            _ => {
                let message = format!(
                    "the graph of an operation is written as .svg, .dot or .gv, not as {}",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        };
        std::fs::write(path, text)
    }
}
