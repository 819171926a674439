//! The configuration of a cluster: which nodes, where they listen, which disks they have.
//!
//! `reader` turns the text into what was written, `checks` says what of it does not fit together,
//! `error` has the sentences. Every mistake is reported, not only the first.

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

pub use error::{ConfigError, Mistake, Problem, UnknownNode};
use reader::{ClusterText, DiskText, NodeText, Reader};

/// Memory for extents if nobody says how much.
const DEFAULT_CACHE_BYTES: u64 = 256 << 20;

/// How long processes of a job may wait for each other before the node warns of it, if nobody says
/// how long.
const DEFAULT_WAIT_WARNING: Duration = Duration::from_secs(10);

/// How long a grant epoch lasts by default.
const DEFAULT_GRANT_EPOCH: Duration = Duration::from_secs(30);

/// A cluster as its file describes it, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name.
    pub name: String,
    /// Where the key is that all nodes and clients on other machines share.
    pub key_file: Option<PathBuf>,
    /// Its nodes; names and disks are all different.
    pub nodes: Vec<NodeConfig>,
    /// Which of them keeps the namespace.
    pub interface: usize,
    /// How long a grant epoch lasts; grants are valid for ten.
    pub grant_epoch: Duration,
    /// The file that it was read from, for the log.
    pub source: Option<PathBuf>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Its name.
    pub name: String,
    /// Where it listens on TCP, if it does.
    pub listen: Option<SocketAddr>,
    /// Its Unix socket.
    pub socket: PathBuf,
    /// Whether all users of the machine may use the socket, or only the one that runs the node.
    pub all_users: bool,
    /// Where it keeps what is not on disks: the namespace, its secret.
    pub data: PathBuf,
    /// Its disks.
    pub disks: Vec<DiskConfig>,
    /// Threads that serve the disks.
    pub storage_threads: usize,
    /// Threads that compute.
    pub compute_threads: usize,
    /// Memory for extents, over all disks.
    pub cache_bytes: u64,
    /// What clients on the same machine may do with flat subfiles themselves.
    pub short_cut: ShortCut,
    /// How long processes of a job may wait for each other before the node warns of it; for ever if
    /// nothing.
    pub wait_warning: Option<Duration>,
    /// Whether the node keeps an audit log.
    pub audit: bool,
}

/// What descriptors of flat subfiles a node hands out to clients on its machine.
///
/// A client that keeps a descriptor can read or write the bytes of that one subfile until it is
/// deleted, also after a change of rights, and never its description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShortCut {
    /// To readers and writers.
    #[default]
    Write,
    /// Read-only ones, to clients that have opened a file for reading only; writers go through the
    /// node.
    Read,
    /// None.
    Off,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// Its directory.
    pub path: PathBuf,
    /// Whether nothing may be changed on it.
    pub is_read_only: bool,
    /// The pace of the slower disk that it is to behave like, if it is.
    pub pace: Option<Pace>,
}

impl DiskConfig {
    /// A disk in a directory that can be written to, as fast as it is.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), is_read_only: false, pace: None }
    }
}

impl Config {
    /// One node, named `local`, with four disks under a data directory.
    pub fn alone(data: &Path) -> Self {
        let disk = |number| DiskConfig::at(data.join(format!("disk{number}")));
        let disks = (0..4).map(disk).collect();
        let node = NodeConfig {
            name: "local".to_owned(),
            listen: None,
            socket: socket_of(data),
            all_users: false,
            data: data.to_owned(),
            disks,
            storage_threads: 4,
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

    /// Reads a configuration, and the key that it names.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text =
            fs::read_to_string(path).map_err(|error| ConfigError::unreadable(path, &error))?;
        let config = Self::read(&text, &path.display().to_string(), true)?;
        Ok(Self { source: Some(path.to_owned()), ..config })
    }

    /// The configuration that a text describes. `source` stands before every mistake. Other files
    /// are not looked at.
    ///
    /// ```
    /// use pario_server::config::Config;
    ///
    /// let text = r#"
    ///     [nodes.a]
    ///     data = "/var/lib/pario"
    ///     disks = ["/mnt/d0", { path = "/mnt/archive", read_only = true }]
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

    /// A node by its name.
    pub fn node(&self, name: &str) -> Result<&NodeConfig, UnknownNode> {
        self.nodes.iter().find(|node| node.name == name).ok_or_else(|| UnknownNode {
            name: name.to_owned(),
            known: self.nodes.iter().map(|node| node.name.clone()).collect(),
        })
    }

    fn read(text: &str, source: &str, with_key: bool) -> Result<Self, ConfigError> {
        let (cluster, mut mistakes) = Reader::read(text);
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

    /// The configuration of what was written; nothing if something is missing, which the checks
    /// have told.
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
            storage_threads: node.storage_threads.map_or(disks.len(), |(threads, _)| threads),
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

fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// The socket of a node that is configured by its data directory alone: in the user's runtime
/// directory, because paths of sockets must be short. A directory has the same socket however it
/// is written.
fn socket_of(data: &Path) -> PathBuf {
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    pario_net::runtime_directory().join(format!("{}.sock", hash_of_data(&data)))
}

/// What stands for an absolute data directory in names of files.
pub(crate) fn hash_of_data(data: &Path) -> String {
    let hash = blake3::hash(data.as_os_str().as_encoded_bytes()).to_hex();
    hash[..12].to_owned()
}
