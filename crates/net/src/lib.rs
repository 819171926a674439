//! Tokens between processes: named ports, links, coalescing, credits.

mod address;
mod assembler;
mod builder;
mod bulk;
mod carrier;
mod channel;
mod closing;
mod connect;
mod control;
mod core;
mod counters;
mod courier;
mod directory;
mod door;
mod error;
mod exchange;
mod gathered;
mod handshake;
mod hub;
mod key;
mod link;
mod outbox;
mod pool;
mod port;
mod record;
mod route;
mod run;
mod simulation;
mod space;
mod token;
mod waiter;
pub mod wire;

pub use address::Address;
pub use assembler::{Assembler, Group, Packet};
pub use builder::{LinkChoice, SpaceBuilder};
pub use bulk::Bulk;
pub use counters::{Counters, LinkCounters, PortCounters, Refusal, Sample};
pub use error::{
    AddressError, ConnectError, InputError, KeyError, OpenError, RecvError, SendError, SpaceError,
};
pub use key::{Key, SpaceId};
pub use pool::{BULK_ALIGNMENT, BulkBuffer, IDLE_LIMIT_BYTES};
pub use port::{Credit, InputPort, OutputPort, PortOptions};
pub use simulation::Simulation;
pub use space::{Options, Space};
pub use token::{
    DecodeError, EncodeError, Head, Incoming, Outgoing, Token, TokenKind, decode_front,
    decode_value, encode_value,
};
