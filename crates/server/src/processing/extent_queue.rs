//! The extents of a call that are not scheduled yet.

use std::collections::VecDeque;

use pario_proto::{ExtentIndex, ExtentPlacement};

use super::running_call::OpenSubfile;

/// The extents to process, in order, each with the number of its open subfile.
pub enum ExtentQueue {
    /// The extents that the client or the task has selected.
    Listed(VecDeque<(usize, ExtentPlacement)>),
    /// All extents, one of each subfile in turn.
    All {
        /// The runs that are left of each subfile.
        runs: Vec<VecDeque<(u64, u64)>>,
        /// The next subfile.
        turn: usize,
    },
}

impl ExtentQueue {
    /// Returns the number of extents that are left.
    pub fn len(&self) -> u64 {
        match self {
            ExtentQueue::Listed(places) => places.len() as u64,
            ExtentQueue::All { runs, .. } => runs.iter().flatten().map(|(_, len)| len).sum(),
        }
    }

    /// Returns the next extent without removing it.
    pub fn first(&self, parts: &[OpenSubfile]) -> Option<ExtentPlacement> {
        match self {
            ExtentQueue::Listed(places) => places.front().map(|(_, place)| *place),
            ExtentQueue::All { runs, .. } => parts.iter().zip(runs).find_map(|(open, runs)| {
                let extent = ExtentIndex(runs.front()?.0);
                Some(ExtentPlacement { subfile: open.part.subfile, extent })
            }),
        }
    }

    /// Removes the next extent.
    pub fn next(&mut self, parts: &[OpenSubfile]) -> Option<(usize, ExtentPlacement)> {
        match self {
            ExtentQueue::Listed(places) => places.pop_front(),
            ExtentQueue::All { runs, turn } => {
                let count = runs.len();
                let number = (0..count)
                    .map(|step| (*turn + step) % count)
                    .find(|number| !runs[*number].is_empty())?;
                *turn = number + 1;
                let (first, len) = runs[number].pop_front()?;
                if len > 1 {
                    runs[number].push_front((first + 1, len - 1));
                }
                let extent = ExtentIndex(first);
                Some((number, ExtentPlacement { subfile: parts[number].part.subfile, extent }))
            }
        }
    }
}
