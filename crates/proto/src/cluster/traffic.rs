//! Counters of what a client reads and writes through descriptors on the node's machine. The client
//! adds to them in shared memory, and the node reads them there.
//!
//! The memory is an array of 64-bit counters. Each disk has one cell of [`CELL_COUNTERS`] counters in
//! each of [`TRAFFIC_LANES`] lanes, so that threads on different lanes never write to the same cache
//! line. The count of a disk is the sum over all lanes.

use serde::{Deserialize, Serialize};

use crate::ids::DiskId;

/// Lanes of a table. A thread stays on one lane.
pub const TRAFFIC_LANES: usize = 8;

/// Counters from the start of one cell to the next: a cache line of 64 bytes.
pub const CELL_COUNTERS: usize = 8;

/// Disks of a node whose traffic is counted.
pub const TRAFFIC_DISKS_LIMIT: usize = 256;

/// The description of the traffic table that a node passes to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficAnswer {
    /// The disks in the order of their cells.
    pub disks: Vec<DiskId>,
}

/// The traffic of a disk: the counters of a cell, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Calls that read.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Calls that wrote.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl Traffic {
    /// The index of [`reads`](Self::reads) in a cell; the bytes follow it.
    pub const READS: usize = 0;
    /// The index of [`writes`](Self::writes) in a cell; the bytes follow it.
    pub const WRITES: usize = 2;

    /// The number of counters of a table for `disks` disks.
    pub fn table_len(disks: usize) -> usize {
        TRAFFIC_LANES * disks * CELL_COUNTERS
    }

    /// The index of the first counter of a disk's cell in a lane.
    pub fn cell(disks: usize, lane: usize, disk: usize) -> usize {
        (lane % TRAFFIC_LANES * disks + disk) * CELL_COUNTERS
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn cells_are_cache_lines_inside_of_the_table() {
        let mut seen = HashSet::new();
        for lane in 0..TRAFFIC_LANES {
            for disk in 0..5 {
                let cell = Traffic::cell(5, lane, disk);
                assert!(seen.insert(cell) && cell.is_multiple_of(8));
                assert!(cell + CELL_COUNTERS <= Traffic::table_len(5));
            }
        }
        assert_eq!(Traffic::cell(5, TRAFFIC_LANES + 1, 2), Traffic::cell(5, 1, 2));
    }
}
