//! What spaces tell each other: messages on the control channel.

use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::key::SpaceId;

/// A message between spaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Control {
    /// To the directory: a space wants to be known.
    Join { request: u64, name: String, address: Address },
    /// To the directory: a port wants to be known.
    Announce { request: u64, port: PortInfo },
    /// To the directory: a port is gone.
    Withdraw { port: String },
    /// To the directory: where is this port? Answered when there is one.
    Find { request: u64, port: String },
    /// To the directory: nobody waits for the answer any more.
    Forget { request: u64 },
    /// To the owner of a port: somebody wants to send to it.
    Open { request: u64, number: u32, fingerprint: u64 },
    /// To the owner of a port: nobody sends on this channel any more.
    Leave { channel: u32 },
    /// To a sender: the port of this channel is gone.
    Gone { channel: u32 },
    /// To a sender: so much was received.
    Credit { channel: u32, bytes: u64, urgent: u32 },
    /// To everybody: an answer.
    Reply { request: u64, reply: ControlReply },
    /// To see whether the other side is there.
    Ping,
}

/// A port, as the directory knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortInfo {
    pub name: String,
    pub number: u32,
    pub kind: String,
    pub fingerprint: u64,
}

/// Where a port is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PortLocation {
    pub port: PortInfo,
    pub space: SpaceId,
    pub space_name: String,
    pub address: Address,
}

/// What a request brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ControlReply {
    Done,
    /// The name belongs to somebody else.
    Taken {
        owner: String,
    },
    Found(Box<PortLocation>),
    /// A channel was made, with this many bytes of credit.
    Opened {
        channel: u32,
        credit: i64,
    },
    /// There is no such port any more.
    NoPort,
    /// The port takes another type.
    OtherKind {
        kind: String,
    },
    /// The link was lost meanwhile. Never sent.
    Lost,
}
