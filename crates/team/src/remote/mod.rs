//! Other machines: how they meet, and how ranks use their memory.

pub mod coordinator;
pub mod data_connections;
pub mod data_server;
pub mod joining;
pub mod machine_leader;
pub mod machine_reporter;
pub mod message;
pub mod news_feed;
pub mod requests;
