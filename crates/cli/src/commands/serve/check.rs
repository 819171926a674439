//! `pario serve --check`: checks a configuration without starting a node.

use std::io::Write;
use std::path::Path;

use pario_server::config::{Config, ConfigError, NodeConfig};
use rustix::fs::{Access, access};
use serde_json::json;

use crate::amounts::count;
use crate::arguments::GlobalOptions;
use crate::exit::{AlreadyReported, FAILED};
use crate::terminal;

/// Prints all mistakes of a configuration. `nodes` run on this machine: their directories are
/// checked too. Creates nothing. Mistakes go to stdout with `--json`, otherwise to stderr.
pub fn run(
    global: &GlobalOptions,
    source: &str,
    config: Result<Config, ConfigError>,
    node: Option<&str>,
) -> anyhow::Result<()> {
    let (config, mistakes) = match config {
        Ok(config) => {
            let mistakes = mistakes(source, &config, node);
            (Some(config), mistakes)
        }
        Err(error) => (None, error.to_string().lines().map(str::to_owned).collect()),
    };
    let is_fine = mistakes.is_empty();
    if global.json {
        let nodes = config.iter().flat_map(|config| &config.nodes);
        terminal::print_json(&json!({
            "fine": is_fine,
            "mistakes": mistakes,
            "cluster": config.as_ref().map(|config| &config.name),
            "nodes": nodes.map(|node| &node.name).collect::<Vec<_>>(),
        }))?;
    } else {
        mistakes.iter().for_each(|mistake| eprintln!("{mistake}"));
        if let Some(config) = config.filter(|_| is_fine) {
            let disks: usize = config.nodes.iter().map(|node| node.disks.len()).sum();
            let mut out = terminal::output();
            writeln!(
                out,
                "{source} is fine: cluster {:?}, {}, {}",
                config.name,
                count(config.nodes.len() as u64, "node"),
                count(disks as u64, "disk")
            )?;
            out.flush()?;
        }
    }
    if is_fine { Ok(()) } else { Err(AlreadyReported(FAILED).into()) }
}

/// Returns the reasons that would keep a node from starting.
fn mistakes(source: &str, config: &Config, name: Option<&str>) -> Vec<String> {
    let Some(name) = name else { return Vec::new() };
    let node = match config.node(name) {
        Ok(node) => node,
        Err(error) => return vec![format!("{source}: {error}")],
    };
    let directories = directories(node).into_iter();
    let unusable = directories.filter_map(|(what, path, is_read_only)| {
        let why = unusable(path, is_read_only)?;
        Some(format!("{source}: node {name:?}: {what} {:?}: {why}", path.display()))
    });
    unusable.collect()
}

/// Returns the directories of a node: purpose, path, and whether it is only read.
fn directories(node: &NodeConfig) -> Vec<(&'static str, &Path, bool)> {
    let mut directories = vec![("data directory", &*node.data, false)];
    directories.extend(node.disks.iter().map(|disk| ("disk", &*disk.path, disk.is_read_only)));
    directories
}

/// Returns why a directory cannot be used or created, if so.
fn unusable(path: &Path, is_read_only: bool) -> Option<String> {
    if path.is_dir() {
        let wanted = if is_read_only { Access::READ_OK } else { Access::WRITE_OK };
        let may = access(path, wanted | Access::EXEC_OK);
        return may.err().map(|error| format!("you may not use it: {error}"));
    }
    if path.symlink_metadata().is_ok() {
        return Some("it is not a directory".to_owned());
    }
    if is_read_only {
        return Some("it does not exist, and a read-only disk is not created".to_owned());
    }
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let above = path.ancestors().skip(1).find(|above| above.symlink_metadata().is_ok())?;
    if !above.is_dir() {
        return Some(format!("it cannot be created: {} is not a directory", above.display()));
    }
    let may = access(above, Access::WRITE_OK | Access::EXEC_OK);
    may.err().map(|error| format!("it cannot be created in {}: {error}", above.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_cannot_be_used_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        assert_eq!(unusable(dir.path(), false), None);
        assert_eq!(unusable(&at("new/below"), false), None);
        assert!(!at("new").exists());
        for (name, is_read_only, told) in [
            ("file", false, "not a directory"),
            ("file/below", false, "file is not a directory"),
            ("new", true, "does not exist"),
        ] {
            let why = unusable(&at(name), is_read_only).unwrap_or_default();
            assert!(why.contains(told), "{name}: {why}");
        }
    }
}
