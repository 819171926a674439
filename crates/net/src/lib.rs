//! Tokens between processes: named ports, links, coalescing, credits.

mod address;
mod builder;
mod bulk;
mod channel;
mod core;
mod counters;
mod error;
mod key;
mod pool;
mod port;
mod route;
mod run;
mod space;
mod token;
mod waiter;
pub mod wire;

pub use address::Address;
pub use builder::{LinkChoice, SpaceBuilder};
pub use bulk::Bulk;
pub use counters::{Counters, LinkCounters, PortCounters, Refusal, Sample};
pub use error::{
    AddressError, ConnectError, InputError, KeyError, OpenError, RecvError, SendError, SpaceError,
};
pub use key::{Key, SpaceId};
pub use pool::{BULK_ALIGNMENT, BulkBuffer, IDLE_LIMIT_BYTES};
pub use port::{Credit, InputPort, OutputPort, PortOptions};
pub use space::{Options, Space};
pub use token::{
    DecodeError, EncodeError, Head, Incoming, Outgoing, Token, TokenKind, decode_front,
    decode_value, encode_value,
};
