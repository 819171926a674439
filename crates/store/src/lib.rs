//! The store of one disk.
//!
//! A disk is a directory, best on a separate device. It holds *subfiles*, the parts of parallel
//! files that lie on this disk. There are two kinds. A [`FlatFile`] holds bytes at offsets, read and
//! written in place. An [`ExtentFile`] holds extents of any size under indices; each has a header
//! and a body that the store reads with one I/O and replaces as a whole. The calls of both block the
//! calling thread. A [`Queue`] keeps many requests in flight on many disks from one thread.
//!
//! Guarantees:
//! - An acknowledged write survives the death of the process. After an acknowledged sync or close
//!   it survives a power loss.
//! - An extent is old or new, never torn. The store verifies its checksum on every read.
//! - After a failed sync a subfile accepts no changes: an extent subfile until the caller opens it
//!   again, a flat subfile until [`Disk::repair_flat`] has read it.
//!
//! The store knows no other disks, no paths and no users, and does not interpret the layouts that
//! it stores. It does not prefetch extents: a caller that knows the next requests submits them.
//!
//! ```
//! # fn main() -> Result<(), pario_store::StoreError> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path();
//! use pario_store::{Disk, DiskOptions, NewSubfile, SubfileId};
//!
//! let disk = Disk::create(path, DiskOptions::default())?;
//! let tiles = disk.create_extents(NewSubfile::new(SubfileId::data(1, 0)))?;
//! for index in 0..10 {
//!     tiles.write(index, b"header", &vec![index as u8; 50_000])?;
//! }
//! tiles.delete(3)?;
//! tiles.sync()?;
//!
//! for info in tiles.list(0..=5) {
//!     let info = info?;
//!     println!("extent {}: {} bytes", info.index, info.header_len + info.body_len);
//! }
//! assert!(tiles.read(3)?.is_none());
//! assert_eq!(tiles.read(9)?.expect("written above").body()[0], 9);
//! # Ok(())
//! # }
//! ```

mod buffer;
mod cache;
mod checkpoint_worker;
mod checksum;
mod description;
mod description_store;
mod disk;
mod disk_mark;
mod error;
mod extents;
mod flat;
mod index;
pub mod medium;
mod poison;
mod queue;
mod subfile;
mod sync_many;
mod task_threads;
mod upgrade;

pub use buffer::{BUFFER_ALIGNMENT, Buffer, BufferPool};
pub use cache::{CacheStat, ExtentCache};
pub use description::{DESCRIPTION_LIMIT_BYTES, Description, Rights};
pub use disk::{Disk, DiskOptions, ListedSubfile, NewSubfile};
pub use error::StoreError;
pub use extents::{
    Caching, CheckDepth, CompactionCursor, CompactionStep, EXTENT_LIMIT_BYTES, Extent,
    ExtentBuffer, ExtentFile, ExtentInfo, ExtentPeek, ExtentStat, MAX_EXTENT_INDEX,
};
pub use flat::{CachedPart, FlatFile, MAX_FLAT_LEN};
pub use queue::{Completion, EngineChoice, Queue, QueueOptions, Reply, Request, Waker};
pub use subfile::{SubfileId, SubfileKind, SubfileRole};
pub use task_threads::{TaskLane, TaskThreads};
