//! The nodes and disks of a cluster.

use serde::{Deserialize, Serialize};

use crate::ids::DiskId;

/// The cluster, as far as a client needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterMap {
    /// Its name.
    pub name: String,
    /// Its nodes, in the order of the configuration.
    pub nodes: Vec<NodeInfo>,
    /// The index of the interface node.
    pub interface: u32,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Its name.
    pub name: String,
    /// The address on which it listens, in the text form of `pario-net`.
    pub address: String,
    /// Its disks.
    pub disks: Vec<DiskInfo>,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskInfo {
    /// Its number in layouts.
    pub id: DiskId,
    /// The id that is stored on the disk; it survives renamed directories.
    pub uuid: u128,
    /// Its display name: the last component of its path.
    pub label: String,
    /// Whether it refuses changes.
    pub is_read_only: bool,
}

impl ClusterMap {
    /// Returns the index of the node that has a disk, and the disk.
    pub fn disk(&self, id: DiskId) -> Option<(u32, &DiskInfo)> {
        (0..).zip(&self.nodes).find_map(|(number, node)| {
            node.disks.iter().find(|disk| disk.id == id).map(|disk| (number, disk))
        })
    }

    /// Returns the display name of a disk: `node/label`.
    pub fn disk_name(&self, id: DiskId) -> String {
        match self.disk(id) {
            Some((node, disk)) => format!("{}/{}", self.nodes[node as usize].name, disk.label),
            None => id.to_string(),
        }
    }
}
