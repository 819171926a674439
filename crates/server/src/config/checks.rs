//! Checks of settings against each other.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pario_flow::document::nearest;
use pario_net::Key;

use super::error::{ConfigMistake, ConfigProblem};
use super::reader::{ClusterText, NodeText};

/// The longest path of a Unix socket on Linux, without the zero at its end.
const SOCKET_PATH_LIMIT_BYTES: usize = 107;

/// Returns the contradictions between settings.
pub(super) fn check(cluster: &ClusterText) -> Vec<ConfigMistake> {
    let mut checks = ConfigChecks { cluster, mistakes: Vec::new() };
    checks.nodes();
    checks.paths();
    checks.addresses();
    checks.interface();
    checks.mistakes
}

/// Checks the content and the mode of the key file.
pub(super) fn check_key(cluster: &ClusterText) -> Option<ConfigMistake> {
    let (path, line) = cluster.key_file.as_ref()?;
    let problem = key_problem(path)?;
    Some(ConfigMistake::at(*line, problem))
}

/// Returns the default socket of a node.
pub(super) fn default_socket(data: &Path) -> PathBuf {
    data.join("pario.sock")
}

struct ConfigChecks<'c> {
    cluster: &'c ClusterText,
    mistakes: Vec<ConfigMistake>,
}

/// A path that only one setting may use.
struct PathClaim<'c> {
    node: &'c NodeText,
    what: &'static str,
    path: PathBuf,
    line: usize,
}

impl<'c> ConfigChecks<'c> {
    fn nodes(&mut self) {
        if self.cluster.nodes.is_empty() {
            self.mistakes.push(ConfigMistake::at(None, ConfigProblem::NoNodes));
        }
        for node in &self.cluster.nodes {
            let name = || node.name.clone();
            let is_missing = |setting: &str| !node.wrong.iter().any(|wrong| wrong == setting);
            if node.data.is_none() && is_missing("data") {
                self.at(node.line, ConfigProblem::NoData { node: name() });
            }
            let disks = node.disks.as_ref().map_or(0, Vec::len);
            if disks == 0 && is_missing("disks") {
                self.at(node.line, ConfigProblem::NoDisks { node: name() });
            }
            if let Some((threads, line)) = node.storage_threads
                && threads > disks
                && disks > 0
            {
                self.at(line, ConfigProblem::IdleThreads { node: name(), threads, disks });
            }
            if let Some((path, line)) = socket_of(node) {
                let (bytes, limit) = (path.as_os_str().as_bytes().len(), SOCKET_PATH_LIMIT_BYTES);
                if bytes > limit {
                    self.at(line, ConfigProblem::LongSocket { node: name(), path, bytes, limit });
                }
            }
        }
    }

    /// Checks that no directory and no socket is used twice.
    fn paths(&mut self) {
        let mut claims: Vec<PathClaim<'c>> = Vec::new();
        for node in &self.cluster.nodes {
            let disks = node.disks.iter().flatten();
            let disks = disks.map(|disk| ("disk", disk.path.clone(), disk.line));
            let data = node.data.iter().map(|(path, line)| ("data directory", path.clone(), *line));
            // The default socket lies in the data directory, which has a claim itself.
            let socket = node.socket.iter().map(|(path, line)| ("socket", path.clone(), *line));
            for (what, path, line) in data.chain(socket).chain(disks) {
                let claim = PathClaim { node, what, path, line };
                let clash = claims.iter().find_map(|before| clash(before, &claim));
                if let Some((line, problem)) = clash {
                    self.at(line, problem);
                }
                claims.push(claim);
            }
        }
    }

    fn addresses(&mut self) {
        let nodes = &self.cluster.nodes;
        let has_peers = nodes.len() > 1;
        let mut seen: Vec<(SocketAddr, &NodeText, usize)> = Vec::new();
        for node in nodes {
            let name = || node.name.clone();
            let Some((listen, line)) = node.listen else {
                if has_peers && !node.wrong.iter().any(|wrong| wrong == "listen") {
                    self.at(node.line, ConfigProblem::NoListen { node: name() });
                }
                continue;
            };
            let place = listen.to_string();
            if has_peers && (listen.port() == 0 || listen.ip().is_unspecified()) {
                self.at(line, ConfigProblem::VagueListen { node: name(), listen: place.clone() });
            }
            if !self.cluster.has_key {
                self.at(line, ConfigProblem::NoKey { node: name(), listen: place.clone() });
            }
            if let Some((_, other, first)) = seen.iter().find(|(address, ..)| *address == listen) {
                let problem = ConfigProblem::Shared {
                    node: name(),
                    what: "address",
                    place,
                    other_what: "the address",
                    other: other.name.clone(),
                    line: Some(*first),
                };
                self.at(line, problem);
            }
            seen.push((listen, node, line));
        }
    }

    fn interface(&mut self) {
        if let Some((name, line)) = &self.cluster.interface {
            let names = || self.cluster.nodes.iter().map(|node| node.name.as_str());
            if !names().any(|known| known == name) {
                let suggestion = nearest(name, names());
                self.at(*line, ConfigProblem::UnknownInterface { node: name.clone(), suggestion });
            }
        }
    }

    fn at(&mut self, line: usize, problem: ConfigProblem) {
        self.mistakes.push(ConfigMistake::at(line, problem));
    }
}

fn socket_of(node: &NodeText) -> Option<(PathBuf, usize)> {
    let default = || node.data.as_ref().map(|(data, line)| (default_socket(data), *line));
    node.socket.clone().or_else(default)
}

/// Returns the problem of two claims, and the line to report.
fn clash(before: &PathClaim<'_>, claim: &PathClaim<'_>) -> Option<(usize, ConfigProblem)> {
    let node = claim.node.name.clone();
    let other = before.node.name.clone();
    if before.path == claim.path {
        let other_what = match before.what {
            "disk" => "a disk",
            "socket" => "the socket",
            _ => "the data directory",
        };
        let place = claim.path.display().to_string();
        let (what, line) = (claim.what, Some(before.line));
        let problem = ConfigProblem::Shared { node, what, place, other_what, other, line };
        return Some((claim.line, problem));
    }
    if before.what != "disk" || claim.what != "disk" {
        return None;
    }
    let nested = |inner: &PathClaim<'_>, outer: &PathClaim<'_>| {
        let problem = ConfigProblem::Nested {
            node: inner.node.name.clone(),
            path: inner.path.clone(),
            outer: outer.path.clone(),
            other: outer.node.name.clone(),
            line: outer.line,
        };
        inner.path.starts_with(&outer.path).then_some((inner.line, problem))
    };
    nested(claim, before).or_else(|| nested(before, claim))
}

fn key_problem(path: &Path) -> Option<ConfigProblem> {
    let (path, text) = (path.to_owned(), fs::read(path));
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            return Some(ConfigProblem::UnreadableKey { path, why: error.to_string() });
        }
    };
    let mode = fs::metadata(&path).map_or(0, |known| known.permissions().mode() & 0o777);
    if mode & 0o077 != 0 {
        return Some(ConfigProblem::OpenKey { path, mode });
    }
    let text = String::from_utf8_lossy(&text);
    Key::from_hex(&text).err().map(|error| ConfigProblem::BadKey { path, len: error.len })
}
