//! Metadata stores: durable, ordered maps of bytes to bytes that change by transactions.
//!
//! The namespace lies in a [`MetadataStore`]. The trait does not assume one process: a transaction is
//! a closure, and the store runs it again when a concurrent one has committed first. [`RedbStore`]
//! keeps the map in one file of this machine, [`MemoryStore`] in memory.
//!
//! It deliberately holds no file data, and nothing that changes with every read or write.
//!
//! ```
//! use std::sync::mpsc;
//! use pario_server::metadata::{MemoryStore, MetadataStore, Verdict};
//!
//! let store = MemoryStore::new();
//! let (send, receive) = mpsc::channel();
//! store.submit(
//!     Box::new(|transaction| {
//!         transaction.put(b"colour", b"blue".to_vec());
//!         Verdict::Commit
//!     }),
//!     Box::new(move |outcome| send.send(outcome).unwrap()),
//! );
//! receive.recv().unwrap()?;
//! store.read(&mut |state| assert_eq!(state.get(b"colour").unwrap().unwrap(), b"blue"))?;
//! # Ok::<(), pario_server::metadata::MetadataError>(())
//! ```

#[cfg(test)]
mod contract;
mod error;
mod group_commit;
mod memory_store;
mod overlay;
mod redb_store;
mod store;

pub use self::error::MetadataError;
pub use self::memory_store::{MemoryStore, StepDecision, StoreStep};
pub use self::redb_store::RedbStore;
pub use self::store::{
    CommitCallback, KeyValue, MetadataStore, Revision, Snapshot, Transaction, TransactionBody,
    Verdict,
};
