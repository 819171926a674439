//! A metadata store in memory: transactions run in the threads that submit them, and are run
//! again when they meet.
//!
//! It keeps exactly the promises of the trait and no others: ranges are not checked, and a
//! transaction works on the state at its beginning while others go on. So what is right here is
//! right on a store of several processes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;

use super::error::MetadataError;
use super::overlay::Overlay;
use super::store::{Done, KeyValue, MetadataStore, Revision, Snapshot, Verdict, Work};

/// A metadata store in memory.
pub struct Memory {
    state: Mutex<State>,
    hook: Option<Box<dyn Fn(MemoryStep) -> MemoryTurn + Send + Sync>>,
}

/// What a store in memory is about to do, told to the hook of [`Memory::with_hook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryStep {
    /// A transaction or a read takes the state that it will see.
    Begin,
    /// A run of a transaction has ended and shall take effect.
    Commit,
    /// Somebody is told what became of a transaction.
    Done,
}

/// What the hook of [`Memory::with_hook`] wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryTurn {
    /// Nothing special.
    Go,
    /// The transaction is run again, as if somebody else had been faster. Only of
    /// [`MemoryStep::Commit`].
    Conflict,
}

#[derive(Clone, Default)]
struct State {
    pairs: Arc<BTreeMap<Vec<u8>, Versioned>>,
    revision: u64,
}

/// A value, and the revision that gave it to its key.
type Versioned = (Vec<u8>, u64);

impl Memory {
    /// An empty store.
    pub fn new() -> Memory {
        Memory { state: Mutex::default(), hook: None }
    }

    /// An empty store that asks before each step. The hook is run in the thread that makes the
    /// step, without locks: it may wait, so that threads go on in the order that a test wants.
    pub fn with_hook(hook: impl Fn(MemoryStep) -> MemoryTurn + Send + Sync + 'static) -> Memory {
        Memory { state: Mutex::default(), hook: Some(Box::new(hook)) }
    }

    fn step(&self, step: MemoryStep) -> MemoryTurn {
        self.hook.as_ref().map_or(MemoryTurn::Go, |hook| hook(step))
    }

    fn begin(&self) -> State {
        self.step(MemoryStep::Begin);
        self.state.lock().clone()
    }

    /// One run; nothing if it must be run again.
    fn run(&self, work: &mut Work) -> Option<Revision> {
        let seen = self.begin();
        let mut overlay = Overlay::new(&seen);
        let verdict = work(&mut overlay);
        let effects = overlay.into_effects();
        if self.step(MemoryStep::Commit) == MemoryTurn::Conflict {
            return None;
        }
        if verdict == Verdict::Abort || effects.changes.is_empty() {
            return Some(seen.revision());
        }
        let mut state = self.state.lock();
        let revision_of = |state: &State, key: &Vec<u8>| state.pairs.get(key).map(|pair| pair.1);
        if effects.read.iter().any(|key| revision_of(&state, key) != revision_of(&seen, key)) {
            return None;
        }
        drop(seen);
        state.revision += 1;
        let revision = state.revision;
        // A copy is made only while others still look at the old state.
        let pairs = Arc::make_mut(&mut state.pairs);
        for (key, value) in effects.changes {
            match value {
                Some(value) => pairs.insert(key, (value, revision)),
                None => pairs.remove(&key),
            };
        }
        Some(Revision(revision))
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

impl MetadataStore for Memory {
    fn submit(&self, mut work: Work, done: Done) {
        let revision = loop {
            if let Some(revision) = self.run(&mut work) {
                break revision;
            }
        };
        drop(work);
        self.step(MemoryStep::Done);
        done(Ok(revision));
    }

    fn read(&self, work: &mut dyn FnMut(&dyn Snapshot)) -> Result<(), MetadataError> {
        work(&self.begin());
        Ok(())
    }
}

impl Snapshot for State {
    fn revision(&self) -> Revision {
        Revision(self.revision)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, MetadataError> {
        Ok(self.pairs.get(key).map(|(value, _)| value.clone()))
    }

    fn range(
        &self,
        from: &[u8],
        until: &[u8],
        limit: usize,
    ) -> Result<Vec<KeyValue>, MetadataError> {
        if from >= until {
            return Ok(Vec::new());
        }
        let bounds = (Bound::Included(from), Bound::Excluded(until));
        let pairs = self.pairs.range::<[u8], _>(bounds).take(limit);
        Ok(pairs.map(|(key, (value, _))| (key.clone(), value.clone())).collect())
    }
}
