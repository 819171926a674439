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
//!   way.
//! - A space refuses processes of other users (unless it admits every user) and processes that do
//!   not know the [`Key`], in bounded time and memory.
//!
//! Requests and replies are built on top: an [`RpcClient`] sends requests to an [`RpcServer`], any
//! number at a time. A [`ReconnectingClient`] opens its connection when a request needs it, and again
//! after it was lost. [`InputPort::recv_from`] returns the sender of a token, as the kernel
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
pub mod clock;
mod closing;
mod connect;
mod control;
mod core;
mod counters;
mod descriptor_messages;
mod descriptors;
mod directory;
mod error;
mod exchange;
mod file_part;
pub mod fork;
mod frame_run;
mod handshake;
mod history;
mod io_thread;
mod key;
mod link;
mod listener;
mod outbox;
mod panic_text;
mod pending;
mod poller;
mod pool;
mod port;
mod private_socket;
mod process_memory;
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
pub use counters::{Counters, LinkCounters, PortCounters, Refusal};
pub use descriptor_messages::{DescriptorMessage, receive_message, send_message};
pub use descriptors::{DescriptorClient, DescriptorServer};
pub use error::{
    AddressError, ConnectError, ConnectionFailure, InputError, KeyError, KeyProblem, OpenError,
    RecvError, RpcError, SendError, SpaceError,
};
pub use file_part::FilePart;
pub use key::{Key, SpaceId};
pub use panic_text::panic_text;
pub use pending::{Pending, StartedRequest};
pub use pool::{BULK_ALIGNMENT, BulkBuffer, IDLE_LIMIT_BYTES};
pub use port::{Credit, InputPort, OutputPort, PortOptions};
pub use private_socket::PrivateListener;
pub use process_memory::{ChangeWord, OwnerLock, Parker, SharedWord, SwitchPoint, WaitLimits};
pub use recv_buffer::RecvBuffer;
pub use rpc::{
    BorrowedParts, ConnectionOptions, IncomingRequest, OpenConnection, OpenTimeLimits,
    PendingReply, Protocol, ReconnectingClient, Responder, RpcClient, RpcServer, SentRequest,
    SessionSetup,
};
pub use runtime_directory::{
    check_private_directory, make_private_directory, private_runtime_directory, read_private_file,
    runtime_directory, write_private_file,
};
pub use send_buffer::SendBuffer;
pub use sender::{Sender, User};
pub use shared_memory::{SharedMemory, SharedMemoryPart, SharedMemoryShape};
pub use simulation::Simulation;
pub use space::{Options, Space};
pub use token::{
    DecodeError, EncodeError, Incoming, Outgoing, Token, TokenHead, TokenKind, decode_front,
    decode_value, encode_value,
};
