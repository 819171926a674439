//! Why a call of a group fails.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::call::{Call, Disagreement};
use super::position::OutOfRange;

/// Why a call of a group fails. Who gets one finds the shared pointer as it was before the call.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum CollectiveError {
    /// The ranks have called what does not fit together; all of them are told.
    #[error("the ranks disagree: {0}")]
    Disagreement(Disagreement),
    /// A rank will not come any more.
    #[error("rank {rank} is gone")]
    Gone {
        /// Which.
        rank: u32,
    },
    /// A rank has closed the file.
    #[error("rank {rank} has closed the file")]
    Closed {
        /// Which.
        rank: u32,
    },
    /// The rank is not one of the group.
    #[error("there is no rank {rank} in a group of {size}")]
    NoSuchRank {
        /// Which.
        rank: u32,
        /// Ranks of the group.
        size: u32,
    },
    /// The ranks do not agree how many they are.
    #[error("it has {size} ranks, and rank {rank} says {said}")]
    WrongSize {
        /// Who says so.
        rank: u32,
        /// Ranks of the group, as the first one has said.
        size: u32,
        /// What this one says.
        said: u32,
    },
    /// The node at which the ranks meet was started again, or has never known them.
    #[error(
        "the node at which its ranks meet does not know them, because it was started again or \
         reset: open the file again"
    )]
    Unknown,
    /// Somebody else is that rank.
    #[error("another process is rank {rank} already")]
    RankTaken {
        /// Which.
        rank: u32,
    },
    /// Calls must be numbered one after the other, and not run too far ahead.
    #[error("call {number} cannot come now: {first} is the next one to be decided")]
    OutOfTurn {
        /// The number given.
        number: u64,
        /// The first number that is not decided.
        first: u64,
    },
    /// The call does not belong to the mode that the file is in.
    #[error("{call} is not a call that ranks make in this mode")]
    WrongMode {
        /// The call.
        call: Call,
    },
    /// The access lies outside of the largest file.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// The rank that did it for all could not.
    #[error("rank {rank} could not do it for all: {why}")]
    NotPerformed {
        /// Which.
        rank: u32,
        /// Why.
        why: String,
    },
    /// Somebody has ended it with `pario reset`.
    #[error("it was reset with `pario reset`: open the file again")]
    Reset,
    /// The size of the file could not be found out.
    #[error("the size of the file is not known: {why}")]
    NotMeasured {
        /// Why.
        why: String,
    },
}
