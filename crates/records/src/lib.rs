//! Record files: numbered records over the local files of a job's processes. Every process reads,
//! writes and adds to all records without the help of another process.
//!
//! A [`RecordFile`] has one **part** for each process that created it: a plain local file on a disk
//! that this process has chosen. Processes of one machine open each other's parts; processes of other
//! machines send requests to the data server of that machine (`crates/team`). A **record** is a
//! numbered sequence of bytes. Each part holds one **block** of it, possibly an empty one. The
//! **map** in each part says durably where the blocks are, so that a later job with any number of
//! processes can open the file.
//!
//! Guarantees:
//! - A created record survives crashes and power failures; it is in all parts or in none. The same
//!   holds for a destroyed record.
//! - Written bytes survive the death of any process, and after [`RecordFile::sync`] or
//!   [`RecordFile::close`] a power failure.
//! - A read sees every write, of any rank, that returned before the read began.
//! - Concurrent accumulations never lose an update. Concurrent writes to the same bytes may mix.
//!
//! What it is not: a record file keeps no copies. A lost part is lost.
//!
//! docs/memory.md explains the path of an access, docs/record-format.md the bytes of a part.
//!
//! ```
//! use pario_records::RecordFile;
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("run7");
//! let team = pario_team::Team::meet("run7", 1, 0)?; // the only rank
//! let file = RecordFile::open_or_create(&team, &path)?; // this rank's part: run7.part0
//! let grid = file.create_record(8 * 1_000_000)?; // a million doubles over all disks
//! if team.rank() == 0 {
//!     file.write(&1.5_f64.to_ne_bytes(), grid, 800..808)?;
//! }
//! file.accumulate(&[0.5_f64], 1.0, grid, 800..808)?;
//! file.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod accumulate;
mod caller_memory;
mod collective;
mod create_destroy;
mod deferred;
mod error;
mod file;
mod locked_add;
mod open_parts;
mod options;
mod part;
mod part_owner;
mod part_request;
mod part_search;
mod part_server;
mod read_cache;
mod record;
mod remote_transfer;
mod request;
mod transfer;
mod worker_pool;

pub use error::RecordError;
pub use file::RecordFile;
pub use options::RecordOptions;
pub use part::{PartMap, RecordBlock, map_of_part};
pub use read_cache::CacheStatistics;
pub use record::{BlockLocation, NewRecord, RecordId, RecordInfo};
pub use request::Pending;
pub use worker_pool::start_workers;
