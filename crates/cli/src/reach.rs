//! Finds and opens the cluster that a command uses.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pario::{Cluster, ClusterOptions, Error};
use pario_server::holds_cluster;

use crate::arguments::GlobalOptions;
use crate::commands::status::ANSWER_LIMIT;

/// Most directory entries that are searched for clusters with similar names.
const ENTRIES_LOOKED_AT: usize = 1000;
/// Most clusters that the error names.
const CLUSTERS_NAMED: usize = 3;

/// Opens the cluster of the options and the environment: `--data`, `--cluster`, `PARIO_CLUSTER`, or
/// the user's running node. Warnings go to stderr.
pub fn cluster(global: &GlobalOptions) -> Result<Cluster, Error> {
    find(global, |why| eprintln!("pario: warning: {why}"))
}

/// Like [`cluster`], without warnings.
pub fn cluster_quietly(global: &GlobalOptions) -> Result<Cluster, Error> {
    find(global, |_| {})
}

fn find(global: &GlobalOptions, warn: impl Fn(&str)) -> Result<Cluster, Error> {
    let options = options(global);
    match (&global.data, &global.cluster) {
        (Some(data), _) => {
            check_data(global, data)?;
            Cluster::embedded_with(data, options)
        }
        (None, Some(address)) => Cluster::connect_with(address, options),
        (None, None) if global.host.is_some() => on_host(global.host.as_deref(), options),
        (None, None) if std::env::var_os("PARIO_CLUSTER").is_some() => {
            Cluster::from_env_with(options)
        }
        (None, None) => {
            let running = pario::status::running_nodes();
            let node = running.only()?;
            running.ignored.iter().for_each(|why| warn(why));
            Cluster::connect_to(node, options)
        }
    }
}

/// Opens the cluster on a host. A directory, or anything that is not the name of a host, is an
/// address.
fn on_host(host: Option<&str>, options: ClusterOptions) -> Result<Cluster, Error> {
    let host = host.unwrap_or_default();
    let is_name = !host.contains(['/', ':', '=']) && !Path::new(host).is_dir();
    match is_name {
        true => Cluster::connect_to_host(host, options),
        false => Cluster::connect_with(host, options),
    }
}

/// Fails if a directory, probably mistyped, holds no cluster, unless one is to be created.
pub fn check_data(global: &GlobalOptions, data: &Path) -> Result<(), Error> {
    if global.create || holds_cluster(data) {
        return Ok(());
    }
    let near = clusters_near(data);
    let near: Vec<_> = near.iter().map(|path| path.display().to_string()).collect();
    let near = match near.len() {
        0 => String::new(),
        1 => format!(" (there is one in {})", near[0]),
        _ => format!(" (there are clusters in {})", near.join(", ")),
    };
    Err(Error::NotRunning {
        text: format!(
            "there is no cluster in {0}{near}: to create one there, add --create, or start a node \
             with `pario serve --data {0}`",
            data.display()
        ),
    })
}

/// Returns the clusters beside a directory, and in it.
fn clusters_near(data: &Path) -> Vec<PathBuf> {
    let beside = match data.parent() {
        Some(parent) if parent == Path::new("") => Path::new("."),
        Some(parent) => parent,
        None => data,
    };
    let mut found = Vec::new();
    for dir in [beside, data] {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let paths = entries.take(ENTRIES_LOOKED_AT).map(|entry| entry.path());
        found.extend(paths.filter(|path| path.is_dir() && certainly_holds_cluster(path)));
    }
    found.sort();
    found.dedup();
    found.truncate(CLUSTERS_NAMED);
    found
}

/// Returns whether a directory certainly holds a cluster; false if it is unreadable.
fn certainly_holds_cluster(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok() && holds_cluster(path)
}

/// Returns the options for opening a cluster.
pub fn options(global: &GlobalOptions) -> ClusterOptions {
    ClusterOptions {
        short_cut: global.no_short_cut.then_some(false),
        key_file: global.key.clone(),
        timeout: global.timeout.map(Duration::from_secs_f64),
        client: Some("pario".to_owned()),
    }
}

/// Returns the time limit for the status of each node.
pub fn answer_limit(global: &GlobalOptions) -> Duration {
    global.timeout.map_or(ANSWER_LIMIT, Duration::from_secs_f64)
}

/// Formats the addresses at which a node listens, without the parts that only programs compare.
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
