//! Numbers for what a running program is made of; the same in all its processes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

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

/// A map from numbers that this program has given out itself, so that nobody can choose them to
/// collide.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Mixes numbers well enough for ones that are counted up.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}
