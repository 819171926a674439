//! What machines of a team tell each other.

use pario_net::{Bulk, Protocol};
use serde::{Deserialize, Serialize};

use crate::call::CALL_BYTES;
use crate::segments::SegmentPiece;

/// The requests of machine leaders to the team coordinator.
#[derive(Debug)]
pub enum CoordinatorProtocol {}

impl Protocol for CoordinatorProtocol {
    const NAME: &'static str = "pario.team.coordinator/1";
    type Request = CoordinatorRequest;
    type Reply = CoordinatorReply;
}

/// The requests of ranks to the data server of a machine.
#[derive(Debug)]
pub enum DataProtocol {}

impl Protocol for DataProtocol {
    const NAME: &'static str = "pario.team.data/1";
    type Request = DataRequest;
    type Reply = DataReply;
}

/// What the leader of a machine tells the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum CoordinatorRequest {
    /// A rank has come to the machine of a leader.
    Join {
        /// The leader.
        leader: u32,
        /// The rank.
        rank: u32,
        /// How many there are, as it says.
        size: u32,
    },
    /// What has happened, from this number on; check_reply when there is something.
    Follow {
        /// How many of the news are known.
        from: u64,
    },
    /// All ranks of the machine have come to a round.
    Round {
        /// Which round.
        number: u32,
        /// What each rank of the machine has told.
        slots: Vec<RoundSlot>,
    },
    /// What has happened at the machine.
    Report {
        /// In this order.
        news: Vec<News>,
    },
}

/// What the host answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CoordinatorReply {
    /// It is known now.
    Done,
    /// A rank may come.
    Accepted {
        /// The leader at the host.
        coordinator: u32,
    },
    /// It cannot be.
    Refused(String),
    /// What has happened.
    News(Vec<News>),
    /// All have come to the round: what those of other machines have told.
    Round(Vec<RoundSlot>),
}

/// What a rank has called in a round, and what it has told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundSlot {
    /// The rank.
    pub rank: u32,
    /// The call, as it stands on the board.
    pub call: [u8; CALL_BYTES],
    /// What it has told.
    pub bytes: Bulk,
}

/// What happens to ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum News {
    /// A rank has come to the machine of a leader.
    Joined {
        /// The rank.
        rank: u32,
        /// The leader.
        leader: u32,
    },
    /// A rank has left, before it came to this round.
    Left {
        /// The rank.
        rank: u32,
        /// The round.
        before: u32,
    },
    /// A rank has ended without leaving.
    Lost {
        /// The rank.
        rank: u32,
    },
}

/// A piece of the segment of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPiece {
    pub rank: u32,
    pub piece: SegmentPiece,
}

/// What is asked of the data server of a machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DataRequest {
    /// Copy these bytes to pieces of segments.
    Put { memory: u64, pieces: Vec<RankPiece>, bytes: Bulk },
    /// Give the bytes of pieces of segments.
    Get { memory: u64, pieces: Vec<RankPiece> },
    /// Add numbers to pieces of segments.
    Accumulate { memory: u64, kind: u32, factor: [u8; 8], pieces: Vec<RankPiece>, bytes: Bulk },
    /// AtomicChange a number of a rank's segment.
    Change { memory: u64, rank: u32, offset: usize, change: AtomicChange },
    /// Lock a mutex for a rank.
    Lock { memory: u64, number: usize, by: u32 },
    /// TeamMutexGuard it.
    Unlock { memory: u64, number: usize, by: u32 },
    /// A rank has no use for the memory any more.
    Release { memory: u64 },
    /// Call a function.
    Call { number: u64, from: u32, target: u32, header: Bulk, data: Bulk },
}

/// A change by one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AtomicChange {
    Add32(u32),
    Add64(u64),
    Swap32(u32),
    Swap64(u64),
}

/// What a data server answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DataReply {
    /// It is done.
    Done,
    /// The bytes that were asked for.
    Bytes(Bulk),
    /// What was there before.
    Previous(u64),
    /// It cannot be done.
    Invalid(String),
    /// Who has the mutex is gone.
    HolderGone { rank: u32, has_left: bool },
    /// The function has failed.
    CallbackFailed(String),
}
