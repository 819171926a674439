//! The schedule of an operation: its steps one after the other, with jumps and without types.

use std::any::Any;
use std::cell::OnceCell;
use std::ops::Range;

use crate::graph::OperationGraph;
use crate::runtime::{ConstructStack, ErasedContinuation};
use crate::thread_selector::ThreadSelection;
use crate::token::{ErasedToken, TokenType};
use crate::window::Window;

/// The schedule of one operation.
pub(crate) struct Schedule {
    pub(crate) name: String,
    pub(crate) steps: Vec<ScheduleStep>,
    pub(crate) output: TokenType,
    pub(crate) graph: OperationGraph,
}

/// One step of a schedule.
pub(crate) struct ScheduleStep {
    pub(crate) action: StepAction,
    /// The name in messages, pictures and traces.
    pub(crate) name: String,
    /// The type of the token that enters the step.
    pub(crate) input: TokenType,
}

type RunStep = dyn Fn(&mut dyn Any, ErasedToken, &StepContext<'_>) -> Result<ErasedToken, String>
    + Send
    + Sync;
type AsyncStep = dyn Fn(&mut dyn Any, ErasedToken, ErasedContinuation) + Send + Sync;
type MapStep = dyn Fn(ErasedToken) -> ErasedToken + Send + Sync;
type BranchTest = dyn Fn(&ErasedToken) -> bool + Send + Sync;
type RangeOf = dyn Fn(&ErasedToken) -> Range<u64> + Send + Sync;

/// What a step does with its token. Unless the variant says otherwise, the token then goes to the
/// next step.
pub(crate) enum StepAction {
    /// Sends the token to another thread.
    Hop(ThreadSelection),
    /// Calls a function with the thread's state; its result is the next token.
    Run(Box<RunStep>),
    /// Calls a function that keeps the token and calls the continuation later.
    RunAsync(Box<AsyncStep>),
    /// Calls a function without the thread's state; its result is the next token.
    Map(Box<MapStep>),
    /// Jumps to `otherwise` if the test fails.
    Branch { test: Box<BranchTest>, otherwise: usize },
    /// Jumps.
    Jump(usize),
    /// Begins a counted loop; jumps to `after` if the range is empty.
    ForEnter { range: Box<RangeOf>, after: usize },
    /// Jumps to the body for the next index, or ends the loop.
    ForNext { body: usize },
    /// Splits the token into tokens that a merge step merges.
    Split(SplitStep),
    /// Merges the token into the output of its split.
    Merge(MergeStep),
    /// Goes through another operation.
    Call(usize),
    /// Ends the operation.
    Return,
}

/// Which thread makes the output token of a split-merge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MadeBy {
    /// The splitting thread; the output travels.
    Splitter,
    /// The merging thread; the input travels.
    Merger,
}

type SplitSourceOf = dyn Fn(ErasedToken) -> Box<dyn SplitSource> + Send + Sync;
type FromInput = dyn Fn(&ErasedToken) -> ErasedToken + Send + Sync;

pub(crate) struct SplitStep {
    pub(crate) window: Window,
    /// Makes the source of an input's tokens.
    pub(crate) source: Box<SplitSourceOf>,
    /// The first steps of the bodies.
    pub(crate) bodies: Vec<usize>,
    /// The step after the merge.
    pub(crate) after: usize,
    pub(crate) merge_selection: ThreadSelection,
    pub(crate) made_by: MadeBy,
    /// Makes the output from the input.
    pub(crate) init: Box<FromInput>,
    /// Clones the input, for [`MadeBy::Merger`].
    pub(crate) clone: Option<Box<FromInput>>,
}

type Add = dyn Fn(&mut ErasedToken, ErasedToken, &[u64]) + Send + Sync;

pub(crate) struct MergeStep {
    /// The split whose tokens this step merges.
    pub(crate) split: usize,
    /// The type of the output.
    pub(crate) output: TokenType,
    pub(crate) add: Box<Add>,
}

/// The tokens that a split makes from its input, one at a time.
pub(crate) trait SplitSource {
    /// Makes the next token; `None` after the last.
    fn next(&mut self) -> Option<SplitToken>;
}

/// A token that a split has made.
pub(crate) struct SplitToken {
    pub(crate) token: ErasedToken,
    /// The body that the token enters.
    pub(crate) body: usize,
    /// The indices of the token; empty unless the split is indexed.
    pub(crate) indices: Vec<u64>,
}

/// The thread and the loop indices that a step runs with; see [`Chain::run_with`](crate::Chain::run_with).
pub struct StepContext<'a> {
    thread: &'a str,
    index: usize,
    stack: &'a ConstructStack,
    indices: OnceCell<Vec<u64>>,
}

impl<'a> StepContext<'a> {
    pub(crate) fn new(thread: &'a str, index: usize, stack: &'a ConstructStack) -> Self {
        Self { thread, index, stack, indices: OnceCell::new() }
    }

    /// Returns the name of the thread, such as `Compute[2]`.
    pub fn thread(&self) -> &str {
        self.thread
    }

    /// Returns the number of the thread in its pool.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the indices of the loops and indexed splits around this step, outermost first.
    pub fn indices(&self) -> &[u64] {
        self.indices.get_or_init(|| self.stack.indices())
    }
}
