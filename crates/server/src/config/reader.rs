//! The reader of configurations: from TOML to the settings as written, with the lines that the checks
//! need.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use bytesize::ByteSize;
use pario_flow::document::{Document, DocumentError, DocumentKey, DocumentTable, DocumentValue};

use super::error::{ConfigMistake, ConfigProblem};
use super::{CONCURRENT_REQUESTS_LIMIT, ShortCut};

/// A value that was written, and its line.
pub(super) type Lined<T> = (T, usize);

/// A cluster as it was written.
#[derive(Debug, Default)]
pub(super) struct ClusterText {
    pub name: Option<String>,
    pub key_file: Option<Lined<PathBuf>>,
    /// Whether there is a `key_file`, right or wrong.
    pub has_key: bool,
    pub interface: Option<Lined<String>>,
    pub grant_epoch: Option<Duration>,
    pub nodes: Vec<NodeText>,
}

/// A node as it was written.
#[derive(Debug, Default)]
pub(super) struct NodeText {
    pub name: String,
    pub line: usize,
    pub listen: Option<Lined<SocketAddr>>,
    pub socket: Option<Lined<PathBuf>>,
    pub data: Option<Lined<PathBuf>>,
    /// `None` if there is no such setting, or if it is not a list.
    pub disks: Option<Vec<DiskText>>,
    pub storage_threads: Option<Lined<usize>>,
    pub concurrent_requests: Option<usize>,
    pub compute_threads: Option<usize>,
    pub cache_bytes: Option<u64>,
    pub all_users: Option<bool>,
    pub short_cut: Option<ShortCut>,
    /// `Some(None)` turns the warning off.
    pub wait_warning: Option<Option<Duration>>,
    pub audit: Option<bool>,
    /// Settings that are wrong; the checks do not report them as missing too.
    pub wrong: Vec<String>,
}

/// A disk as it was written.
#[derive(Debug)]
pub(super) struct DiskText {
    pub path: PathBuf,
    pub is_read_only: bool,
    pub latency: Option<Duration>,
    pub bytes_per_second: Option<NonZeroU64>,
    pub line: usize,
}

const CLUSTER_KEYS: [&str; 5] = ["name", "key_file", "interface", "grant_epoch_seconds", "nodes"];
const NODE_KEYS: [&str; 12] = [
    "listen",
    "socket",
    "data",
    "disks",
    "storage_threads",
    "concurrent_requests",
    "compute_threads",
    "cache",
    "all_users",
    "short_cut",
    "wait_warning_seconds",
    "audit",
];
const DISK_KEYS: [&str; 4] = ["path", "read_only", "latency_ms", "mb_per_s"];
const THREADS_LIMIT: u64 = 1024;
const NAME_LIMIT: usize = 64;
const SECONDS_LIMIT: f64 = 86_400.0;
const GRANT_EPOCH_LIMIT_S: f64 = 3_600.0;
const LATENCY_LIMIT_MS: f64 = 10_000.0;
const MB_PER_S_LEAST: f64 = 0.001;
const MB_PER_S_LIMIT: f64 = 100_000.0;

/// Reads one text, and collects every mistake.
#[derive(Default)]
pub(super) struct ConfigReader {
    mistakes: Vec<ConfigMistake>,
}

impl ConfigReader {
    /// Returns the settings as written, and the mistakes. A text that is not TOML has only syntax
    /// errors.
    pub(super) fn read(text: &str) -> (Option<ClusterText>, Vec<ConfigMistake>) {
        let document = match Document::parse(text) {
            Ok(document) => document,
            Err(errors) => return (None, errors.into_iter().map(ConfigMistake::from).collect()),
        };
        let mut reader = ConfigReader::default();
        let cluster = reader.cluster(document.root());
        (Some(cluster), reader.mistakes)
    }

    /// Returns a value that was read, or records the mistake.
    fn take<T>(&mut self, read: Result<T, impl Into<ConfigMistake>>) -> Option<T> {
        read.map_err(|mistake| self.mistakes.push(mistake.into())).ok()
    }

