//! Parallel files: spread over many disks and machines, shared by many processes.
//!
//! A [`Cluster`] holds the files. [`Cluster::connect`] and [`Cluster::from_env`] reach a running
//! cluster; [`Cluster::embedded`] runs one inside this process, without configuration. A [`File`]
//! is an open file: threads read and write it at explicit offsets, or through
//! [`Read`](std::io::Read), [`Write`](std::io::Write) and [`Seek`](std::io::Seek) with the file's
//! own pointer. Calls block; a call whose name begins with `start_` returns a [`Pending`] instead.
//!
//! A [`Job`] is the processes that work together. [`Job::files`] gives the files of a cluster that
//! they have open together, each in a [`Mode`]; memory, cached files and record files come from the
//! job itself and need no cluster.
//!
//! Guarantees:
//! - A write that has returned survives the death of any Pario process; after
//!   [`sync`](File::sync) or [`close`](File::close) it survives a power loss.
//! - A read sees every write, of any process, that had returned before the read began. Clients
//!   cache nothing.
//! - A node that dies fails the calls that need it, and no others. When it runs again, its files
//!   are available again.
//! - A file that is deleted while it is open can be used until it is closed.
//!
//! What it is not: it keeps no copies of data on other disks. Two writes that overlap in time and
//! place are applied in any order, piece by piece, unless the writers lock the bytes
//! ([`File::lock`]).
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let cluster = pario::Cluster::embedded(dir.path())?;
//! cluster.make_directory("/runs")?;
//!
//! let file = cluster.create("/runs/result")?;
//! file.write_at(b"hello", 1 << 20)?; // the hole before it reads as zeros and takes no space
//! let pending = file.start_write_at(vec![7; 1 << 20], 2 << 20)?; // the disks work ...
//! let next: u64 = (0..1000).sum(); // ... while we compute
//! pending.wait()?;
//! file.close()?;
//!
//! let mut bytes = [0; 5];
//! cluster.open("/runs/result")?.read_exact_at(&mut bytes, 1 << 20)?;
//! assert_eq!(&bytes, b"hello");
//! for entry in cluster.list("/runs")? {
//!     println!("{}", entry?.name);
//! }
//! # assert_eq!(next, 499_500);
//! # Ok(())
//! # }
//! ```
//!
//! Modules: [`cached`] holds whole files in the memory of a job, [`memory`] the types of that
//! memory, [`records`] record files, [`operation`] operations that nodes run on extents, [`status`]
//! the state of a cluster and its diagnosis.

mod address;
pub mod cached;
mod cluster;
mod connection;
mod error;
mod file;
#[doc(hidden)]
pub mod fork;
mod host;
mod job;
mod key;
mod listing;
pub mod memory;
mod metadata;
mod names;
mod open;
mod pending;
mod process;
mod protocol;
mod running;
#[doc(hidden)]
pub mod simulation;
pub mod status;
mod unanswered;

pub use cached::{CachedFile, CachedFileSource, CachedOptions};
pub use cluster::{Cluster, ClusterOptions, FileSystemId};
pub use error::{Error, ErrorKind};
pub use file::{CompactedDisk, Extent, Extents, File, FileContent};
pub use host::DEFAULT_PORT;
pub use job::{Job, JobFiles, JobOptions, JobRecords, SharedFile, SharedOpenOptions, ShownRequest};
pub use key::{create_key_file, user_key_file};
pub use listing::{ListedEntry, Listing};
pub use metadata::Metadata;
pub use names::RightsChanged;
pub use open::OpenOptions;
pub use pario_operation as operation;
pub use pario_proto::{
    Access, CallKind, CollectiveError, DEFAULT_UNIT_BYTES, DiskId, ExtentIndex, ExtentMeasure,
    ExtentPlacement, Failure, FileKind, FilePath, FileRecord, JOB_SIZE_LIMIT, Layout, LockKind,
    Member, Mode, PathError, Removal, SubfileIndex, SubfileMeasure,
};
pub use pario_records as records;
#[cfg(feature = "embedded")]
pub use pario_server::MissingNamespace;
pub use pending::Pending;
pub use process::{Process, ProcessCall, ProcessReport, ProcessStopper};
