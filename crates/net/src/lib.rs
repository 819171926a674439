//! Tokens between processes.
//!
//! A process is an address [`Space`] with a name. Its threads own named [`InputPort`]s. Any process
//! that knows a name opens an [`OutputPort`] to it, wherever it is. A token moves by pointer within
//! a space, over a Unix socket on the same machine, and over TCP otherwise. One of the spaces hosts
//! a directory of names; opening a port waits until its name is known.
//!
//! A [`Token`] is any serde type: a small encoded head, and beside it the [`Bulk`] it contains. One
//! vectored write sends both from where they are, and the receiver reads bulk into aligned memory
//! of its own.
//!
//! Guarantees:
//! - Tokens sent by one thread through one output port arrive in order, once, while the link lives.
//! - A link that breaks is an event: every port that was opened over it gets [`RecvError::Lost`]
//!   after all tokens that had arrived, and every output port gets [`SendError::Lost`] with the
//!   token.
//! - Tokens that are sent faster than they can be written leave together, none later than
//!   [`Options::delay`].
//! - A receiver that does not receive makes senders wait: at most the port's [`Credit`] is under
//!   way. Urgent tokens still pass.
//! - A space refuses processes of other users (unless it admits every user) and processes that do
//!   not know the [`Key`], in bounded time and memory.
//!
//! Requests and replies are built on top: an [`RpcClient`] sends requests to an [`RpcServer`], any
//! number at a time. [`InputPort::recv_from`] returns the sender of a token, as the kernel
//! identifies it. A [`DescriptorServer`] passes open files to other processes of the machine.
//!
//! What it is not: it does not store tokens, repeat lost ones, encrypt, or route through third
//! spaces, and it knows nothing of files and operations. It needs no asynchronous runtime: the
//! thread that waits for a token reads it from the socket itself.
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
mod descriptors;
mod directory;
mod error;
mod exchange;
mod file_part;
mod frame_run;
mod handshake;
mod history;
mod io_thread;
mod key;
mod link;
mod listener;
mod outbox;
mod poller;
mod pool;
mod port;
mod private_socket;
mod reason;
mod recv_buffer;
mod route;
mod routes;
mod rpc;
mod runtime_directory;
mod send_buffer;
mod sender;
mod shared_memory;
mod simulation;
mod space;
mod spin;
mod token;
mod unflushed_links;
mod user_quota;
mod waiter;
pub mod wire;

pub use address::Address;
pub use assembler::{Assembler, FrameGroup, Packet};
pub use builder::{LinkChoice, SpaceBuilder};
pub use bulk::Bulk;
pub use connect::connect_unix;
pub use counters::{CounterSample, Counters, LinkCounters, PortCounters, Refusal};
pub use descriptors::{DescriptorClient, DescriptorServer};
pub use error::{
    AddressError, ConnectError, InputError, KeyError, KeyProblem, OpenError, RecvError, RpcError,
    SendError, SpaceError,
};
pub use file_part::FilePart;
pub use key::{Key, SpaceId};
pub use pool::{BULK_ALIGNMENT, BulkBuffer, IDLE_LIMIT_BYTES};
pub use port::{Credit, InputPort, OutputPort, PortOptions};
pub use private_socket::PrivateListener;
pub use recv_buffer::RecvBuffer;
pub use rpc::{IncomingRequest, PendingReply, Protocol, Responder, RpcClient, RpcServer};
pub use runtime_directory::{
    check_private_directory, make_private_directory, private_runtime_directory, read_private_file,
    runtime_directory, write_private_file,
};
pub use send_buffer::SendBuffer;
pub use sender::{Sender, User};
pub use shared_memory::{SharedMemory, SharedMemoryPart, SharedMemoryShape, machine_ms};
pub use simulation::Simulation;
pub use space::{Options, Space};
pub use token::{
    DecodeError, EncodeError, Head, Incoming, Outgoing, Token, TokenKind, decode_front,
    decode_value, encode_value,
};
