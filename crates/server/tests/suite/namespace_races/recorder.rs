//! A store that records the position of each call in the order of all calls.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pario_server::metadata::{
    CommitCallback, KeyValue, MetadataError, MetadataStore, Revision, Snapshot, Transaction,
    TransactionBody, Verdict,
};

/// The position of a call: a call that changed something comes before the calls that saw the change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trace {
    pub revision: Revision,
    pub is_only_looking: bool,
}

thread_local! {
    static LAST: Cell<Trace> = const { Cell::new(Trace { revision: Revision(0), is_only_looking: true }) };
}

/// Returns the position of the last call that was done on this thread.
pub fn last_trace() -> Trace {
    LAST.get()
}

pub struct Recorder(pub Arc<dyn MetadataStore>);

impl MetadataStore for Recorder {
    fn submit(&self, mut body: TransactionBody, done: CommitCallback) {
        let has_changed = Arc::new(AtomicBool::new(false));
        let note = Arc::clone(&has_changed);
        let recorded = move |transaction: &mut dyn Transaction| {
            let mut watched = Watched { transaction, has_changed: false };
            let verdict = body(&mut watched);
            note.store(verdict == Verdict::Commit && watched.has_changed, Ordering::SeqCst);
            verdict
        };
        let done = move |outcome: Result<Revision, MetadataError>| {
            let revision = *outcome.as_ref().unwrap();
            LAST.set(Trace { revision, is_only_looking: !has_changed.load(Ordering::SeqCst) });
            done(outcome);
        };
        self.0.submit(Box::new(recorded), Box::new(done));
    }

    fn read(&self, body: &mut dyn FnMut(&dyn Snapshot)) -> Result<(), MetadataError> {
        self.0.read(&mut |state| {
            LAST.set(Trace { revision: state.revision(), is_only_looking: true });
            body(state);
        })
    }
}

/// A transaction that records whether it changes something.
struct Watched<'a> {
    transaction: &'a mut dyn Transaction,
    has_changed: bool,
}

impl Snapshot for Watched<'_> {
    fn revision(&self) -> Revision {
        self.transaction.revision()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, MetadataError> {
        self.transaction.get(key)
    }

    fn range(
        &self,
        from: &[u8],
        until: &[u8],
        limit: usize,
    ) -> Result<Vec<KeyValue>, MetadataError> {
        self.transaction.range(from, until, limit)
    }
}

impl Transaction for Watched<'_> {
    fn put(&mut self, key: &[u8], value: Vec<u8>) {
        self.has_changed = true;
        self.transaction.put(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.has_changed = true;
        self.transaction.delete(key);
    }
}
