//! The configuration of a cluster: which nodes, where they listen, which disks they have.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A cluster as its file describes it, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name.
    pub name: String,
    /// Where the key is that all nodes and clients on other machines share.
    pub key_file: Option<PathBuf>,
    /// Its nodes; names and disks are all different.
    pub nodes: Vec<NodeConfig>,
    /// Which of them keeps the namespace.
    pub interface: usize,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Its name.
    pub name: String,
    /// Where it listens on TCP, if it does.
    pub listen: Option<SocketAddr>,
    /// Its Unix socket.
    pub socket: PathBuf,
    /// Whether all users of the machine may use the socket, or only the one that runs the node.
    pub all_users: bool,
    /// Where it keeps what is not on disks: the namespace, its secret.
    pub data: PathBuf,
    /// Its disks.
    pub disks: Vec<DiskConfig>,
    /// Threads that serve the disks.
    pub storage_threads: usize,
    /// Threads that compute.
    pub compute_threads: usize,
    /// Memory for extents, over all disks.
    pub cache_bytes: u64,
    /// Whether clients on the same machine may read and write flat subfiles themselves.
    pub short_cut: bool,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// Its directory.
    pub path: PathBuf,
    /// Whether nothing may be changed on it.
    pub is_read_only: bool,
}

impl Config {
    /// One node, named `local`, with four disks under a data directory.
    pub fn alone(data: &Path) -> Self {
        let disks = (0..4)
            .map(|number| DiskConfig {
                path: data.join(format!("disk{number}")),
                is_read_only: false,
            })
            .collect();
        let node = NodeConfig {
            name: "local".to_owned(),
            listen: None,
            socket: socket_of(data),
            all_users: false,
            data: data.to_owned(),
            disks,
            storage_threads: 4,
            compute_threads: std::thread::available_parallelism().map_or(2, usize::from),
            cache_bytes: 256 << 20,
            short_cut: true,
        };
        Self { name: "local".to_owned(), key_file: None, nodes: vec![node], interface: 0 }
    }
}

/// The socket of a node that is configured by its data directory alone: in the user's runtime
/// directory, because paths of sockets must be short.
fn socket_of(data: &Path) -> PathBuf {
    let hash = blake3::hash(data.as_os_str().as_encoded_bytes()).to_hex();
    pario_net::runtime_directory().join(format!("{}.sock", &hash[..12]))
}
