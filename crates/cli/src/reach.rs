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
        (None, None) if std::env::var_os("PARIO_CLUSTER").is_some() => {
            Cluster::from_env_with(options)
        }
        (None, None) => {
            let running = pario::running_nodes();
            let node = running.only()?;
            for why in &running.ignored {
                eprintln!("pario: warning: {why}");
            }
            Cluster::connect_to(node, options)
        }
    }
}

/// What the options say about the way to it.
pub fn options(global: &Global) -> ClusterOptions {
    ClusterOptions {
        short_cut: global.no_short_cut.then_some(false),
        key_file: global.key.clone(),
        timeout: global.timeout.map(Duration::from_secs_f64),
        client: Some("pario".to_owned()),
    }
}

/// An address for people: where the node listens, without what only programs compare.
pub fn shown_address(address: &str) -> String {
    let parts = address.split(';').filter_map(|part| part.split_once('='));
    let places = parts.filter(|(name, _)| ["unix", "tcp"].contains(name));
    let places: Vec<_> = places.map(|(name, place)| format!("{name}:{place}")).collect();
    if places.is_empty() { address.to_owned() } else { places.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_where() {
        assert_eq!(shown_address("unix=/a.sock;machine=9;space=d"), "unix:/a.sock");
        assert_eq!(shown_address("unix=/a;tcp=10.0.0.1:7411"), "unix:/a, tcp:10.0.0.1:7411");
        assert_eq!(shown_address("memory"), "memory");
    }
}