    fn cluster(&mut self, root: DocumentTable<'_>) -> ClusterText {
        let mut cluster = ClusterText::default();
        for (key, value) in root.entries() {
            match key.name() {
                "name" => {
                    if let Some(name) = self.take(value.string("name")) {
                        self.check_name("cluster", name, value.line());
                        cluster.name = Some(name.to_owned());
                    }
                }
                "key_file" => {
                    cluster.has_key = true;
                    cluster.key_file = self.take(path("key_file", value));
                }
                "interface" => {
                    let name = self.take(value.string("interface"));
                    cluster.interface = name.map(|name| (name.to_owned(), value.line()));
                }
                "grant_epoch_seconds" => cluster.grant_epoch = self.take(grant_epoch(value)),
                "nodes" => {
                    let nodes = value.require(value.as_table(), "nodes", "a table for each node");
                    let nodes = self.take(nodes).map(|nodes| nodes.entries()).unwrap_or_default();
                    for (key, value) in nodes {
                        cluster.nodes.push(self.node(key, value));
                    }
                }
                _ => self.mistakes.push(key.unknown("a cluster", &CLUSTER_KEYS).into()),
            }
        }
        cluster
    }

    fn node(&mut self, key: DocumentKey<'_>, value: DocumentValue<'_>) -> NodeText {
        let (name, line) = (key.name(), key.line());
        self.check_name("node", name, line);
        let mut node = NodeText { name: name.to_owned(), line, ..NodeText::default() };
        let table = value.require(value.as_table(), &format!("node \"{name}\""), "a table");
        let Some(table) = self.take(table) else {
            node.wrong = NODE_KEYS.map(str::to_owned).to_vec();
            return node;
        };
        for (key, value) in table.entries() {
            let before = self.mistakes.len();
            let setting = key.name();
            let what = format!("node \"{name}\": {setting}");
            match setting {
                "listen" => node.listen = self.take(address(&what, value)),
                "socket" => node.socket = self.take(path(&what, value)),
                "data" => node.data = self.take(path(&what, value)),
                "disks" => node.disks = self.disks(name, value),
                "storage_threads" => {
                    let count = self.take(threads(&what, value));
                    node.storage_threads = count.map(|count| (count, value.line()));
                }
                "concurrent_requests" => {
                    node.concurrent_requests = self.take(concurrent_requests(&what, value));
                }
                "compute_threads" => node.compute_threads = self.take(threads(&what, value)),
                "cache" => node.cache_bytes = self.take(size(&what, value)),
                "all_users" => node.all_users = self.take(flag(&what, value)),
                "short_cut" => node.short_cut = self.take(short_cut(&what, value)),
                "wait_warning_seconds" => {
                    node.wait_warning = self.take(seconds_or_never(&what, value));
                }
                "audit" => node.audit = self.take(flag(&what, value)),
                _ => {
                    let unknown = key.unknown(format!("node \"{name}\""), &NODE_KEYS);
                    self.mistakes.push(unknown.into());
                }
            }
            if self.mistakes.len() > before {
                node.wrong.push(setting.to_owned());
            }
        }
        node
    }

    fn disks(&mut self, node: &str, value: DocumentValue<'_>) -> Option<Vec<DiskText>> {
        let what = format!("node \"{node}\": disks");
        let items = self.take(value.require(value.as_array(), &what, "a list of directories"))?;
        Some(items.filter_map(|disk| self.disk(node, disk)).collect())
    }

    fn disk(&mut self, node: &str, value: DocumentValue<'_>) -> Option<DiskText> {
        const EXPECTED: &str = "a directory, or a table such as { path = \"/mnt/d0\" }";
        let what = format!("node \"{node}\": disk");
        let (mut place, mut is_read_only) = (None, false);
        let (mut latency_ms, mut bytes_per_second) = (None, None);
        if value.as_str().is_some() {
            place = Some(self.take(path(&what, value)));
        } else {
            let table = self.take(value.require(value.as_table(), &what, EXPECTED))?;
            for (key, value) in table.entries() {
                let what_of = format!("{what}: {}", key.name());
                match key.name() {
                    "path" => place = Some(self.take(path(&what, value))),
                    "read_only" => {
                        is_read_only = self.take(flag(&what_of, value)).unwrap_or(false);
                    }
                    "latency_ms" => latency_ms = self.take(latency(&what_of, value)),
                    "mb_per_s" => bytes_per_second = self.take(rate(&what_of, value)),
                    _ => {
                        let unknown = key.unknown(format!("a disk of node \"{node}\""), &DISK_KEYS);
                        self.mistakes.push(unknown.into());
                    }
                }
            }
            if place.is_none() {
                self.mistakes.push(value.wrong_type(&what, EXPECTED).into());
            }
        }
        let (path, line) = place??;
        Some(DiskText { path, is_read_only, latency: latency_ms, bytes_per_second, line })
    }

    /// Restricts names, because they stand before slashes and colons in paths and messages.
    fn check_name(&mut self, what: &'static str, name: &str, line: usize) {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        let is_good = name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(is_plain)
            && name.len() <= NAME_LIMIT;
        if !is_good {
            let problem = ConfigProblem::BadName { what, name: name.to_owned() };
            self.mistakes.push(ConfigMistake::at(line, problem));
        }
    }
}

