//! The honest client: it creates, writes, reads and deletes files while others flood its node.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pario::{Cluster, ClusterOptions};

/// The time limit of a call.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A file that every user may read, for the floods.
pub const TARGET: &str = "/target";

/// The honest client.
pub struct HonestClient {
    cluster: Cluster,
    latencies: Vec<Result<Duration, String>>,
    turn: u64,
}

impl HonestClient {
    /// Connects without the short cut, so that every byte passes the node.
    pub fn connect(socket: &Path) -> Result<Self> {
        let options = ClusterOptions {
            short_cut: Some(false),
            client: Some("honest".to_owned()),
            timeout: Some(TIMEOUT),
            ..ClusterOptions::default()
        };
        let cluster = Cluster::connect_with(&format!("unix:{}", socket.display()), options)?;
        drop(cluster.create(TARGET)?);
        Ok(Self { cluster, latencies: Vec::new(), turn: 0 })
    }

    /// Creates a file, writes, reads and deletes it.
    pub fn work(&mut self) -> Result<()> {
        self.turn += 1;
        let path = format!("/honest-{}", self.turn);
        let file = self.cluster.create(&path)?;
        let bytes = self.turn.to_le_bytes();
        file.write_at(&bytes, 4096)?;
        let mut read = [0; 8];
        file.read_at(&mut read, 4096)?;
        ensure!(read == bytes, "{path}: the client read other bytes than it wrote");
        drop(file);
        self.cluster.remove(&path)?;
        Ok(())
    }

    /// Works once, and records the latency or the error.
    pub fn try_work(&mut self) {
        let began = Instant::now();
        let worked = self.work().map(|()| began.elapsed()).map_err(|error| format!("{error:#}"));
        self.latencies.push(worked);
    }

    /// The latency or error of each call.
    pub fn into_latencies(self) -> Vec<Result<Duration, String>> {
        self.latencies
    }
}
