//! Why a collective call fails.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::call::{Call, Disagreement};
use super::position::OutOfRange;

/// Why a collective call fails. The shared pointer stays where it was before the call.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum CollectiveError {
    /// The ranks have made calls that do not match; every rank gets this error.
    #[error("the ranks disagree: {0}")]
    Disagreement(Disagreement),
    /// The process of a rank has ended.
    #[error("rank {rank} is gone")]
    Gone {
        /// The rank.
        rank: u32,
    },
    /// A rank has closed the file.
    #[error("rank {rank} has closed the file")]
    Closed {
        /// The rank.
        rank: u32,
    },
    /// The job has no such rank.
    #[error("there is no rank {rank} in a job of {size} ranks")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// The number of ranks of the job.
        size: u32,
    },
    /// The ranks disagree on the size of the job.
    #[error("it has {size} ranks, but rank {rank} gives {said} as its size")]
    WrongSize {
        /// The rank that differs.
        rank: u32,
        /// The size that the first rank gave.
        size: u32,
        /// The size that this rank gave.
        said: u32,
    },
    /// The node that coordinates the job was restarted, or has never known it.
    #[error(
        "the node that coordinates the job does not know this rank, because the node was restarted \
         or reset: open the file again"
    )]
    Unknown,
    /// Another process has this rank.
    #[error("another process has rank {rank} already: give each process its own rank")]
    RankTaken {
        /// The rank.
        rank: u32,
    },
    /// A rank numbers its calls in sequence, and may not run too far ahead.
    #[error("call {number} is out of sequence: the next undecided call is {first}")]
    OutOfTurn {
        /// The number given.
        number: u64,
        /// The first number that is not decided.
        first: u64,
    },
    /// The ranks do not make this call together in the mode of the file.
    #[error("{call} is not allowed in this mode")]
    WrongMode {
        /// The call.
        call: Call,
    },
    /// The access lies outside of the largest file.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// The rank that performed the access for all has failed.
    #[error("rank {rank} could not perform the access for all ranks: {why}")]
    NotPerformed {
        /// The rank.
        rank: u32,
        /// Why.
        why: String,
    },
    /// A user has ended the job or the open file with `pario reset`.
    #[error("it was reset with `pario reset`: open the file again")]
    Reset,
    /// The node could not find out the size of the file.
    #[error("the size of the file cannot be measured: {why}")]
    NotMeasured {
        /// Why.
        why: String,
    },
    /// A rank could not make the call that the others have made; every rank gets this error.
    #[error("rank {rank} could not make the call: {why}")]
    RankFailed {
        /// The rank.
        rank: u32,
        /// Why. A box keeps the errors of all calls small.
        why: Box<str>,
    },
}

impl CollectiveError {
    /// Returns the rank that has left, differs or could not do its part, if the error names one.
    pub fn rank(&self) -> Option<u32> {
        match self {
            Self::Gone { rank }
            | Self::Closed { rank }
            | Self::NoSuchRank { rank, .. }
            | Self::WrongSize { rank, .. }
            | Self::RankTaken { rank }
            | Self::NotPerformed { rank, .. }
            | Self::RankFailed { rank, .. } => Some(*rank),
            _ => None,
        }
    }
}
