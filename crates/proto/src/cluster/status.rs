//! The status of a node.

use serde::{Deserialize, Serialize};

use super::map::DiskInfo;
use crate::ids::FileId;

/// The status of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// How long it has been running.
    pub uptime_ms: u64,
    /// Whether it is stopping.
    pub is_stopping: bool,
    /// Whether it is the interface node.
    pub is_interface: bool,
    /// Its disks.
    pub disks: Vec<DiskStatus>,
    /// Threads that serve disks.
    pub storage_threads: u32,
    /// Threads that compute.
    pub compute_threads: u32,
    /// Requests under way.
    pub requests: u64,
    /// The age of the oldest of them, in milliseconds.
    pub oldest_request_ms: u64,
    /// Clients that are connected.
    pub clients: Vec<ClientStatus>,
    /// Files that clients have open; only the interface node knows this.
    pub open_files: u64,
    /// Files and directories; only the interface node knows this.
    pub files: u64,
    /// Deletions that are not finished; only the interface node knows this.
    pub unfinished_deletions: u64,
    /// Bytes of extents in the cache.
    pub cache_bytes: u64,
    /// Reads from the cache.
    pub cache_hits: u64,
    /// Reads that missed the cache.
    pub cache_misses: u64,
    /// The other nodes, as this one sees them.
    pub peers: Vec<PeerStatus>,
    /// The storage threads, in order.
    pub threads: Vec<StorageThreadStatus>,
}

/// The status of a storage thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageThreadStatus {
    /// The request that it serves, and its disk; `None` if it is idle.
    pub serves: Option<String>,
    /// How long it has served that request, in milliseconds.
    pub serves_ms: Option<u64>,
    /// Requests that wait for it.
    pub waiting: u64,
    /// Requests that it has served.
    pub served: u64,
    /// The file of the request that it serves.
    pub file: Option<FileId>,
}

/// The status of a disk. Counts begin with the start of the node; they include what clients on the
/// same machine read and write through descriptors, as the clients count it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// The disk.
    pub disk: DiskInfo,
    /// Its directory.
    pub path: String,
    /// Size of its file system.
    pub total_bytes: u64,
    /// The free bytes of it.
    pub free_bytes: u64,
    /// Requests that read.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Requests that wrote.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests that wait for the disk or are under way.
    pub queue: u64,
    /// Why it cannot be used, if so.
    pub trouble: Option<String>,
}

/// The status of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// Its display name.
    pub name: String,
    /// The user under which it is known.
    pub uid: u32,
    /// Requests it has made.
    pub requests: u64,
    /// Files that it has open; only the interface node knows this.
    pub open_files: u64,
}

/// Another node, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// Whether it answers.
    pub is_there: bool,
    /// The last error, if it does not answer.
    pub trouble: Option<String>,
}
