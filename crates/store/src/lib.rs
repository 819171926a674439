//! The store of one disk.
//!
//! A disk is a directory, best on a device of its own. It holds *subfiles*, the parts of parallel
//! files that lie on this disk, of two kinds: [`FlatFile`]s hold bytes at offsets, read and written
//! in place; [`ExtentFile`]s hold extents of any size under indices, each with a header and a body
//! that are read with one I/O and replaced as a whole. Calls wait in the thread that makes them; a
//! [`Queue`] has many requests under way on many disks from one thread.
//!
//! What can be relied on:
//! - An acknowledged write survives the death of the process; after a sync or close was
//!   acknowledged it survives a power loss.
//! - An extent is old or new, never torn, and its checksum is verified on every read.
//! - After a failed sync a subfile takes no more changes until it is opened again.
//!
//! The store knows no other disks, no paths and no users, and does not look into the layouts it
//! keeps. It does not prefetch: who knows what comes next submits it.
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
mod checksum;
mod description;
mod descriptions;
mod disk;
mod error;
mod extents;
mod flat;
mod index;
mod keeper;
mod mark;
pub mod medium;
mod poison;
mod queue;
mod subfile;
mod sync_many;
mod upgrade;

pub use buffer::{BUFFER_ALIGNMENT, Buffer, BufferPool};
pub use cache::{CacheStat, ExtentCache};
pub use description::{DESCRIPTION_LIMIT_BYTES, Description, Rights};
pub use disk::{Disk, DiskOptions, FoundSubfile, NewSubfile};
pub use error::StoreError;
pub use extents::{
    AtHand, Caching, CheckDepth, EXTENT_LIMIT_BYTES, Extent, ExtentBuffer, ExtentFile, ExtentInfo,
    ExtentStat, MAX_EXTENT_INDEX,
};
pub use flat::{CachedPart, FlatFile, MAX_FLAT_LEN};
pub use queue::{Answer, Completion, EngineChoice, Queue, QueueOptions, Request, Waker};
pub use subfile::{Kind, Role, SubfileId};
