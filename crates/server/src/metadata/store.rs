//! What every metadata store promises.
//!
//! Invariants:
//! - Every run of a transaction sees one state of the map, and its own changes on top of it.
//! - A transaction takes effect only if none of the keys it has read with [`Snapshot::get`] were
//!   changed by others since that state. Keys that [`Snapshot::range`] has shown are *not*
//!   checked: who must rely on a range also gets a key that everybody writes who changes it.
//! - A transaction that is aborted leaves no trace.
//! - `done` is run exactly once, after the last run of the work, and not before everything that
//!   the transaction has seen and done is durable.

use super::error::MetadataError;

/// The body of a transaction. It may be run several times; only the last run counts. It must not
/// wait for anything.
pub type Work = Box<dyn FnMut(&mut dyn Transaction) -> Verdict + Send>;

/// Told once what became of a transaction. It must not wait for another transaction of the same
/// store, but may submit one.
pub type Done = Box<dyn FnOnce(Result<Revision, MetadataError>) + Send>;

/// A key and its value.
pub type KeyValue = (Vec<u8>, Vec<u8>);

/// What a run of a transaction ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What it has done shall be.
    Commit,
    /// What it has done shall not be.
    Abort,
}

/// A state of the map: every transaction that changes something makes the next one.
///
/// A transaction that changed something comes with the state that it made, one that did not with
/// the state that it saw. So the outcome of all transactions equals that of running them one by
/// one in this order, those that changed something first among equals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// An ordered map that changes by transactions.
pub trait MetadataStore: Send + Sync {
    /// Runs a transaction; waits only when too many are under way already.
    fn submit(&self, work: Work, done: Done);

    /// Shows a durable state, which contains every transaction that is done.
    fn read(&self, work: &mut dyn FnMut(&dyn Snapshot)) -> Result<(), MetadataError>;
}

/// One state of the map.
pub trait Snapshot {
    /// Which state it is.
    fn revision(&self) -> Revision;

    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, MetadataError>;

    /// Keys from one on and before another, in order, at most so many.
    fn range(
        &self,
        from: &[u8],
        until: &[u8],
        limit: usize,
    ) -> Result<Vec<KeyValue>, MetadataError>;
}

/// A state of the map that is being changed.
pub trait Transaction: Snapshot {
    /// Gives a key a value. A key is not empty.
    fn put(&mut self, key: &[u8], value: Vec<u8>);

    /// Removes a key, if it is there.
    fn delete(&mut self, key: &[u8]);
}
