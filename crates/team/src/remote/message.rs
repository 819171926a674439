//! The messages between machines of a team.

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

/// A request of a machine leader to the coordinator.
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
    /// Requests the news from this number on; the coordinator replies when it has some.
    Follow {
        /// The number of known news.
        from: u64,
    },
    /// All ranks of the machine have arrived at a round.
    Round {
        /// The number of the round.
        number: u32,
        /// The slots of the machine's ranks.
        slots: Vec<RoundSlot>,
    },
    /// News of the machine.
    Report {
        /// In this order.
        news: Vec<News>,
    },
}

/// A reply of the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CoordinatorReply {
    /// Done.
    Done,
    /// The rank may join.
    Accepted {
        /// The leader at the coordinator.
        coordinator: u32,
    },
    /// The rank cannot join.
    Refused(String),
    /// What has happened.
    News(Vec<News>),
    /// The round is over: the slots of other machines.
    Round(Vec<RoundSlot>),
}

/// The call of a rank in a round, with its bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundSlot {
    /// The rank.
    pub rank: u32,
    /// The call, as it stands on the board.
    pub call: [u8; CALL_BYTES],
    /// Its bytes.
    pub bytes: Bulk,
}

/// News about a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum News {
    /// A rank has come to the machine of a leader.
    Joined {
        /// The rank.
        rank: u32,
        /// The leader.
        leader: u32,
    },
    /// A rank has left before this round.
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

/// A request to the data server of a machine.
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
    /// Release memory that a rank does not use any more.
    Release { memory: u64 },
    /// Call a function.
    CollectiveCall { number: u64, from: u32, target: u32, header: Bulk, data: Bulk },
    /// Put a part of a message into the mailbox of a rank.
    Send { to: u32, part: MessagePart },
    /// Give a part of a message from the mailbox of a rank, when it is there.
    Receive { to: u32, filter: MessageFilter },
    /// Form a group of these ranks, when all have joined.
    JoinGroup { members: Vec<u32>, by: u32 },
    /// Arrive at the next round of a group.
    GroupRound { group: u64, by: u32, call: [u8; CALL_BYTES], bytes: Bulk },
    /// Leave a group.
    LeaveGroup { group: u64 },
    /// Allocate memory for ranks of a group on this machine, and pass it to them.
    AllocateForGroup {
        memory: u64,
        bytes: usize,
        /// Where the segment of each rank begins, and its length.
        places: Vec<(u32, usize, usize)>,
        /// The ranks that release it, if other machines use it.
        users: Option<u32>,
    },
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessagePart {
    /// The sender.
    pub from: u32,
    /// The tag of the message.
    pub tag: u64,
    /// The number that the sender gave the message.
    pub message: u64,
    /// Whether it is the first part.
    pub is_first: bool,
    /// The bytes of the parts that follow.
    pub rest: u64,
    /// Its bytes.
    pub bytes: Bulk,
}

/// The part of a message that a receiver waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageFilter {
    /// The sender; none for any.
    pub from: Option<u32>,
    /// The tag.
    pub tag: u64,
    /// The message of which a later part is wanted; none for the first part of any message.
    pub message: Option<u64>,
}

impl MessageFilter {
    /// Whether it takes a part.
    pub fn takes(&self, part: &MessagePart) -> bool {
        self.tag == part.tag
            && self.from.is_none_or(|from| from == part.from)
            && match self.message {
                None => part.is_first,
                Some(message) => !part.is_first && message == part.message,
            }
    }
}

/// What a rank has brought to a round of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSlot {
    /// The call, encoded as on the board.
    pub call: [u8; CALL_BYTES],
    /// The number of its bytes.
    pub len: usize,
}

/// An atomic change of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AtomicChange {
    Add32(u32),
    Add64(u64),
    Swap32(u32),
    Swap64(u64),
}

/// A reply of a data server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DataReply {
    /// Done.
    Done,
    /// The requested bytes.
    Bytes(Bulk),
    /// The previous value.
    Previous(u64),
    /// The request is invalid.
    Invalid(String),
    /// The rank that holds the mutex is gone.
    HolderGone { rank: u32, has_left: bool },
    /// The callback has failed.
    CallbackFailed(String),
    /// A part of a message, and the number of further messages like it that are there.
    Message { part: MessagePart, queued: u64 },
    /// The number of the new group.
    Group(u64),
    /// The round of the group is over: its number, and the slots of all ranks with their bytes.
    GroupRound { number: u64, slots: Vec<GroupSlot>, bytes: Bulk },
}
