//! The resident node of a cluster.
//!
//! A [`Node`] is a process that owns disks, or a part of a process: the embedded cluster. It is a
//! dataflow program: an *interface* thread keeps the namespace, a *directory* thread for each node of
//! the cluster measures and removes subfiles there, *storage* threads serve the disks, and *compute*
//! threads run operations next to the data. The dispatcher checks the sender and the grant of each
//! request, and calls the operation that answers it.
//!
//! It deliberately does not interpret the bytes of users, holds no data in memory that is not on the
//! disks, and does not copy data from disk to disk.
//!
//! ```
//! use pario_server::{Node, config::Config};
//!
//! # let dir = tempfile::tempdir().unwrap();
//! let node = Node::start(&Config::alone(dir.path()), "local")?;
//! println!("clients can reach it at {}", node.address());
//! node.stop();
//! # Ok::<(), pario_server::NodeError>(())
//! ```
#![forbid(unsafe_code)]

pub mod config;
pub mod coordination;
pub mod job_memory;
pub mod job_registry;
pub mod metadata;
pub mod namespace;

mod audit;
mod check;
mod descriptors;
mod directory;
mod disks;
mod error;
mod event_log;
mod grant;
mod grant_epochs;
mod grant_window;
mod lease;
mod limits;
mod node;
mod open_files;
mod peers;
mod private_files;
mod processing;
mod program;
mod protocol;
mod record_locks;
mod reporter;
mod request_meter;
mod sessions;
mod shared;
mod short_cut_traffic;
mod strangers;
mod syncing;
mod team_rendezvous;
mod unmade;

pub use directory::holds_cluster;
pub use error::NodeError;
pub use node::monitor::{NodeMonitor, NodeReport, ResourceUse};
pub use node::{MissingNamespace, Node, NodeBuilder};
pub use pario_operation as operation;
pub use protocol::NodeProtocol;
pub use request_meter::{DURATION_BOUNDS_US, RequestCounts};
