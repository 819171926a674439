//! The numbers of processes, threads, steps, calls and splits; the same in all processes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use serde::{Deserialize, Serialize};

/// The number of a thread, counted over all threads and pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ThreadNumber(pub(crate) u32);

/// The number of a process: in the order of the placement, or in the order of attaching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ProcessNumber(pub(crate) u32);

impl ProcessNumber {
    /// The first process that attaches. Each has a number of its own; none is used twice.
    pub(crate) const FIRST_ATTACHED: Self = Self(1 << 16);

    /// Whether the process has attached to the program, and is none of its placement.
    pub(crate) fn is_attached(self) -> bool {
        self >= Self::FIRST_ATTACHED
    }
}

/// The position of a step: its operation, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct StepPosition {
    pub(crate) operation: u32,
    pub(crate) step: u32,
}

impl StepPosition {
    pub(crate) fn new(operation: usize, step: usize) -> Self {
        let fit = |number: usize| u32::try_from(number).expect("a program has fewer steps");
        Self { operation: fit(operation), step: fit(step) }
    }

    pub(crate) fn at(self, step: usize) -> Self {
        Self { step: u32::try_from(step).expect("a program has fewer steps"), ..self }
    }

    pub(crate) fn next(self) -> Self {
        Self { step: self.step + 1, ..self }
    }
}

/// A call: the process that made it, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct CallId {
    pub(crate) origin: ProcessNumber,
    pub(crate) number: u64,
}

impl CallId {
    /// The id for messages that belong to no call.
    pub(crate) fn none(origin: ProcessNumber) -> Self {
        Self { origin, number: u64::MAX }
    }
}

/// A split under way: the thread that splits, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct SplitId {
    pub(crate) thread: ThreadNumber,
    pub(crate) number: u64,
}

/// A merge under way. Each process numbers the splits of its own threads, so the call, which names
/// the process, is part of the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MergeId {
    pub(crate) call: CallId,
    pub(crate) split: SplitId,
}

/// A map with keys that the program assigns itself, so that no attacker can make them collide.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// A fast hash, good enough for consecutive numbers.
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
