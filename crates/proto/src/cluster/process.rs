//! Work that nodes do with the extents of a file, where they lie.

use serde::{Deserialize, Serialize};

use super::grant::Grant;
use super::request::SubfileLocation;
use crate::layout::tiles::ExtentPlacement;

/// The most extents that one request names; who wants more leaves the choice to the operation.
pub const SELECTION_LIMIT: usize = 1 << 20;

/// Results wait at a node, until they are fetched, up to so many bytes; then reading waits too.
pub const OUTBOX_LIMIT_BYTES: u64 = 8 << 20;

/// Something about work with extents. A call is known by a number that the client chooses, and that
/// no other call of its connection has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessRequest {
    /// Begins a call; answered as if more had been asked for. The parameters of the operation are
    /// the data.
    Begin {
        /// The number of the call.
        call: u64,
        /// What to do.
        work: ProcessWork,
    },
    /// More of a call that is not over.
    More {
        /// The number of the call.
        call: u64,
    },
    /// Gives a call up.
    Stop {
        /// The number of the call.
        call: u64,
    },
    /// Parts of extents that another node needs for its own: one segment of data comes back for
    /// each.
    Cut {
        /// The right to.
        grant: Grant,
        /// Who knows how to cut.
        operation: String,
        /// Which.
        pieces: Vec<CutPiece>,
    },
}

/// What a node is to do with extents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessWork {
    /// The right to read the file.
    pub grant: Grant,
    /// All subfiles of the file.
    pub parts: Vec<SubfileLocation>,
    /// Which extents, of those on disks of this node.
    pub extents: ExtentSelection,
    /// The operation.
    pub operation: String,
    /// Where extents go that the operation makes.
    pub target: Option<ProcessTarget>,
    /// Whether to note what was done when.
    pub is_traced: bool,
}

/// The file to which extents are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTarget {
    /// The right to write it.
    pub grant: Grant,
    /// All its subfiles.
    pub parts: Vec<SubfileLocation>,
}

/// Which extents of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExtentSelection {
    /// All, or those that the operation chooses.
    All,
    /// These; which of them are on disks of a node, it finds out itself.
    These(Vec<ExtentPlacement>),
}

/// A part of an extent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutPiece {
    /// Which extent.
    pub place: ExtentPlacement,
    /// Its subfile.
    pub part: SubfileLocation,
    /// What of it, in the words of the operation.
    pub what: Vec<u8>,
}

/// What has come of a call since it was last asked for; results are in the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUpdate {
    /// For each segment of data: of which extent it is the result. Nothing for what was put
    /// together of many.
    pub results: Vec<Option<ExtentPlacement>>,
    /// Whether nothing more will come.
    pub is_over: bool,
    /// How far it has come.
    pub progress: ProcessProgress,
    /// What was done when, since it was last asked for.
    pub spans: Vec<WorkSpan>,
    /// When this was answered, by the clock of the spans.
    pub now_ns: u64,
}

/// How far a call has come at one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessProgress {
    /// Extents that it means; 0 as long as that is not known.
    pub total: u64,
    /// Extents that are done.
    pub done: u64,
    /// Extents that were there.
    pub found: u64,
    /// Those that were in memory.
    pub cache_hits: u64,
    /// Bytes of all that were there.
    pub seen_bytes: u64,
    /// Extents that were written.
    pub written: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Bytes of results.
    pub result_bytes: u64,
    /// Bytes that other nodes have sent for it.
    pub neighbour_bytes: u64,
}

impl ProcessProgress {
    /// Adds what another node has done.
    pub fn add(&mut self, other: &ProcessProgress) {
        self.total += other.total;
        self.done += other.done;
        self.found += other.found;
        self.cache_hits += other.cache_hits;
        self.seen_bytes += other.seen_bytes;
        self.written += other.written;
        self.written_bytes += other.written_bytes;
        self.result_bytes += other.result_bytes;
        self.neighbour_bytes += other.neighbour_bytes;
    }
}

/// Something that a thread of a node has done for a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkSpan {
    /// The thread, such as `Storage[2]`.
    pub thread: String,
    /// What it did.
    pub name: String,
    /// When it began.
    pub begin_ns: u64,
    /// When it was done.
    pub end_ns: u64,
}

impl WorkSpan {
    /// The name of a span in which a thread waits begins so; the rest says for what.
    pub const WAITS_FOR: &str = "waits for ";
}
