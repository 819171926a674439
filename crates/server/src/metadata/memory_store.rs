//! A metadata store in memory. Transactions run on the threads that submit them, and run again when
//! they conflict.
//!
//! It keeps exactly the promises of the trait: it does not check ranges, and a transaction works on
//! the state at its beginning while others continue. So code that is correct here is correct on a
//! store that several processes share.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;

use super::error::MetadataError;
use super::overlay::Overlay;
use super::store::{
    CommitCallback, KeyValue, MetadataStore, Revision, Snapshot, TransactionBody, Verdict,
};

/// A metadata store in memory.
pub struct MemoryStore {
    state: Mutex<MemoryStoreState>,
    hook: Option<Box<dyn Fn(StoreStep) -> StepDecision + Send + Sync>>,
}

/// The next step of a store in memory, for the hook of [`MemoryStore::with_hook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreStep {
    /// A transaction or a read takes its snapshot.
    Begin,
    /// A run of a transaction has ended and is about to take effect.
    Commit,
    /// A transaction is about to call `done`.
    Done,
}

/// The decision of the hook of [`MemoryStore::with_hook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepDecision {
    /// The step happens.
    Go,
    /// The transaction runs again, as if another one had committed first. Only for
    /// [`StoreStep::Commit`].
    Conflict,
}

#[derive(Clone, Default)]
struct MemoryStoreState {
    pairs: Arc<BTreeMap<Vec<u8>, Versioned>>,
    revision: u64,
}

/// A value, and the revision that has set it.
type Versioned = (Vec<u8>, u64);

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> MemoryStore {
        MemoryStore { state: Mutex::default(), hook: None }
    }

    /// Creates an empty store that calls a hook before each step, on the thread that makes the step
    /// and without locks. The hook may block, so a test can order the steps of its threads.
    pub fn with_hook(
        hook: impl Fn(StoreStep) -> StepDecision + Send + Sync + 'static,
    ) -> MemoryStore {
        MemoryStore { state: Mutex::default(), hook: Some(Box::new(hook)) }
    }

    fn step(&self, step: StoreStep) -> StepDecision {
        self.hook.as_ref().map_or(StepDecision::Go, |hook| hook(step))
    }

    fn begin(&self) -> MemoryStoreState {
        self.step(StoreStep::Begin);
        self.state.lock().clone()
    }

    /// Runs a transaction once. Returns `None` if it must run again.
    fn run(&self, body: &mut TransactionBody) -> Option<Revision> {
        let seen = self.begin();
        let mut overlay = Overlay::new(&seen);
        let verdict = body(&mut overlay);
        let effects = overlay.into_effects();
        if self.step(StoreStep::Commit) == StepDecision::Conflict {
            return None;
        }
        if verdict == Verdict::Abort || effects.changes.is_empty() {
            return Some(seen.revision());
        }
        let mut state = self.state.lock();
        let revision_of =
            |state: &MemoryStoreState, key: &Vec<u8>| state.pairs.get(key).map(|pair| pair.1);
        if effects.read.iter().any(|key| revision_of(&state, key) != revision_of(&seen, key)) {
            return None;
        }
        drop(seen);
        state.revision += 1;
        let revision = state.revision;
        // This copies the map only while a reader still holds the old state.
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

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl MetadataStore for MemoryStore {
    fn submit(&self, mut body: TransactionBody, done: CommitCallback) {
        let revision = loop {
            if let Some(revision) = self.run(&mut body) {
                break revision;
            }
        };
        drop(body);
        self.step(StoreStep::Done);
        done(Ok(revision));
    }

    fn read(&self, body: &mut dyn FnMut(&dyn Snapshot)) -> Result<(), MetadataError> {
        body(&self.begin());
        Ok(())
    }
}

impl Snapshot for MemoryStoreState {
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
