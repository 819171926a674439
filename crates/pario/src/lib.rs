//! Parallel files: spread over many disks and machines, shared by many processes.
//!
//! A [`Cluster`] is where files are: a running one ([`Cluster::connect`], [`Cluster::from_env`]), or
//! one that lives in this process ([`Cluster::embedded`]), which needs nothing to be started and
//! nothing to be configured. A [`File`] is open: it is read and written at explicit offsets by any
//! number of threads, or through [`Read`](std::io::Read), [`Write`](std::io::Write) and
//! [`Seek`](std::io::Seek) with a pointer of its own.
//!
//! What can be relied on:
//! - A write that has returned survives the death of any Pario process; after
//!   [`sync`](File::sync) or [`close`](File::close) it survives a power loss.
//! - A read sees every write that had returned before it began, whoever wrote. Nothing is cached in
//!   clients.
//! - A node that dies fails what needs it, and nothing else; when it is back, so are the files.
//! - A file that is deleted while it is open can be used until it is closed.
//!
//! What it is not: it keeps no copies of data on other disks, and two writes that overlap in time and
//! place are applied in any order, piece by piece, unless who writes locks the bytes before
//! ([`File::lock`]).
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let cluster = pario::Cluster::embedded(dir.path())?;
//! cluster.make_directory("/runs")?;
//!
//! let file = cluster.create("/runs/result")?;
//! file.write_at(b"hello", 1 << 20)?; // what lies before reads as zeros and takes no space
//! file.close()?;
//!
//! let mut bytes = [0; 5];
//! cluster.open("/runs/result")?.read_exact_at(&mut bytes, 1 << 20)?;
//! assert_eq!(&bytes, b"hello");
//! for entry in cluster.list("/runs")? {
//!     println!("{}", entry?.name);
//! }
//! # Ok(())
//! # }
//! ```

mod address;
pub mod cached;
mod cluster;
mod connection;
mod error;
mod file;
mod group;
mod listing;
mod metadata;
mod names;
mod open;
mod process;
mod protocol;
mod running;
pub mod team;
mod unanswered;

pub use cached::{CachedFile, CachedOptions};
pub use cluster::{Cluster, ClusterOptions, FileSystemId};
pub use error::{Error, ErrorKind};
pub use file::{
    CompactedDisk, Extent, Extents, File, FileContent, LockRequest, ReadRequest, WriteRequest,
};
pub use group::{Group, GroupOptions, SharedFile, SharedRead, SharedReadInto, SharedWrite};
pub use listing::{ListedEntry, Listing};
pub use metadata::Metadata;
pub use names::RightsChanged;
pub use open::OpenOptions;
pub use pario_operation as operation;
pub use pario_proto::{
    Access, ByteRange, BytesUse, BytesUser, BytesWait, Call, CheckDepth, CheckReport, CheckRequest,
    ClientStatus, ClusterMap, CollectiveError, DEFAULT_UNIT_BYTES, DiskId, DiskInfo, DiskStatus,
    ExtentIndex, ExtentMeasure, ExtentPlacement, Failure, FileKind, FilePath, FileRecord, Finding,
    FindingKind, HeldLock, Identity, JOB_SIZE_LIMIT, JobStatus, LOCK_END, LastCall, Layout,
    LockKind, LockRange, LockWait, Member, MissingRank, Mode, NodeInfo, NodeStatus, PathError,
    PeerStatus, ProcessProgress, RankList, Removal, Seek, SharedFileId, SharedFileStatus,
    SubfileIndex, SubfileMeasure, WaitCause, WaitStatus, WaitTarget,
};
pub use pario_records as records;
#[cfg(feature = "embedded")]
pub use pario_server::MissingNamespace;
pub use process::{Process, Report, Stopper, Work};
pub use running::{RunningNode, RunningNodes, running_nodes};
