//! The status, the counters and the health of a node, for the process that runs it.

use std::sync::Weak;
use std::time::Instant;

use pario_proto::{DiskStatus, NodeStatus};

use crate::limits::Resource;
use crate::node_state::NodeState;
use crate::request_meter::RequestCounts;

/// A large disk with less free space than this is full.
const FULL_BYTES: u64 = 1 << 30;
/// A small disk is full if its free space is below its size divided by this.
const FULL_PART: u64 = 100;

/// A monitor of a node in this process. It does not keep the node running.
#[derive(Clone)]
pub struct NodeMonitor {
    shared: Weak<NodeState>,
}

/// The status and the counters of a node at one time.
#[derive(Clone, Debug)]
pub struct NodeReport {
    /// The name of the cluster.
    pub cluster: String,
    /// The status that `pario status` shows.
    pub status: NodeStatus,
    /// The requests that the node has answered, by kind.
    pub requests: Vec<RequestCounts>,
    /// The number of failed requests of each disk, in the order of the status.
    pub disk_errors: Vec<u64>,
    /// The use of limited resources by all users.
    pub usage: Vec<ResourceUse>,
}

/// The use of a limited resource by all users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceUse {
    /// The resource, as one word.
    pub resource: &'static str,
    /// The amount in use.
    pub used: u64,
    /// The limit.
    pub limit: u64,
}

/// The resources that users take in shares, so that the node counts them over all users.
const COUNTED: [(Resource, &str); 6] = [
    (Resource::Sessions, "clients"),
    (Resource::Handles, "open_files"),
    (Resource::Waits, "waits"),
    (Resource::Locks, "locks"),
    (Resource::Calls, "calls"),
    (Resource::ChosenExtents, "chosen_extents"),
];

impl NodeMonitor {
    pub(super) fn new(shared: Weak<NodeState>) -> Self {
        Self { shared }
    }

    /// Returns a report of the node; `None` after it has stopped.
    pub fn report(&self) -> Option<NodeReport> {
        let shared = self.shared.upgrade()?;
        let usage = |(resource, name): &(Resource, &'static str)| ResourceUse {
            resource: name,
            used: shared.quotas.used(*resource),
            limit: resource.limit().total,
        };
        Some(NodeReport {
            cluster: shared.config.name.clone(),
            status: status(&shared),
            requests: shared.requests.counts(),
            disk_errors: shared.disks.error_counts(),
            usage: COUNTED.iter().map(usage).collect(),
        })
    }

    /// Returns a sentence for each reason why the node cannot serve as it should; none if it is
    /// healthy. Reads no disk, so that it answers while a disk hangs.
    pub fn problems(&self) -> Vec<String> {
        let Some(shared) = self.shared.upgrade() else {
            return vec!["the node has stopped".to_owned()];
        };
        let name = shared.name();
        let mut problems = Vec::new();
        if shared.shutdown.is_requested() {
            problems.push(format!("node {name} is stopping"));
        }
        let interface = &shared.config.nodes[shared.config.interface].name;
        if shared.interface.is_none() {
            if shared.grant_window.read().epoch().is_none() {
                problems.push(format!(
                    "node {name} has not reached node {interface}, which keeps the namespace, \
                     since it was started: start {interface}, or look at the network"
                ));
            } else if let Some(trouble) = shared.peers.trouble(shared.config.interface) {
                problems.push(format!(
                    "node {name} cannot reach node {interface}, which keeps the namespace: \
                     {trouble}"
                ));
            }
        } else if !shared.node().data.join("namespace.redb").exists() {
            let data = shared.node().data.display();
            problems.push(format!(
                "the namespace, namespace.redb, is missing from {data}: the node uses the deleted \
                 file until it stops; copy the data of the cluster elsewhere before that"
            ));
        }
        problems.extend(
            shared.rebuild.refusal(&shared.config, shared.me).map(|failure| failure.to_string()),
        );
        let disks = shared.disks.status(&[]);
        problems.extend(disks.iter().filter_map(|disk| problem_of_disk(name, disk)));
        problems.extend(shared.disks.recent_errors());
        problems
    }
}

