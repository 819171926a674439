//! Computes rates: the difference of counters in two snapshots, divided by the time between them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pario::Cluster;
use pario::status::DiskStatus;
use serde_json::{Value, json};

use crate::amounts::per_second;
use crate::commands::status::NodeView;

/// The cluster at one moment.
#[derive(Debug)]
pub struct ClusterSnapshot {
    /// Time of the snapshot.
    pub at: Instant,
    /// The name of the cluster.
    pub cluster: String,
    /// Its nodes.
    pub nodes: Vec<NodeView>,
}

/// Traffic per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Requests of both kinds.
    pub requests: u64,
}

/// The rate of each disk, by its display name.
pub type Rates = HashMap<String, Rate>;

impl ClusterSnapshot {
    /// Takes a snapshot.
    pub fn at(cluster: &Cluster, within: Duration) -> Self {
        let nodes = NodeView::of(cluster, within);
        Self { at: Instant::now(), cluster: cluster.map().name, nodes }
    }

    /// Returns all disks with their display names.
    pub fn disks(&self) -> impl Iterator<Item = (String, &DiskStatus)> {
        self.nodes.iter().flat_map(|node| {
            node.disks().map(|disk| (format!("{}/{}", node.name, disk.disk.label), disk))
        })
    }

    /// Returns the rates since an earlier snapshot. A disk that was missing then has no rate. A
    /// counter that became smaller belongs to a restarted node and counts from zero.
    pub fn rates_since(&self, before: &ClusterSnapshot) -> Rates {
        let took = self.at.saturating_duration_since(before.at);
        let earlier: HashMap<_, _> = before.disks().collect();
        let mut rates = Rates::new();
        for (name, now) in self.disks() {
            let Some(then) = earlier.get(&name) else { continue };
            let rate = |counter: fn(&DiskStatus) -> u64| {
                let (now, then) = (counter(now), counter(then));
                per_second(now.checked_sub(then).unwrap_or(now), took)
            };
            let rate = Rate {
                read: rate(|disk| disk.read_bytes),
                written: rate(|disk| disk.written_bytes),
                requests: rate(|disk| disk.reads.saturating_add(disk.writes)),
            };
            rates.insert(name, rate);
        }
        rates
    }
}

/// Adds the rates to the disks in the JSON of `pario status`.
pub fn add_to_json(json: &mut Value, rates: &Rates) {
    let nodes = json["nodes"].as_array_mut().into_iter().flatten();
    for disk in nodes.flat_map(|node| node["disks"].as_array_mut().into_iter().flatten()) {
        let rate = disk["disk"].as_str().and_then(|name| rates.get(name)).copied();
        let rate = rate.unwrap_or_default();
        disk["read_bytes_per_second"] = json!(rate.read);
        disk["written_bytes_per_second"] = json!(rate.written);
        disk["requests_per_second"] = json!(rate.requests);
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::commands::status::{as_json, tests::node};

    /// Two snapshots, two seconds apart, with `read` bytes read in between.
    pub fn snapshots(read: u64) -> (ClusterSnapshot, ClusterSnapshot) {
        let at = Instant::now();
        let before = ClusterSnapshot { at, cluster: "lab".to_owned(), nodes: vec![node("a")] };
        let mut after = vec![node("a")];
        let disk = &mut after[0].status.as_mut().unwrap().disks[0];
        disk.read_bytes += read;
        disk.reads += 4;
        let at = at + Duration::from_secs(2);
        (before, ClusterSnapshot { at, cluster: "lab".to_owned(), nodes: after })
    }

    #[test]
    fn a_rate_is_the_difference_over_the_time() {
        let (before, after) = snapshots(6 << 20);
        let expected = Rate { read: 3 << 20, written: 0, requests: 2 };
        assert_eq!(after.rates_since(&before)["a/disk0"], expected);
    }

    #[test]
    fn a_node_that_was_started_again_begins_at_zero() {
        let (before, mut after) = snapshots(0);
        after.nodes[0].status.as_mut().unwrap().disks[0].read_bytes = 2 << 20;
        assert_eq!(after.rates_since(&before)["a/disk0"].read, 1 << 20);
    }

    #[test]
    fn a_disk_that_was_not_there_has_no_rate() {
        let (mut before, after) = snapshots(0);
        before.nodes.clear();
        assert!(after.rates_since(&before).is_empty());
        let mut json = as_json("lab", &after.nodes);
        add_to_json(&mut json, &Rates::new());
        assert_eq!(json["nodes"][0]["disks"][0]["read_bytes_per_second"], 0);
    }
}
