//! The tree of names: directories, files, their owners and permissions.
//!
//! [`Namespace`] is the tree, kept in a [`MetadataStore`](crate::metadata::MetadataStore). Every
//! change is one transaction: any number of callers may change the same names at once, and the
//! outcome equals some order of their calls.
//!
//! It is deliberately not: a place for the content or the size of files, for open files, or for
//! subfiles. A file that is removed leaves its record among the *doomed*, until whoever removes
//! its subfiles from the disks says that they are gone.
//!
//! What is stored, with ids as sixteen bytes, the highest first:
//!
//! | key | value |
//! | --- | --- |
//! | `e` directory name | the id of what the name means |
//! | `n` id | the record, and where it is in the tree |
//! | `x` id | the record of a file that is doomed |
//! | `o` id | nothing: the file's description is owed to some disk |
//! | `p` id | how often the file was renamed; missing if never |
//! | `u` | the last file that was described, while all are described after an upgrade |
//! | `d` uuid | the number of a disk |
//! | `r` grant epoch, id | the first valid rights version of a file; the highest one of a deleted file |
//! | `c` name | a counter |
//!
//! Invariants, which [`Namespace::problems`] checks:
//! - every entry has a record that names the entry; every record but the root's has its entry;
//! - a doomed file has no entry;
//! - the record of a directory counts its entries. Everybody who changes an entry reads and writes
//!   the record of its directory, so that a store which compares keys that were read finds every
//!   conflict without looking at ranges.
//!
//! ```
//! use std::sync::{Arc, mpsc};
//! use pario_proto::{Access, FilePath, Identity};
//! use pario_server::metadata::Memory;
//! use pario_server::namespace::{Clock, Namespace};
//!
//! let owner = Identity { uid: 1000, gids: vec![1000] };
//! let names = Namespace::open(Arc::new(Memory::new()), "n0", &owner, Clock::system())?;
//! let path = FilePath::new("/runs")?;
//! let (send, receive) = mpsc::channel();
//! names.make_directory(owner.clone(), path.clone(), 0o750, move |result| {
//!     send.send(result).unwrap()
//! });
//! let made = receive.recv()??;
//! assert_eq!(names.lookup(&owner, &path, Access::LOOK)?, made);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod change;
mod check;
mod clock;
mod disks;
mod doomed;
mod entries;
mod grant_epochs;
mod handle;
mod key;
mod many;
mod owed;
mod permission;
mod reading;
mod recovery;
mod rename;
mod rights;
mod times;
mod tree;

pub use self::clock::Clock;
pub use self::doomed::SyncMark;
pub use self::entries::Created;
pub use self::handle::Namespace;
pub use self::rename::Renamed;
pub use self::rights::ChangedRights;
