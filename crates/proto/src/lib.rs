//! What two sides of Pario must agree on byte for byte.
//!
//! This crate has the *layouts* of parallel files: which subfile holds a byte or a tile, and where
//! in it. Client, server and the tool that rebuilds a namespace from bare disks compute it with the
//! same code, from the same stored bytes. It also has the messages between clients and nodes (a
//! [`RequestMessage`] with a [`Request`], a [`ReplyMessage`] with a [`Reply`] or a [`Failure`]), and
//! the rules by which the ranks of a job share a file: [`Mode`], [`Course`] and
//! [`CoordinationTable`].
//!
//! It deliberately has no I/O, threads, clocks or configuration. Everything here is arithmetic on
//! values that were checked when they were made. A call returns at once, allocates at most a list with
//! an entry per subfile, and knows neither the content of a file nor whether a disk exists.
//!
//! The two main types are [`Striped`], bytes dealt out to the disks in units, and [`Tiles`], images
//! and volumes cut into extents; [`Layout`] is one of them and can be stored.
//!
//! Invariants: all sizes have 64 bits. A value that does not fit is an error, never a wrap and
//! never a panic.
//!
//! ```
//! use pario_proto::{ByteRange, DiskId, Disks, Layout, Striped};
//!
//! // A file in units of 64 KiB over four disks.
//! let disks = Disks::new((0..4).map(DiskId))?;
//! let striped = Striped::new(65_536, disks)?;
//!
//! // What does a write of 1 MiB at byte 100,000 mean for each disk?
//! for run in striped.runs(ByteRange::new(100_000, 1 << 20)?) {
//!     let disk = striped.disks().disk_of(run.subfile()).unwrap();
//!     println!("{disk}: {} bytes at {}", run.len_bytes(), run.offset_bytes());
//!     for segment in run.segments() {
//!         let (from, len) = (segment.buffer_offset_bytes, segment.len_bytes);
//!         println!("  {len} bytes of the buffer from {from} on");
//!     }
//! }
//!
//! // The layout is stored with each subfile; a client that opens the file reads it back.
//! let stored = Layout::from(striped.clone()).encode();
//! assert_eq!(Layout::decode(&stored)?, Layout::Striped(striped));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod cluster;
mod ids;
mod layout;
mod modes;

pub use cluster::atomic::{
    AtomicCall, AtomicOutcome, AtomicRequest, AtomicWait, DELEGATION_LEASE_MS, OPENER_CLAIMS_LIMIT,
    home_node,
};
pub use cluster::check::{
    CheckDepth, CheckReport, Finding, FindingKind, FoundDescription, FoundRights, FoundSubfile,
};
pub use cluster::compaction::{CompactionCursor, CompactionProgress};
pub use cluster::failure::Failure;
pub use cluster::grant::{
    Access, DescriptorAnswer, DescriptorRequest, GRANT_LIFETIME_EPOCHS, Grant, LEASE_TABLE_BYTES,
    ORPHAN_RIGHTS_VERSION, REMOVED_RIGHTS_VERSION, Revocation, lease_slot,
};
pub use cluster::job::{
    CollectiveOpen, CreationOptions, JOB_NAME_LIMIT_BYTES, JOB_SIZE_LIMIT, JobCall, JobMemoryId,
    JobOpenCall, Member, ProcessName, SharedCall, SharedFileId, SharedRequest, TableLocation,
    TeamCall, TeamPlace,
};
pub use cluster::job_status::{
    JobStatus, LastCall, MissingRank, SharedFileStatus, ShownRank, StartedRequestStatus,
    WaitStatus, WaitTarget,
};
pub use cluster::limits::{
    EXTENTS_LISTED, FILES_LIMIT, GROUPS_LIMIT, HOLDERS_SHOWN, LOCK_WAITS_SHOWN, MISSING_SHOWN,
    NAMES_LISTED, OPEN_TEXT_LIMIT_BYTES, RANKS_SHOWN, ROUNDS_LIMIT, ROUNDS_SHOWN, SUBFILES_LISTED,
};
pub use cluster::lock::{
    HeldLock, LOCK_END, LOCKS_LIMIT, LockCall, LockKind, LockOutcome, LockRange, LockRequest,
    LockWait,
};
pub use cluster::map::{ClusterMap, DiskInfo, NodeInfo};
pub use cluster::note::{NOTE_EXTENSION, NOTES_DIRECTORY, NodeNote};
pub use cluster::path::{FilePath, PathError};
pub use cluster::process::{
    CutPiece, ExtentSelection, OUTBOX_LIMIT_BYTES, ProcessProgress, ProcessRequest, ProcessTarget,
    ProcessUpdate, ProcessWork, SELECTION_LIMIT, WorkSpan,
};
pub use cluster::record::{DirectoryEntry, FileKind, FileRecord, Identity};
pub use cluster::reply::{ExtentMeasure, KnownFile, Opened, Reply, ReplyMessage, SubfileMeasure};
pub use cluster::request::{
    CheckRequest, DiskChoice, LayoutChoice, NODE_PROTOCOL, NamespaceRequest, NewFile,
    PROTOCOL_VERSION, PeerKind, PeerRequest, RANGES_LIMIT, REQUEST_PORT, Removal, Request,
    RequestMessage, SubfileLocation, SubfileRange, TOKEN_LIMIT_BYTES, TRANSFER_LIMIT_BYTES,
};
pub use cluster::status::{ClientStatus, DiskStatus, NodeStatus, PeerStatus, StorageThreadStatus};
pub use cluster::traffic::{
    CELL_COUNTERS, TRAFFIC_DISKS_LIMIT, TRAFFIC_LANES, Traffic, TrafficAnswer,
};
pub use ids::{DiskId, ExtentIndex, FileId, SubfileIndex};
pub use layout::declustering::{Declustering, DeclusteringError};
pub use layout::disks::{Disks, DisksError};
pub use layout::encoding::{DecodeError, Layout};
pub use layout::extents::Extents;
pub use layout::geometry::{PixelPosition, PixelWindow, Shape, TilePosition, TileWindow};
pub use layout::range::{ByteRange, RangeError};
pub use layout::striped::{
    BufferSegment, BufferSegments, BytePlacement, DEFAULT_UNIT_BYTES, Striped, StripedError,
    SubfileRun, SubfileRuns,
};
pub use layout::tiles::{ExtentPlacement, OutsideError, Tiles, TilesError, WindowTiles};
pub use modes::call::{
    Call, CallOutcome, Disagreement, FAILED_CALL_LIMIT_BYTES, OPEN_REPLY_LIMIT_BYTES, RankList,
};
pub use modes::collective_error::CollectiveError;
pub use modes::coordination_table::{
    BroadcastChunk, CallArrival, CoordinationTable, RecordedCall, RecordedRequest, TableWait,
};
pub use modes::course::{Course, RoundDecision, check_failed};
pub use modes::mode::{AccessOrder, Axes, CallKind, Mode, Pointer, UnknownMode, View};
pub use modes::position::{
    AccessRange, Interleaved, OFFSET_LIMIT, OutOfRange, Position, Seek, Transfer,
};
pub use modes::waiting::{BytesClaim, BytesUse, BytesUser, BytesWait, WaitCause};
