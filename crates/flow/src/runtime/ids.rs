//! Numbers for what a running program is made of; the same in all its processes.

use serde::{Deserialize, Serialize};

/// A thread of the program, counted over all pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ThreadNumber(pub(crate) u32);

/// A process of the program, in the order of the placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct SpaceNumber(pub(crate) u32);

/// A step of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Position {
    pub(crate) operation: u32,
    pub(crate) node: u32,
}

impl Position {
    pub(crate) fn new(operation: usize, node: usize) -> Self {
        let fit = |number: usize| u32::try_from(number).expect("programs have fewer steps");
        Self { operation: fit(operation), node: fit(node) }
    }

    pub(crate) fn at(self, node: usize) -> Self {
        Self { node: u32::try_from(node).expect("programs have fewer steps"), ..self }
    }

    pub(crate) fn next(self) -> Self {
        Self { node: self.node + 1, ..self }
    }
}

/// A call: the process that made it, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct CallId {
    pub(crate) origin: SpaceNumber,
    pub(crate) number: u64,
}

/// A split under way: the thread that splits, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct SplitId {
    pub(crate) thread: ThreadNumber,
    pub(crate) number: u64,
}
