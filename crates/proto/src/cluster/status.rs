//! How a node is doing.

use serde::{Deserialize, Serialize};

use super::map::DiskInfo;

/// A node at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// How long it has been running.
    pub uptime_ms: u64,
    /// Whether it is stopping.
    pub is_stopping: bool,
    /// Whether it keeps the namespace.
    pub is_interface: bool,
    /// Its disks.
    pub disks: Vec<DiskStatus>,
    /// Threads that serve disks.
    pub storage_threads: u32,
    /// Threads that compute.
    pub compute_threads: u32,
    /// Requests under way.
    pub requests: u64,
    /// The oldest of them, in milliseconds.
    pub oldest_request_ms: u64,
    /// Clients that are connected.
    pub clients: Vec<ClientStatus>,
    /// Files that clients have open; known to the interface node only.
    pub open_files: u64,
    /// Files and directories; known to the interface node only.
    pub files: u64,
    /// Deletions that are not finished; known to the interface node only.
    pub unfinished_deletions: u64,
    /// Extents in memory: bytes, hits, misses.
    pub cache_bytes: u64,
    /// Reads answered from memory.
    pub cache_hits: u64,
    /// Reads that were not.
    pub cache_misses: u64,
    /// Other nodes, as this one sees them.
    pub peers: Vec<PeerStatus>,
}

/// A disk at one moment. Counts are since the node was started; they contain what clients on the same
/// machine read and write by themselves, as they count it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// Which one.
    pub disk: DiskInfo,
    /// Its directory.
    pub path: String,
    /// Size of its file system.
    pub total_bytes: u64,
    /// What is free there.
    pub free_bytes: u64,
    /// Requests that read.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Requests that wrote.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests that wait for it or are under way.
    pub queue: u64,
    /// Why it cannot be used, if so.
    pub trouble: Option<String>,
}

/// A client at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// What it is called.
    pub name: String,
    /// As whom it is known.
    pub uid: u32,
    /// Requests it has made.
    pub requests: u64,
    /// Files it has open; known to the interface node only.
    pub open_files: u64,
}

/// Another node, as seen from one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// Whether it answers.
    pub is_there: bool,
    /// What was wrong the last time it did not.
    pub trouble: Option<String>,
}
