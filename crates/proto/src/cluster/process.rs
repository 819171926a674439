//! Operations on the extents of a file, which nodes run where the extents lie.

use serde::{Deserialize, Serialize};

use super::grant::Grant;
use super::request::SubfileLocation;
use crate::layout::tiles::ExtentPlacement;

/// Extents that one request can name; with more, the operation selects them.
pub const SELECTION_LIMIT: usize = 1 << 20;

/// Results that a node holds until the client fetches them; then it stops reading.
pub const OUTBOX_LIMIT_BYTES: u64 = 8 << 20;

/// A request about a processing call. The client chooses the number of a call, unique in its
/// connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessRequest {
    /// Begins a call; the reply is the same as for [`More`](Self::More). The parameters of the
    /// operation are in the data.
    Begin {
        /// The number of the call.
        call: u64,
        /// The work.
        work: ProcessWork,
    },
    /// Fetches more results of a call.
    More {
        /// The number of the call.
        call: u64,
    },
    /// Ends a call early.
    Stop {
        /// The number of the call.
        call: u64,
    },
    /// Cuts parts of extents that another node needs: the reply has one segment of data for each.
    Cut {
        /// The right to read the file.
        grant: Grant,
        /// The operation that cuts.
        operation: String,
        /// The parts.
        pieces: Vec<CutPiece>,
    },
}

/// A processing call, for one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessWork {
    /// The right to read the file.
    pub grant: Grant,
    /// All subfiles of the file.
    pub parts: Vec<SubfileLocation>,
    /// Which extents, of those on the disks of this node.
    pub extents: ExtentSelection,
    /// The operation.
    pub operation: String,
    /// The file for extents that the operation makes.
    pub target: Option<ProcessTarget>,
    /// Whether to record a trace.
    pub is_traced: bool,
}

/// A file to which extents are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTarget {
    /// The right to write it.
    pub grant: Grant,
    /// All its subfiles.
    pub parts: Vec<SubfileLocation>,
}

/// A selection of extents of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExtentSelection {
    /// All, or those that the operation selects.
    All,
    /// These; each node finds those on its own disks.
    These(Vec<ExtentPlacement>),
}

/// A part of an extent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutPiece {
    /// The extent.
    pub place: ExtentPlacement,
    /// Its subfile.
    pub part: SubfileLocation,
    /// The part, encoded by the operation.
    pub what: Vec<u8>,
}

/// The news of a call since the last fetch; results are in the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUpdate {
    /// For each segment of data, the extent of which it is the result; `None` for a partial result
    /// over many extents.
    pub results: Vec<Option<ExtentPlacement>>,
    /// Whether the call has ended.
    pub is_over: bool,
    /// The progress.
    pub progress: ProcessProgress,
    /// The trace since the last fetch.
    pub spans: Vec<WorkSpan>,
    /// When the node sent this reply, by the clock of the spans.
    pub now_ns: u64,
}

/// The progress of a call at one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessProgress {
    /// Extents of the call; 0 while that is not known.
    pub total: u64,
    /// Extents that are finished.
    pub done: u64,
    /// Extents that exist.
    pub found: u64,
    /// Extents that were in the cache.
    pub cache_hits: u64,
    /// Bytes of all extents that exist.
    pub seen_bytes: u64,
    /// Extents that were written.
    pub written: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Bytes of results.
    pub result_bytes: u64,
    /// Bytes that other nodes have sent for the call.
    pub neighbour_bytes: u64,
}

impl ProcessProgress {
    /// Adds the progress of another node.
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

/// A span of the trace of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkSpan {
    /// The thread, such as `Storage[2]`.
    pub thread: String,
    /// The name of the span.
    pub name: String,
    /// When it began.
    pub begin_ns: u64,
    /// When it was done.
    pub end_ns: u64,
}

impl WorkSpan {
    /// The start of the name of a span in which a thread waits; the rest says for what.
    pub const WAITS_FOR: &str = "waits for ";
}
