//! An ordered map of bytes to bytes that changes by transactions and survives everything.
//!
//! [`MetadataStore`] is what the namespace is kept in. It does not assume one process: a
//! transaction is a closure that may be run again when somebody else was faster. [`Redb`] keeps
//! the map in one file of this machine, [`Memory`] in memory.
//!
//! It is deliberately not: a place for data of files, or for anything that changes with every
//! read or write.
//!
//! ```
//! use std::sync::mpsc;
//! use pario_server::metadata::{Memory, MetadataStore, Verdict};
//!
//! let store = Memory::new();
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
mod engine;
mod error;
mod file;
mod memory;
mod overlay;
mod store;

pub use self::error::MetadataError;
pub use self::file::Redb;
pub use self::memory::{Memory, MemoryStep, MemoryTurn};
pub use self::store::{
    Done, KeyValue, MetadataStore, Revision, Snapshot, Transaction, Verdict, Work,
};
