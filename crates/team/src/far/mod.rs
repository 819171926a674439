//! Other machines: how they meet, and how one uses their memory.

pub mod asking;
pub mod captain;
pub mod follower;
pub mod host;
pub mod joining;
pub mod link;
pub mod message;
pub mod server;
pub mod steward;