impl std::fmt::Debug for NodeMonitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeMonitor")
    }
}

/// Returns the status of a node.
pub fn status(shared: &NodeState) -> NodeStatus {
    let config = shared.node();
    let (requests, oldest_request_ms) = shared.shutdown.under_way();
    let interface = shared.interface.as_ref();
    let cache = shared.disks.cache().stat();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    NodeStatus {
        name: config.name.clone(),
        pid: std::process::id(),
        uptime_ms: u64::try_from(shared.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        is_stopping: shared.shutdown.is_requested(),
        is_interface: interface.is_some(),
        disks: shared.disks.status(&shared.short_cut_traffic.collect(Instant::now())),
        storage_threads: number(shared.storage_threads.count()),
        compute_threads: number(config.compute_threads),
        requests,
        oldest_request_ms,
        clients: shared
            .sessions
            .status(|space| interface.map_or(0, |interface| interface.open_files.count_of(space))),
        open_files: interface.map_or(0, |interface| interface.open_files.count()),
        files: interface.and_then(|interface| interface.namespace.count().ok()).unwrap_or(0),
        unfinished_deletions: interface
            .and_then(|interface| interface.namespace.tombstones().ok())
            .map_or(0, |doomed| doomed.len() as u64),
        cache_bytes: cache.bytes,
        cache_hits: cache.hits,
        cache_misses: cache.misses,
        peers: shared.peers.status(shared.me),
        threads: shared.storage_threads.status(|disk| shared.disks.disk(disk).name.clone()),
    }
}

fn problem_of_disk(node: &str, disk: &DiskStatus) -> Option<String> {
    let (label, path) = (&disk.disk.label, &disk.path);
    if let Some(trouble) = &disk.trouble {
        return Some(format!("disk {node}/{label} ({path}) is failing: {trouble}"));
    }
    is_full(disk).then(|| {
        let free_bytes = disk.free_bytes;
        format!(
            "disk {node}/{label} ({path}) is full, with {free_bytes} bytes free: delete files, or \
             add a disk"
        )
    })
}

/// Returns whether a disk is nearly full. A read-only disk is never full.
pub fn is_full(disk: &DiskStatus) -> bool {
    !disk.disk.is_read_only && disk.free_bytes < FULL_BYTES.min(disk.total_bytes / FULL_PART)
}

#[cfg(test)]
mod tests {
    use pario_proto::{DiskId, DiskInfo};

    use super::*;

    fn disk(total_bytes: u64, free_bytes: u64) -> DiskStatus {
        let disk =
            DiskInfo { id: DiskId(0), uuid: 1, label: "disk0".to_owned(), is_read_only: false };
        DiskStatus {
            disk,
            path: "/mnt/d0".to_owned(),
            total_bytes,
            free_bytes,
            reads: 0,
            read_bytes: 0,
            writes: 0,
            written_bytes: 0,
            queue: 0,
            trouble: None,
        }
    }

    #[test]
    fn a_disk_is_full_at_one_percent_or_one_gibibyte() {
        assert!(!is_full(&disk(1000, 10)) && is_full(&disk(1000, 9)));
        let large = 1 << 50;
        assert!(!is_full(&disk(large, 1 << 30)) && is_full(&disk(large, (1 << 30) - 1)));
        let mut archive = disk(1000, 0);
        archive.disk.is_read_only = true;
        assert!(!is_full(&archive));
    }

    #[test]
    fn a_problem_names_the_disk_and_the_remedy() {
        assert_eq!(problem_of_disk("a", &disk(1000, 500)), None);
        let full = problem_of_disk("a", &disk(1000, 5)).unwrap();
        assert_eq!(
            full,
            "disk a/disk0 (/mnt/d0) is full, with 5 bytes free: delete files, or add a disk"
        );
        let mut stuck = disk(1000, 500);
        stuck.trouble = Some("it has finished nothing for 4 s".to_owned());
        let problem = problem_of_disk("a", &stuck).unwrap();
        assert_eq!(problem, "disk a/disk0 (/mnt/d0) is failing: it has finished nothing for 4 s");
    }
}
