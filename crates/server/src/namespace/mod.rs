//! The namespace: the tree of directories and files, with their owners and permissions.
//!
//! [`Namespace`] keeps the tree in a [`MetadataStore`](crate::metadata::MetadataStore). Every change
//! is one transaction: any number of callers may change the same names concurrently, and the result
//! equals some serial order of their calls.
//!
//! It deliberately holds no file content, no file sizes, no open files and no subfiles. Removing a
//! file leaves its record as a *tombstone* until the subfile reaper has removed the subfiles from
//! the disks.
//!
//! Keys and values; ids are sixteen bytes, big endian:
//!
//! | key | value |
//! | --- | --- |
//! | `e` directory name | the id of the file or directory |
//! | `n` id | the record, and its position in the tree |
//! | `x` id | a tombstone: the record of a removed file |
//! | `o` id | empty: some disk has not acknowledged the file's description |
//! | `p` id | the number of renames of the file; missing if none |
//! | `u` | the last file described while an upgrade describes all files |
//! | `d` uuid | the number of a disk |
//! | `r` grant epoch, id | the first valid rights version of a file; the highest one if it was deleted |
//! | `m` name | the record of a module |
//! | `b` name | the bytes of a module |
//! | `c` name | a counter |
//!
//! Invariants, which [`Namespace::problems`] checks:
//! - every entry has a record that names the entry; every record but the root's has its entry;
//! - a tombstone has no entry;
//! - the record of a directory counts its entries. A transaction that changes an entry reads and
//!   writes the record of its directory, so a store that compares only the keys that were read
//!   detects every conflict without looking at ranges.
//!
//! ```
//! use std::sync::{Arc, mpsc};
//! use pario_proto::{Access, FilePath, Identity};
//! use pario_server::metadata::MemoryStore;
//! use pario_server::namespace::{Namespace, WallClock};
//!
//! let owner = Identity { uid: 1000, gids: vec![1000] };
//! let store = Arc::new(MemoryStore::new());
//! let names = Namespace::open(store, "n0", &owner, WallClock::system())?;
//! let path = FilePath::new("/runs")?;
//! let (send, receive) = mpsc::channel();
//! names.make_directory(owner.clone(), path.clone(), 0o750, move |result| {
//!     send.send(result).unwrap()
//! });
//! let created = receive.recv()??;
//! assert_eq!(names.lookup(&owner, &path, Access::LOOK)?, created);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attributes;
mod consistency;
mod disks;
mod entries;
mod first_synced;
mod grant_epochs;
mod handle;
mod key;
mod lookup;
mod modules;
mod paths;
mod pending_descriptions;
mod permission;
mod rename;
mod restore;
mod tombstones;
mod transaction;
mod tree;
mod wall_clock;

pub use self::attributes::{RightsOutcome, RightsUpdate};
pub use self::entries::CreateOutcome;
pub use self::first_synced::SyncMark;
pub use self::handle::Namespace;
pub use self::modules::NewModule;
pub use self::rename::RenameOutcome;
pub use self::wall_clock::WallClock;
