//! The store of one disk.
mod buffer;
mod cache;
mod checksum;
mod disk;
mod error;
mod extents;
mod flat;
mod index;
mod keeper;
pub mod medium;
mod queue;
mod subfile;

pub use buffer::{BUFFER_ALIGNMENT, Buffer, BufferPool};
pub use cache::{CacheStat, ExtentCache};
pub use disk::{Disk, DiskOptions, FoundSubfile, NewSubfile};
pub use error::StoreError;
pub use extents::{
    Caching, CheckDepth, EXTENT_LIMIT_BYTES, Extent, ExtentBuffer, ExtentFile, ExtentInfo,
    ExtentStat, MAX_EXTENT_INDEX,
};
pub use flat::{FlatFile, MAX_FLAT_LEN};
pub use queue::{Answer, Completion, EngineChoice, Queue, QueueOptions, Request, Waker};
pub use subfile::{DESCRIPTION_LIMIT_BYTES, Description, Kind, Role, SubfileId};
