//! Control messages between spaces.

use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::key::SpaceId;

/// A message between spaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Control {
    /// To the directory: adds a space.
    Join { request: u64, name: String, address: Address },
    /// To the directory: adds a port.
    Announce { request: u64, port: PortInfo },
    /// To the directory: removes a port.
    Withdraw { port: String },
    /// To the directory: finds a port. The reply comes when there is one.
    Find { request: u64, port: String },
    /// To the directory: gives up a request.
    Forget { request: u64 },
    /// To the owner of a port: opens a channel.
    Open { request: u64, number: u32, fingerprint: u64 },
    /// To the owner of a port: leaves a channel.
    Leave { channel: u32 },
    /// To a sender: the port of this channel is gone.
    Gone { channel: u32 },
    /// To a sender: returns credit.
    Credit { channel: u32, bytes: u64 },
    /// The reply to a request.
    Reply { request: u64, reply: ControlReply },
    /// Tests whether the peer acknowledges.
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

/// The reply to a control request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ControlReply {
    Done,
    /// The name is taken.
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
    /// The link was lost. Never sent.
    Lost,
}
