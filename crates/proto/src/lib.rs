//! What two sides of Pario must agree on byte for byte.
//!
//! That is the *layout* of a parallel file: which of its subfiles holds a byte or a tile, and where
//! in it. Client, server and the tool that rebuilds a namespace from bare disks compute it with the
//! same code, from the same stored bytes. And it is what clients and nodes say to each other:
//! [`RequestMessage`]s with a [`Request`], [`ReplyMessage`]s with a [`Reply`] or a [`Failure`].
//!
//! It is deliberately not: a place for I/O, threads, clocks or configuration. Everything here is
//! arithmetic on values that were checked when they were made; it answers at once, allocates at
//! most a list with an entry per subfile, and knows neither what is in a file nor whether a disk
//! exists.
//!
//! The two main types are [`Striped`], bytes dealt out to the disks in units, and [`Tiles`], images
//! and volumes cut into extents; [`Layout`] is one of them and can be stored.
//!
//! Invariants: all sizes have 64 bits. What does not fit is an error, never a wrap and never a
//! panic.
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
//! // The layout is stored with each subfile and read back by whoever opens the file.
//! let stored = Layout::from(striped.clone()).encode();
//! assert_eq!(Layout::decode(&stored)?, Layout::Striped(striped));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod cluster;
mod ids;
mod layout;
mod modes;

pub use cluster::check::{
    CheckDepth, CheckReport, Finding, FindingKind, FoundDescription, FoundRights, FoundSubfile,
};
pub use cluster::failure::Failure;
pub use cluster::grant::{
    Access, DescriptorAnswer, DescriptorRequest, GRANT_LIFETIME_EPOCHS, Grant, LEASE_TABLE_BYTES,
    ORPHAN_RIGHTS_VERSION, REMOVED_RIGHTS_VERSION, Revocation, lease_slot,
};
pub use cluster::group::{
    AssemblyId, CreationWish, GROUP_LIMIT, JOB_NAME_LIMIT_BYTES, JobCall, MemoryId, OpenTogether,
    Seat, SharedCall, SharedRequest, TablePlace, TeamCall, TeamPlace,
};
pub use cluster::jobs::{Awaited, JobStatus, LastCall, MissingRank, SharedFileStatus, WaitStatus};
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
    CutPiece, OUTBOX_LIMIT_BYTES, ProcessProgress, ProcessRequest, ProcessTarget, ProcessWork,
    Processed, SELECTION_LIMIT, Selection, WorkSpan,
};
pub use cluster::record::{Entry, FileKind, FileRecord, Identity};
pub use cluster::reply::{ExtentMeasure, KnownFile, Opened, Reply, ReplyMessage, SubfileMeasure};
pub use cluster::request::{
    CheckRequest, DisksWish, LayoutWish, NODE_PROTOCOL, NamespaceRequest, NewFile,
    PROTOCOL_VERSION, Part, PeerKind, PeerRequest, RANGES_LIMIT, Removal, Request, RequestMessage,
    SubfileRange, TOKEN_LIMIT_BYTES, TRANSFER_LIMIT_BYTES,
};
pub use cluster::status::{ClientStatus, DiskStatus, NodeStatus, PeerStatus};
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
    BytePlace, DEFAULT_UNIT_BYTES, Piece, Pieces, Run, Runs, Segment, Segments, Striped,
    StripedError,
};
pub use layout::tiles::{ExtentPlace, OutsideError, Tiles, TilesError, WindowTiles};
pub use modes::call::{Call, Disagreement, OPENING_LIMIT_BYTES, Outcome, Ranks};
pub use modes::course::{Course, Decision};
pub use modes::mode::{Axes, Mode, Order, Pointer, Step, UnknownMode, View};
pub use modes::position::{
    Interleaved, OFFSET_LIMIT, OutOfRange, Placement, Position, Seek, Transfer,
};
pub use modes::table::{Arrival, Chunk, NotedCall, Standing, Table};
pub use modes::trouble::Trouble;
pub use modes::waiting::{BytesUse, BytesUser, BytesWait, BytesWish, WaitCause};
