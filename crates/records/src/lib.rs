//! Record files: records spread over local files of the processes of a job, one for each, which all
//! read, write and add to without anybody's help.
//!
//! A [`RecordFile`] has one part for each process that has made it: a plain local file, on whatever
//! disk this process has chosen. Processes of one machine use their files directly; those of other
//! machines ask the data server of the machine (`crates/team`). A record is a sequence of bytes with a number; each part holds one
//! block of it, or nothing. Where the blocks are is kept in the parts themselves, durably, so that a
//! later job can open the file, with any number of processes.
//!
//! What can be relied on:
//! - A record that was made is there after a crash and after a power failure; it is there on all
//!   parts or on none. The same is true of a record that was destroyed.
//! - What was written survives the death of any process, and after [`RecordFile::sync`] or
//!   [`RecordFile::close`] a power failure.
//! - A read sees every write that had returned before, whoever wrote.
//! - Two accumulations never lose anything. Writes that overlap in time and place may mix.
//!
//! What it is not: it keeps no copies, and a part that is lost is lost.
//!
//! The walk of an access is told in docs/memory.md, the bytes of a part in docs/record-format.md.
//!
//! ```
//! use pario_records::RecordFile;
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("run7");
//! let team = pario_team::Team::meet("run7", 1, 0)?; // the only rank
//! let file = RecordFile::open_or_create(&team, &path)?; // the part of this rank: run7.part0
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
mod adding;
mod agree;
mod changing;
mod error;
mod far;
mod file;
mod later;
mod memory;
mod moving;
mod opening;
mod order;
mod owner;
mod part;
mod record;
mod request;
mod search;
mod served;
mod workers;

pub use error::RecordError;
pub use file::RecordFile;
pub use part::{Block, PartMap, map_of_part};
pub use record::{Holding, NewRecord, RecordId, RecordInfo};
pub use request::Pending;
pub use workers::start_workers;
