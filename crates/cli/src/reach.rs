//! Which cluster a command is about, and how it is reached.

use std::time::Duration;

use pario::{Cluster, ClusterOptions, Error};

use crate::arguments::Global;

/// The cluster that the options and the environment mean: `--data`, `--cluster`, `PARIO_CLUSTER`,
/// or the user's running node.
pub fn cluster(global: &Global) -> Result<Cluster, Error> {
    let options = options(global);
    match (&global.data, &global.cluster) {
        (Some(data), _) => Cluster::embedded_with(data, options),
        (None, Some(address)) => Cluster::connect_with(address, options),
        (None, None) => Cluster::from_env_with(options),
    }
}

/// What the options say about the way to it.
pub fn options(global: &Global) -> ClusterOptions {
    ClusterOptions {
        short_cut: global.no_short_cut.then_some(false),
        key_file: global.key.clone(),
        timeout: global.timeout.map(Duration::from_secs_f64),
        client: Some(format!("pario[{}]", std::process::id())),
    }
}
