//! What clients and nodes of a cluster say to each other.
//!
//! `path` names files, `record` describes them, `grant` is the right to use one, `map` says which
//! nodes and disks there are, `group` and `lock` how processes get along, `process` what
//! nodes do with extents. `request` and `reply` are
//! what travels, `failure` what may come instead, `check` and `status` what administrators ask for.
//! `traffic` counts what clients do by themselves.
//! `note` is how programs of a user find a node.

pub mod check;
pub mod failure;
pub mod grant;
pub mod job;
pub mod job_status;
pub mod limits;
pub mod lock;
pub mod map;
pub mod note;
pub mod path;
pub mod process;
pub mod record;
pub mod reply;
pub mod request;
pub mod status;
pub mod traffic;
