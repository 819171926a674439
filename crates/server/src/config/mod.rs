//! The configuration of a cluster: its nodes, their addresses, their disks.
//!
//! `reader` reads the text, `checks` finds settings that contradict each other, `error` holds the
//! messages. A configuration is refused with all its mistakes, not only the first.

mod checks;
mod error;
mod reader;
#[cfg(test)]
mod tests;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pario_store::medium::Pace;

pub use error::{ConfigError, ConfigMistake, ConfigProblem, UnknownNode};
use reader::{ClusterText, ConfigReader, DiskText, NodeText};

/// The default size of the extent cache.
const DEFAULT_CACHE_BYTES: u64 = 256 << 20;

/// Requests that a disk has under way: an SSD is busy with as many.
const DEFAULT_CONCURRENT_REQUESTS: usize = 16;

/// The most data requests that the threads of a disk serve at once.
pub const CONCURRENT_REQUESTS_LIMIT: usize = 256;

/// The default time after which a node warns of ranks that wait for each other.
const DEFAULT_WAIT_WARNING: Duration = Duration::from_secs(10);

/// The default length of a grant epoch.
const DEFAULT_GRANT_EPOCH: Duration = Duration::from_secs(30);

/// The checked configuration of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name.
    pub name: String,
    /// The file with the key that all nodes and the clients on other machines share.
    pub key_file: Option<PathBuf>,
    /// Its nodes; all names and disks differ.
    pub nodes: Vec<NodeConfig>,
    /// The index of the interface node, which keeps the namespace.
    pub interface: usize,
    /// The length of a grant epoch; a grant is valid for ten epochs.
    pub grant_epoch: Duration,
    /// The configuration file, for the log.
    pub source: Option<PathBuf>,
}

/// The configuration of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Its name.
    pub name: String,
    /// Its TCP address, if it listens on TCP.
    pub listen: Option<SocketAddr>,
    /// Its Unix socket.
    pub socket: PathBuf,
    /// Whether all users of the machine may use the socket, or only the user that runs the node.
    pub all_users: bool,
    /// The directory for everything that is not on disks: the namespace, its secret.
    pub data: PathBuf,
    /// Its disks.
    pub disks: Vec<DiskConfig>,
    /// Threads that drive the disks, each a share of them.
    pub storage_threads: usize,
    /// Requests that each disk has under way at once.
    pub concurrent_requests: usize,
    /// Threads that compute.
    pub compute_threads: usize,
    /// The size of the extent cache, over all disks.
    pub cache_bytes: u64,
    /// The access of clients on the same machine to flat subfiles.
    pub short_cut: ShortCut,
    /// The time after which the node warns of ranks that wait for each other; `None` for never.
    pub wait_warning: Option<Duration>,
    /// Whether the node keeps an audit log.
    pub audit: bool,
}

/// The descriptors of flat subfiles that a node passes to clients on its machine.
///
/// A client that keeps a descriptor can read or write the bytes of that one subfile until the subfile
/// is deleted, also after a change of rights. It can never reach the description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShortCut {
    /// Descriptors for readers and writers.
    #[default]
    Write,
    /// Read-only descriptors for clients that have opened a file for reading only; writers go through
    /// the node.
    Read,
    /// No descriptors.
    Off,
}

/// The configuration of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// Its directory.
    pub path: PathBuf,
    /// Whether the node may not write to it.
    pub is_read_only: bool,
    /// The pace of a slower disk to imitate.
    pub pace: Option<Pace>,
}

impl DiskConfig {
    /// Returns the configuration of a writable disk in a directory, at its own pace.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), is_read_only: false, pace: None }
    }
}

impl Config {
    /// Returns the configuration of one node, named `local`, with four disks in its data directory.
    pub fn alone(data: &Path) -> Self {
        let disk = |number| DiskConfig::at(data.join(format!("disk{number}")));
        let disks: Vec<_> = (0..4).map(disk).collect();
        let node = NodeConfig {
            name: "local".to_owned(),
            listen: None,
            socket: socket_of(data),
            all_users: false,
            data: data.to_owned(),
            storage_threads: default_storage_threads(disks.len()),
            disks,
            concurrent_requests: DEFAULT_CONCURRENT_REQUESTS,
            compute_threads: processors(),
            cache_bytes: DEFAULT_CACHE_BYTES,
            short_cut: ShortCut::Write,
            wait_warning: Some(DEFAULT_WAIT_WARNING),
            audit: true,
        };
        Self {
            name: "local".to_owned(),
            key_file: None,
            nodes: vec![node],
            interface: 0,
            grant_epoch: DEFAULT_GRANT_EPOCH,
            source: None,
        }
    }

