//! The contract of every metadata store.
//!
//! Invariants:
//! - Every run of a transaction sees one state of the map, with its own changes on top.
//! - A transaction takes effect only if no other transaction has changed a key that it has read with
//!   [`Snapshot::get`] since that state. The store does *not* check keys that [`Snapshot::range`]
//!   has returned: a transaction that relies on a range also gets a key that every writer of the
//!   range writes.
//! - An aborted transaction leaves no trace.
//! - The store calls `done` exactly once, after the last run of the body, and only when everything
//!   that the transaction has read and written is durable.

use super::error::MetadataError;

/// The body of a transaction. The store may run it several times; only the last run counts. It must
/// not block.
pub type TransactionBody = Box<dyn FnMut(&mut dyn Transaction) -> Verdict + Send>;

/// Receives the outcome of a transaction. It must not wait for another transaction of the same
/// store, but may submit one.
pub type CommitCallback = Box<dyn FnOnce(Result<Revision, MetadataError>) + Send>;

/// A key and its value.
pub type KeyValue = (Vec<u8>, Vec<u8>);

/// The decision at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The changes take effect.
    Commit,
    /// The changes are dropped.
    Abort,
}

/// The number of a state of the map. Every transaction that changes something creates the next one.
///
/// Such a transaction reports the state that it created; a transaction without changes reports the
/// state that it saw. The outcome of all transactions equals that of running them one by one in this
/// order, those with changes first among equals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// An ordered map that changes by transactions.
pub trait MetadataStore: Send + Sync {
    /// Runs a transaction. Blocks only while too many are queued.
    fn submit(&self, body: TransactionBody, done: CommitCallback);

    /// Passes a durable state to `body`. It contains every transaction whose `done` was called.
    fn read(&self, body: &mut dyn FnMut(&dyn Snapshot)) -> Result<(), MetadataError>;
}

/// One state of the map.
pub trait Snapshot {
    /// Returns the number of the state.
    fn revision(&self) -> Revision;

    /// Returns the value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, MetadataError>;

    /// Returns the pairs with keys in `from..until`, in order, at most `limit`.
    fn range(
        &self,
        from: &[u8],
        until: &[u8],
        limit: usize,
    ) -> Result<Vec<KeyValue>, MetadataError>;
}

/// A state of the map with the changes of a transaction.
pub trait Transaction: Snapshot {
    /// Sets the value of a key. The key must not be empty.
    fn put(&mut self, key: &[u8], value: Vec<u8>);

    /// Removes a key, if it exists.
    fn delete(&mut self, key: &[u8]);
}
