//! HTTP servers of commands: limits for connections, and access rules.
//!
//! Invariants: all connections together, and those of one address, have a limit; a connection that
//! sends no request or reads no answer is closed.

mod access;
mod connection_table;
mod connections;
mod refusal;
mod watched_stream;

pub use access::{AccessToken, is_for_this_machine, read_token};
pub use connection_table::{ConnectionActivity, ConnectionTable};
pub use connections::serve;
pub use refusal::HttpRefusal;