    /// Reads a configuration file, and checks the key file that it names.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text =
            fs::read_to_string(path).map_err(|error| ConfigError::unreadable(path, &error))?;
        let config = Self::read(&text, &path.display().to_string(), true)?;
        Ok(Self { source: Some(path.to_owned()), ..config })
    }

    /// Parses the text of a configuration; messages call the file `source`. This reads no files.
    ///
    /// ```
    /// use pario_server::config::Config;
    ///
    /// let text = r#"
    ///     [nodes.a]
    ///     data = "/var/lib/pario"
    ///     disks = ["/mnt/d0", { path = "/mnt/archive", read_only = true }]
    ///     storage_threads = 2
    /// "#;
    /// let config = Config::parse(text, "cluster.toml")?;
    /// assert_eq!(config.node("a").unwrap().storage_threads, 2);
    ///
    /// let mistakes = Config::parse("[nodes.a]\ndata = \"/a\"\ndisks = []", "cluster.toml");
    /// let told = mistakes.unwrap_err().to_string();
    /// assert_eq!(
    ///     told,
    ///     "cluster.toml:1: node \"a\": it has no disks; add disks = [\"/mnt/d0\"]"
    /// );
    /// # Ok::<(), pario_server::config::ConfigError>(())
    /// ```
    pub fn parse(text: &str, source: &str) -> Result<Self, ConfigError> {
        Self::read(text, source, false)
    }

    /// Returns the node with a name.
    pub fn node(&self, name: &str) -> Result<&NodeConfig, UnknownNode> {
        self.nodes.iter().find(|node| node.name == name).ok_or_else(|| UnknownNode {
            name: name.to_owned(),
            known: self.nodes.iter().map(|node| node.name.clone()).collect(),
        })
    }

    fn read(text: &str, source: &str, with_key: bool) -> Result<Self, ConfigError> {
        let (cluster, mut mistakes) = ConfigReader::read(text);
        if let Some(cluster) = &cluster {
            mistakes.extend(checks::check(cluster));
            if with_key {
                mistakes.extend(checks::check_key(cluster));
            }
        }
        let is_fine = mistakes.is_empty();
        match cluster.filter(|_| is_fine).and_then(Self::of) {
            Some(config) => Ok(config),
            None => {
                mistakes.sort_by_key(|mistake| mistake.line);
                Err(ConfigError { file: source.to_owned(), mistakes })
            }
        }
    }

    /// Converts the settings. Returns `None` if something is missing, which the checks have reported.
    fn of(cluster: ClusterText) -> Option<Self> {
        let interface = cluster.interface.map(|(name, _)| name);
        let nodes: Vec<_> = cluster.nodes.into_iter().map(NodeConfig::of).collect::<Option<_>>()?;
        let interface = match interface {
            Some(name) => nodes.iter().position(|node| node.name == name)?,
            None => 0,
        };
        Some(Self {
            name: cluster.name.unwrap_or_else(|| "pario".to_owned()),
            key_file: cluster.key_file.map(|(path, _)| path),
            nodes,
            interface,
            grant_epoch: cluster.grant_epoch.unwrap_or(DEFAULT_GRANT_EPOCH),
            source: None,
        })
    }
}

impl NodeConfig {
    fn of(node: NodeText) -> Option<Self> {
        let (data, _) = node.data?;
        let disks: Vec<_> = node.disks?.into_iter().map(DiskConfig::of).collect();
        Some(Self {
            name: node.name,
            listen: node.listen.map(|(address, _)| address),
            socket: node.socket.map_or_else(|| checks::default_socket(&data), |(path, _)| path),
            all_users: node.all_users.unwrap_or(false),
            data,
            storage_threads: node
                .storage_threads
                .map_or_else(|| default_storage_threads(disks.len()), |(threads, _)| threads),
            concurrent_requests: node.concurrent_requests.unwrap_or(DEFAULT_CONCURRENT_REQUESTS),
            disks,
            compute_threads: node.compute_threads.unwrap_or_else(processors),
            cache_bytes: node.cache_bytes.unwrap_or(DEFAULT_CACHE_BYTES),
            short_cut: node.short_cut.unwrap_or_default(),
            wait_warning: node.wait_warning.unwrap_or(Some(DEFAULT_WAIT_WARNING)),
            audit: node.audit.unwrap_or(true),
        })
    }
}

impl DiskConfig {
    fn of(disk: DiskText) -> Self {
        let DiskText { path, is_read_only, latency, bytes_per_second, line: _ } = disk;
        let is_slow = latency.is_some() || bytes_per_second.is_some();
        let pace = Pace { latency: latency.unwrap_or_default(), bytes_per_second };
        Self { path, is_read_only, pace: is_slow.then_some(pace) }
    }
}

/// Returns the default number of storage threads: one for every four processors, which verifies the
/// checksums of several gigabytes per second, and at most one for each disk.
fn default_storage_threads(disks: usize) -> usize {
    (processors() / 4).clamp(1, disks.max(1))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// Returns the socket of a node that is configured by its data directory alone. It lies in the user's
/// runtime directory, because socket paths must be short. All spellings of a directory have the same
/// socket.
fn socket_of(data: &Path) -> PathBuf {
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    pario_net::runtime_directory().join(format!("{}.sock", hash_of_data(&data)))
}

/// Returns the hash that stands for an absolute data directory in file names.
pub(crate) fn hash_of_data(data: &Path) -> String {
    let hash = blake3::hash(data.as_os_str().as_encoded_bytes()).to_hex();
    hash[..12].to_owned()
}
