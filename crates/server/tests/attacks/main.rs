//! Clients that mean harm, against a node in a process of its own whose memory is bounded. The node
//! must refuse what they ask, keep serving others, and stay alive.

mod node_process;
mod numbers;
mod raw_client;
mod users;
