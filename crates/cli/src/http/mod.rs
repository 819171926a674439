//! HTTP servers of commands: connections with limits, and what clients must know to be answered.
//!
//! Invariants: the connections in all and of one address have a limit; a connection that sends no
//! request or reads no answer is ended.

mod access;
mod connection_table;
mod connections;
mod refusal;
mod watched_stream;

pub use access::{Token, is_for_this_machine, read_token};
pub use connection_table::{ConnectionTable, Progress};
pub use connections::serve;
pub use refusal::Refusal;
