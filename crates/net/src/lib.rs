//! Tokens between processes.
//!
//! A process is an address [`Space`] with a name. Its threads own named [`InputPort`]s; anyone who
//! knows a name opens an [`OutputPort`] to it, wherever it is. In the same space a token moves by
//! pointer, on the same machine over a Unix socket, otherwise over TCP. Names are found through a
//! directory that one of the spaces hosts; waiting for a name that is not there yet is part of
//! opening.
//!
//! A [`Token`] is any serde type: a small encoded head, and beside it the [`Bulk`] it contains, sent
//! by one vectored write from where it is and received into aligned memory of its own.
//!
//! What can be relied on:
//! - Tokens sent by one thread through one output port arrive in order, once, while the link lives.
//! - A link that breaks is an event: [`RecvError::Lost`] at every port that was opened over it, after
//!   everything that had arrived; [`SendError::Lost`] at every output port, with the token.
//! - Tokens that are sent faster than they can be written leave together, none later than
//!   [`Options::delay`].
//! - A receiver that does not receive makes senders wait: no more than the port's [`Credit`] is under
//!   way. Urgent tokens still pass.
//! - Whoever is not of the same user (unless every user is admitted) or does not know the [`Key`]
//!   is refused, in bounded time and memory.
//!
//! Requests and replies are built on top: an [`RpcClient`] sends requests to an
//! [`RpcServer`], any number at a time. [`InputPort::recv_from`] says who sent a token, as the kernel says. Open
//! files go to other processes of the machine through a [`DescriptorDoor`].
//!
//! What it is not: it does not store tokens, does not repeat what was lost, does not encrypt, does
//! not route through third spaces, and knows nothing of files and operations. It needs no
//! asynchronous runtime: the thread that waits for a token is the one that reads it from the socket.
//!
//! ```
//! use std::time::Duration;
//!
//! use pario_net::{Bulk, Space};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Tile {
//!     number: u32,
//!     pixels: Bulk,
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In one process: hosts the directory, and receives.
//! let home = Space::builder("home").host().build()?;
//! let tiles = home.input::<Tile>("tiles")?;
//! let address = home.address().to_string();
//!
//! // In another one, which was given the address: sends.
//! let painter = Space::builder("painter").join(&address.parse()?).build()?;
//! let output = painter.output::<Tile>("tiles", Duration::from_secs(5))?;
//! for number in 0..3 {
//!     output.send(Tile { number, pixels: vec![0; 10_000].into() })?;
//! }
//! output.flush();
//!
//! for number in 0..3 {
//!     let tile = tiles.recv()?;
//!     assert_eq!((tile.number, tile.pixels.len()), (number, 10_000));
//! }
//! # Ok(())
//! # }
//! ```

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
mod descriptors;
mod directory;
mod door;
mod error;
mod exchange;
mod file_part;
mod gathered;
mod handshake;
mod hub;
mod key;
mod landing;
mod link;
mod loan;
mod memory;
mod outbox;
mod pool;
mod port;
mod private_socket;
mod reason;
mod record;
mod route;
mod routes;
mod rpc;
mod run;
mod runtime_directory;
mod sender;
mod share;
mod simulation;
mod space;
mod spin;
mod token;
mod waiter;
pub mod wire;

pub use address::Address;
pub use assembler::{Assembler, Group, Packet};
pub use builder::{LinkChoice, SpaceBuilder};
pub use bulk::Bulk;
pub use connect::connect_unix;
pub use counters::{Counters, LinkCounters, PortCounters, Refusal, Sample};
pub use descriptors::{DescriptorClient, DescriptorDoor};
pub use error::{
    AddressError, ConnectError, InputError, KeyError, KeyProblem, OpenError, RecvError, RpcError,
    SendError, SpaceError,
};
pub use file_part::FilePart;
pub use key::{Key, SpaceId};
pub use landing::Landing;
pub use loan::Loan;
pub use memory::{CommonMemory, MemoryPart, MemoryShape, machine_ms};
pub use pool::{BULK_ALIGNMENT, BulkBuffer, IDLE_LIMIT_BYTES};
pub use port::{Credit, InputPort, OutputPort, PortOptions};
pub use private_socket::PrivateListener;
pub use rpc::{IncomingRequest, PendingReply, Protocol, Responder, RpcClient, RpcServer};
pub use runtime_directory::{
    check_private_directory, make_private_directory, private_runtime_directory, read_private_file,
    runtime_directory, write_private_file,
};
pub use sender::{Sender, User};
pub use simulation::Simulation;
pub use space::{Options, Space};
pub use token::{
    DecodeError, EncodeError, Head, Incoming, Outgoing, Token, TokenKind, decode_front,
    decode_value, encode_value,
};
