//! Compaction of an extent subfile, a step at a time.

use serde::{Deserialize, Serialize};

/// The position of a compaction between two steps. Clients pass it back as they have received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionCursor {
    /// The granule before which the data file has no holes.
    pub granule: u64,
    /// The number of granules that the compaction may still move.
    pub budget_granules: u64,
}

/// The result of one step of the compaction of a subfile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionProgress {
    /// The bytes that the subfile occupied on its disk before the step.
    pub disk_bytes_before: u64,
    /// The bytes that it occupies after the step.
    pub disk_bytes: u64,
    /// The bytes of its extents: headers and bodies.
    pub live_bytes: u64,
    /// The bytes that the step has moved.
    pub moved_bytes: u64,
    /// The bytes of the data file before which no hole is left.
    pub compact_bytes: u64,
    /// The bytes of the data file up to its last extent.
    pub data_bytes: u64,
    /// The cursor of the next step; `None` if the compaction is finished.
    pub next: Option<CompactionCursor>,
}