fn address(what: &str, value: DocumentValue<'_>) -> Result<Lined<SocketAddr>, DocumentError> {
    const EXPECTED: &str = "an address and a port, such as \"10.0.0.1:7411\"";
    let address = value.as_str().and_then(|text| text.parse().ok());
    Ok((value.require(address, what, EXPECTED)?, value.line()))
}

fn path(what: &str, value: DocumentValue<'_>) -> Result<Lined<PathBuf>, ConfigMistake> {
    let text = value.require(value.as_str(), what, "a path")?;
    // Components have no doubled slashes and single dots, so equal paths compare equal.
    let path: PathBuf = Path::new(text).components().collect();
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        let problem = ConfigProblem::NotAbsolute { what: what.to_owned(), path: text.into() };
        return Err(ConfigMistake::at(value.line(), problem));
    }
    Ok((path, value.line()))
}

fn threads(what: &str, value: DocumentValue<'_>) -> Result<usize, DocumentError> {
    let number = value.as_integer().filter(|number| (1..=THREADS_LIMIT).contains(number));
    let number = number.and_then(|number| usize::try_from(number).ok());
    value.require(number, what, "a number from 1 to 1024")
}

fn concurrent_requests(what: &str, value: DocumentValue<'_>) -> Result<usize, DocumentError> {
    let number = value.as_integer().and_then(|number| usize::try_from(number).ok());
    let number = number.filter(|number| (1..=CONCURRENT_REQUESTS_LIMIT).contains(number));
    value.require(number, what, "a number from 1 to 256")
}

fn size(what: &str, value: DocumentValue<'_>) -> Result<u64, DocumentError> {
    let size = match value.as_str() {
        Some(text) => text.parse().ok().map(|size: ByteSize| size.as_u64()),
        None => value.as_integer(),
    };
    value.require(size, what, "a size, such as \"256MiB\"")
}

/// Reads a duration; zero means never.
fn seconds_or_never(
    what: &str,
    value: DocumentValue<'_>,
) -> Result<Option<Duration>, DocumentError> {
    let seconds = value.as_number().filter(|seconds| (0.0..=SECONDS_LIMIT).contains(seconds));
    let seconds = value.require(seconds, what, "a number of seconds, such as 10 or 0.5")?;
    Ok(Some(Duration::from_secs_f64(seconds)).filter(|duration| !duration.is_zero()))
}

fn grant_epoch(value: DocumentValue<'_>) -> Result<Duration, DocumentError> {
    const EXPECTED: &str = "a number of seconds from 1 to 3600, such as 30";
    let seconds = value.as_number().filter(|seconds| (1.0..=GRANT_EPOCH_LIMIT_S).contains(seconds));
    value.require(seconds, "grant_epoch_seconds", EXPECTED).map(Duration::from_secs_f64)
}

fn latency(what: &str, value: DocumentValue<'_>) -> Result<Duration, DocumentError> {
    const EXPECTED: &str = "a number of milliseconds from 0 to 10000, such as 13.8";
    let ms = value.as_number().filter(|ms| (0.0..=LATENCY_LIMIT_MS).contains(ms));
    value.require(ms, what, EXPECTED).map(|ms| Duration::from_secs_f64(ms / 1e3))
}

/// Reads megabytes per second; returns bytes per second.
fn rate(what: &str, value: DocumentValue<'_>) -> Result<NonZeroU64, DocumentError> {
    const EXPECTED: &str = "a number of megabytes per second from 0.001 to 100000, such as 3.5";
    let rate = value.as_number().filter(|rate| (MB_PER_S_LEAST..=MB_PER_S_LIMIT).contains(rate));
    #[expect(clippy::cast_possible_truncation, reason = "the limits are far below 2^64")]
    let rate = rate.and_then(|rate| NonZeroU64::new((rate * 1e6).round() as u64));
    value.require(rate, what, EXPECTED)
}

fn flag(what: &str, value: DocumentValue<'_>) -> Result<bool, DocumentError> {
    value.require(value.as_bool(), what, "true or false")
}

fn short_cut(what: &str, value: DocumentValue<'_>) -> Result<ShortCut, DocumentError> {
    let short_cut = match (value.as_bool(), value.as_str()) {
        (Some(true), _) | (_, Some("write")) => Some(ShortCut::Write),
        (Some(false), _) | (_, Some("off")) => Some(ShortCut::Off),
        (_, Some("read")) => Some(ShortCut::Read),
        _ => None,
    };
    value.require(short_cut, what, "\"write\", \"read\" or \"off\"")
}
