//! The cluster that a job uses: a running one, or a node in this process.

use std::ffi::OsString;
use std::path::{Path, absolute};

use anyhow::Context;
use pario::Error;
use pario_server::config::Config;
use pario_server::{Node, NodeBuilder, NodeError};

use crate::arguments::GlobalOptions;
use crate::commands::serve;
use crate::reach;

/// The cluster of a job.
#[derive(Debug)]
pub struct JobCluster {
    /// Its address, valid in every directory.
    pub address: String,
    /// The node in this process, if there is one.
    node: Option<Node>,
}

impl JobCluster {
    /// Finds the cluster that options and environment name. Starts a node in this process for
    /// `--data`, and if no cluster is named and none runs.
    pub fn find(global: &GlobalOptions) -> anyhow::Result<Self> {
        if let Some(data) = &global.data {
            return Self::embed(data, NodeBuilder::start_beside);
        }
        let meant = global.cluster.clone().or_else(|| std::env::var("PARIO_CLUSTER").ok());
        match (reach::cluster(global), meant) {
            (Ok(_), Some(address)) => Ok(Self { address: absolute_address(&address)?, node: None }),
            (Ok(cluster), None) => {
                let map = cluster.map();
                let address = map.nodes[map.interface as usize].address.clone();
                Ok(Self { address, node: None })
            }
            (Err(Error::NotRunning { .. }), None) => {
                Self::embed(Path::new(serve::DEFAULT_DATA), NodeBuilder::start)
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    fn embed(
        data: &Path,
        start: impl FnOnce(NodeBuilder, &Config, &str) -> Result<Node, NodeError>,
    ) -> anyhow::Result<Self> {
        serve::log()?;
        let config = Config::alone(data);
        let node = start(serve::node(), &config, &config.nodes[0].name)?;
        Ok(Self { address: node.address(), node: Some(node) })
    }

    /// Returns the environment variables of the processes.
    pub fn environment(
        &self,
        global: &GlobalOptions,
    ) -> anyhow::Result<Vec<(&'static str, OsString)>> {
        let mut environment = vec![("PARIO_CLUSTER", self.address.clone().into())];
        if let Some(key) = &global.key {
            let key = absolute(key).with_context(|| format!("the key {}", key.display()))?;
            environment.push(("PARIO_KEY", key.into()));
        }
        if global.no_short_cut {
            environment.push(("PARIO_SHORT_CUT", "0".into()));
        }
        Ok(environment)
    }

    /// Stops the node, if there is one.
    pub fn stop(self) {
        if let Some(node) = self.node {
            node.stop();
        }
    }
}

/// Returns an address that means the same in every directory.
fn absolute_address(address: &str) -> anyhow::Result<String> {
    let place = |path: &str| -> anyhow::Result<String> {
        let path = absolute(path).with_context(|| format!("the address {address}"))?;
        Ok(path.display().to_string())
    };
    if let Some(path) = address.strip_prefix("unix:") {
        return Ok(format!("unix:{}", place(path)?));
    }
    let is_place = !address.starts_with("tcp:") && !address.contains('=');
    if is_place && (address.contains('/') || Path::new(address).is_dir()) {
        return place(address);
    }
    Ok(address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_mean_the_same_everywhere() {
        let here = std::env::current_dir().unwrap();
        for (given, expected) in [
            ("tcp:10.0.0.1:7411", "tcp:10.0.0.1:7411".to_owned()),
            ("host:7411", "host:7411".to_owned()),
            ("unix=/a/b.sock;machine=7", "unix=/a/b.sock;machine=7".to_owned()),
            ("unix:b.sock", format!("unix:{}/b.sock", here.display())),
            ("a/b.sock", format!("{}/a/b.sock", here.display())),
            ("src", format!("{}/src", here.display())),
            ("/a/b", "/a/b".to_owned()),
        ] {
            assert_eq!(absolute_address(given).unwrap(), expected);
        }
    }
}
