//! Requests and replies over ports.
//!
//! A request is a token with a number and the channel on which its reply is expected. The client
//! opens that channel itself, over the link on which it sends the request, and puts its number into
//! each request. So the server opens nothing, looks nothing up and waits for nothing, and a reply
//! can go only to the client that sent the request.

mod borrowed_parts;
mod client;
mod connection_state;
mod message;
mod protocol;
mod reconnecting;
mod server;
mod slots;

pub use borrowed_parts::BorrowedParts;
pub use client::{PendingReply, RpcClient};
pub use protocol::Protocol;
pub use reconnecting::{
    ConnectionOptions, OpenConnection, OpenTimeLimits, ReconnectingClient, SentRequest,
    SessionSetup,
};
pub use server::{IncomingRequest, Responder, RpcServer};
