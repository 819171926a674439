//! Nodes of a cluster, each a process of its own.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use pario_net::Key;
use pario_server::Node;
use pario_server::config::Config;

use crate::partner::{ParentProcess, PartnerProcess, PartnerRole};

/// A node with the operations on volumes that `pario serve` has.
pub const ROLE: PartnerRole = PartnerRole { name: "slices-node", run };

fn run(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [config, name] = words else { bail!("a configuration and a name are expected") };
    let config = Config::load(Path::new(config))?;
    let node = Node::new().operations(pario_image::operations()).start_beside(&config, name)?;
    parent.send_line("ready")?;
    node.wait();
    Ok(())
}

/// Writes a key to a directory, for nodes and clients.
pub fn write_key(dir: &Path) -> Result<()> {
    let path = dir.join("key");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(file.write_all(Key::random().to_hex().as_bytes())?)
}

/// Running nodes; dropping them ends them.
pub struct Nodes {
    _running: Vec<PartnerProcess>,
}

impl Nodes {
    /// Starts all nodes of a configuration.
    pub fn start(dir: &Path, config: &Path, nodes: usize) -> Result<Self> {
        let config = config.to_str().context("the path is text")?.to_owned();
        ensure!(dir.exists(), "{} is not there", dir.display());
        let mut running = Vec::new();
        for number in 0..nodes {
            let mut node =
                PartnerProcess::start(ROLE.name, &[config.clone(), format!("n{number}")])?;
            ensure!(node.receive_line()? == "ready", "node {number} has not started");
            running.push(node);
        }
        Ok(Self { _running: running })
    }
}
