//! The resident node of a cluster.
//!
//! A [`Node`] is a process that owns disks, or a part of a process: the embedded cluster. It is a
//! dataflow program: an *interface* thread serves the namespace, *storage* threads read and write
//! the disks, *subfile workers* create, measure and remove subfiles, *compute* threads run
//! operations next to the data, and *node proxies* pass tasks to the other nodes of the cluster. A
//! *dispatcher* receives the requests of clients, checks who sends each one and what was granted,
//! and calls the operation of the program that answers.
//!
//! What it is not: it does not interpret the bytes of users, keeps no data in memory that is not on
//! the disks, and does not copy data from disk to disk by itself.
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

mod atomic_files;
mod audit;
mod check;
mod data_directory;
mod descriptor_limit;
mod disks;
mod error;
mod event_log;
mod grant;
mod grant_epochs;
mod grant_window;
mod lazy_subfiles;
mod lease;
mod limits;
mod map_waiters;
mod modules;
mod node;
mod node_state;
mod open_files;
mod peers;
mod private_files;
mod processing;
mod program;
mod protocol;
mod record_locks;
mod reply_sender;
mod request_meter;
mod sessions;
mod short_cut_traffic;
mod storage_threads;
mod subfile_sync;
mod team_rendezvous;

pub use data_directory::holds_cluster;
pub use error::NodeError;
pub use node::monitor::{NodeMonitor, NodeReport, ResourceUse};
pub use node::{MissingNamespace, Node, NodeBuilder};
pub use pario_operation as operation;
pub use protocol::NodeProtocol;
pub use request_meter::{DURATION_BOUNDS_US, RequestCounts};
