//! Hostile clients against a node in its own process, whose memory is bounded. The node must refuse
//! their requests, keep serving others, and stay alive.

mod node_process;
mod numbers;
mod raw_client;
mod users;
