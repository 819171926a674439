//! Requests and replies between clients and nodes of a cluster.
//!
//! `path` names files, `record` describes them, `grant` is the right to use one, and `map` lists
//! nodes and disks. `job`, `job_status`, `lock` and `atomic` are about processes that share files; `process`
//! is about operations on extents, `module` about those that arrive as WebAssembly, `compaction` about the space of extent files. `request`, `reply` and `failure` are the messages, `check` and
//! `status` are for administrators. `traffic` counts the accesses of clients through descriptors.
//! `note` lets programs of a user find a node.

pub mod atomic;
pub mod check;
pub mod compaction;
pub mod failure;
pub mod grant;
pub mod job;
pub mod job_status;
pub mod limits;
pub mod lock;
pub mod map;
pub mod module;
pub mod note;
pub mod path;
pub mod process;
pub mod record;
pub mod reply;
pub mod request;
pub mod status;
pub mod traffic;
