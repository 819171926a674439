//! Which nodes and disks a cluster has.

use serde::{Deserialize, Serialize};

use crate::ids::DiskId;

/// The cluster as a client needs to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterMap {
    /// Its name.
    pub name: String,
    /// Its nodes, in the order of the configuration.
    pub nodes: Vec<NodeInfo>,
    /// Which of them keeps the namespace.
    pub interface: u32,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Its name.
    pub name: String,
    /// Where it listens, in the text form of an address of `pario-net`.
    pub address: String,
    /// Its disks.
    pub disks: Vec<DiskInfo>,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskInfo {
    /// Its number in layouts.
    pub id: DiskId,
    /// What the disk itself says it is; stays when directories are renamed.
    pub uuid: u128,
    /// Its name for people: that of the last directory of its path.
    pub label: String,
    /// Whether nothing may be changed on it.
    pub is_read_only: bool,
}

impl ClusterMap {
    /// The node that has a disk, and the disk.
    pub fn disk(&self, id: DiskId) -> Option<(u32, &DiskInfo)> {
        (0..).zip(&self.nodes).find_map(|(number, node)| {
            node.disks.iter().find(|disk| disk.id == id).map(|disk| (number, disk))
        })
    }

    /// A disk's name for people: `node/label`.
    pub fn disk_name(&self, id: DiskId) -> String {
        match self.disk(id) {
            Some((node, disk)) => format!("{}/{}", self.nodes[node as usize].name, disk.label),
            None => id.to_string(),
        }
    }
}
