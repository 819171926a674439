//! An operation as its threads read it: steps, one after the other, with jumps.

use std::any::Any;
use std::cell::OnceCell;
use std::ops::Range;

use crate::graph::OperationGraph;
use crate::place::Site;
use crate::runtime::{RawSuccessor, Stack};
use crate::token::{Codec, Parcel};
use crate::window::Window;

/// An operation of a program.
pub(crate) struct Operation {
    pub(crate) name: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) output: Codec,
    pub(crate) graph: OperationGraph,
}

/// A step, and what is to be known of it wherever its token may arrive.
pub(crate) struct Node {
    pub(crate) step: Step,
    /// How it is called in messages, pictures and traces.
    pub(crate) name: String,
    /// How the token that enters it travels.
    pub(crate) input: Codec,
}

type RunStep = dyn Fn(&mut dyn Any, Parcel, &Context<'_>) -> Result<Parcel, String> + Send + Sync;
type StartStep = dyn Fn(&mut dyn Any, Parcel, RawSuccessor) + Send + Sync;
type MapStep = dyn Fn(Parcel) -> Parcel + Send + Sync;
type Test = dyn Fn(&Parcel) -> bool + Send + Sync;
type RangeOf = dyn Fn(&Parcel) -> Range<u64> + Send + Sync;

/// What happens to a token. A step passes it to the next one unless it says otherwise.
pub(crate) enum Step {
    /// It goes to another thread.
    Hop(Site),
    /// A function with the thread's state makes another token of it.
    Run(Box<RunStep>),
    /// A function keeps it and calls the successor later.
    Start(Box<StartStep>),
    /// A function without the thread's state makes another token of it.
    Map(Box<MapStep>),
    /// It goes on, or elsewhere if the test fails.
    Branch { test: Box<Test>, otherwise: usize },
    /// It goes elsewhere.
    Jump(usize),
    /// A counted loop begins; an empty one is left at once.
    ForEnter { range: Box<RangeOf>, after: usize },
    /// The next round of a counted loop, or its end.
    ForNext { body: usize },
    /// It is split into tokens that are merged again.
    Split(SplitStep),
    /// It is merged.
    Merge(MergeStep),
    /// It goes through another operation.
    Call(usize),
    /// The operation ends.
    Return,
}

/// Where the output token of a split-merge is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// By the splitting thread; the output travels.
    Here,
    /// By the merging thread; the input travels.
    There,
}

type SourceOf = dyn Fn(Parcel) -> Box<dyn Source> + Send + Sync;
type FromInput = dyn Fn(&Parcel) -> Parcel + Send + Sync;

pub(crate) struct SplitStep {
    pub(crate) window: Window,
    /// The tokens of an input.
    pub(crate) source: Box<SourceOf>,
    /// The first steps of the bodies.
    pub(crate) bodies: Vec<usize>,
    /// The step after the merge.
    pub(crate) after: usize,
    pub(crate) merge_site: Site,
    pub(crate) made: Made,
    /// The output from the input.
    pub(crate) init: Box<FromInput>,
    /// The input once more, where it travels.
    pub(crate) clone: Option<Box<FromInput>>,
}

type Add = dyn Fn(&mut Parcel, Parcel, &[u64]) + Send + Sync;

pub(crate) struct MergeStep {
    /// The split whose tokens are merged.
    pub(crate) split: usize,
    /// How the output travels.
    pub(crate) output: Codec,
    pub(crate) add: Box<Add>,
}

/// The tokens that a split makes of its input, one at a time.
pub(crate) trait Source {
    /// The next token, or nothing when all have been made.
    fn next(&mut self) -> Option<Piece>;
}

/// A token that a split has made.
pub(crate) struct Piece {
    pub(crate) parcel: Parcel,
    /// Which body it enters.
    pub(crate) body: usize,
    /// Its indices, for an indexed split.
    pub(crate) indices: Vec<u64>,
}

/// What a step can know about where it runs.
pub struct Context<'a> {
    thread: &'a str,
    index: usize,
    call: u64,
    stack: &'a Stack,
    indices: OnceCell<Vec<u64>>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(thread: &'a str, index: usize, call: u64, stack: &'a Stack) -> Self {
        Self { thread, index, call, stack, indices: OnceCell::new() }
    }

    /// The name of the thread, such as `Compute[2]`.
    pub fn thread(&self) -> &str {
        self.thread
    }

    /// The number of the thread in its pool.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The indices of the loops and indexed splits around this step, outermost first.
    pub fn indices(&self) -> &[u64] {
        self.indices.get_or_init(|| self.stack.indices())
    }

    /// The number of the call that this token belongs to.
    pub fn call(&self) -> u64 {
        self.call
    }
}
