//! Clusters for tests, one for each transport between a client and its nodes.
//!
//! [`over_every_transport`] runs a test in an embedded cluster, over a Unix socket with and without
//! the short cut, over TCP with a key, and with two nodes in two processes over TCP.

pub mod operations;
pub mod raw_client;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pario::status::NodeStatus;
use pario::{Cluster, ClusterOptions};
use pario_net::{Address, Key};
use pario_server::config::{Config, DiskConfig, NodeConfig, ShortCut};
use pario_server::{MissingNamespace, Node};
use tempfile::TempDir;

/// The connection between a client and its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// None: client and node are in one process.
    Embedded,
    /// A Unix socket; the client reads and writes subfiles itself.
    ShortCut,
    /// A Unix socket; all bytes go through it.
    Socket,
    /// TCP with a key.
    Tcp,
    /// TCP with a key, to two nodes in two processes.
    TwoNodes,
}

/// All transports.
pub const TRANSPORTS: [Transport; 5] = [
    Transport::Embedded,
    Transport::ShortCut,
    Transport::Socket,
    Transport::Tcp,
    Transport::TwoNodes,
];

/// A cluster with four disks and a client of it. Fields are dropped in order: clients first.
pub struct Site {
    pub cluster: Cluster,
    pub transport: Transport,
    address: String,
    options: ClusterOptions,
    pub nodes: Vec<Node>,
    pub child: Option<NodeProcess>,
    pub dir: TempDir,
}

/// Runs a test over every transport, each with a new cluster.
pub fn over_every_transport(test: impl Fn(&Site)) {
    for transport in TRANSPORTS {
        println!("{transport:?}");
        test(&Site::new(transport));
    }
}

impl Site {
    pub fn new(transport: Transport) -> Self {
        let dir = tempfile::tempdir().unwrap();
        match transport {
            Transport::Embedded => {
                let options = ClusterOptions { short_cut: Some(true), ..Default::default() };
                let cluster = Cluster::embedded_with(dir.path(), options.clone()).unwrap();
                let address = String::new();
                Self { cluster, transport, address, options, nodes: vec![], child: None, dir }
            }
            Transport::ShortCut | Transport::Socket => {
                let config = alone(dir.path());
                let node = Node::start(&config, "local").unwrap();
                let short_cut = Some(transport == Transport::ShortCut);
                let options = ClusterOptions { short_cut, ..Default::default() };
                let address = format!("unix:{}", config.nodes[0].socket.display());
                Self::connected(transport, address, options, vec![node], None, dir)
            }
            Transport::Tcp => {
                let mut config = alone(dir.path());
                config.key_file = Some(write_key(dir.path()));
                config.nodes[0].listen = Some(any_port());
                let node = Node::start(&config, "local").unwrap();
                let address = format!("tcp:{}", tcp_of(&node.address()));
                Self::connected(transport, address, key_options(dir.path()), vec![node], None, dir)
            }
            Transport::TwoNodes => {
                write_key(dir.path());
                let node = Node::start(&two_nodes(dir.path(), any_port()), "a").unwrap();
                let first = tcp_of(&node.address());
                let child = NodeProcess::start(dir.path(), "b", Some(first));
                child.only_tcp();
                let address = format!("tcp:{first}");
                Self::connected(
                    transport,
                    address,
                    key_options(dir.path()),
                    vec![node],
                    Some(child),
                    dir,
                )
            }
        }
    }

    fn connected(
        transport: Transport,
        address: String,
        options: ClusterOptions,
        nodes: Vec<Node>,
        child: Option<NodeProcess>,
        dir: TempDir,
    ) -> Self {
        let cluster = connect_when_complete(&address, &options);
        Self { cluster, transport, address, options, nodes, child, dir }
    }

    /// Creates a site whose nodes know the operations of the tests.
    pub fn with_operations(transport: Transport) -> Self {
        let site = Self::new(transport);
        for node in &site.nodes {
            operations::add_to(node.operations());
        }
        if transport == Transport::Embedded {
            let registry = pario::operation::OperationRegistry::new();
            operations::add_to(&registry);
            for name in registry.names() {
                site.cluster.add_operation(&name, registry.find(&name).unwrap());
            }
        }
        site
    }

    /// Connects another client; an embedded cluster has only one, which this returns.
    pub fn another(&self) -> Cluster {
        if self.transport == Transport::Embedded {
            return self.cluster.clone();
        }
        Cluster::connect_with(&self.address, self.options.clone()).unwrap()
    }

    /// The names of all disks.
    pub fn disks(&self) -> Vec<String> {
        let map = self.cluster.map();
        let disks = map.nodes.iter().flat_map(|node| &node.disks);
        disks.map(|disk| map.disk_name(disk.id)).collect()
    }

    /// The directories of all disks, in the same order.
    pub fn disk_directories(&self) -> Vec<PathBuf> {
        match self.transport {
            Transport::TwoNodes => ["a/disk0", "a/disk1", "b/disk0", "b/disk1"]
                .map(|disk| self.dir.path().join(disk))
                .to_vec(),
            _ => (0..4).map(|n| self.dir.path().join(format!("disk{n}"))).collect(),
        }
    }

    /// Counts the subfiles on all disks.
    pub fn subfiles(&self) -> usize {
        let is_subfile = |name: &str| name.ends_with(".flat") || name.ends_with(".extents");
        let count = |dir: &PathBuf| {
            let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| is_subfile(&name.to_string_lossy())).count()
        };
        self.disk_directories().iter().map(count).sum()
    }

    /// Fetches the status of the interface node.
    pub fn status(&self) -> NodeStatus {
        interface_status(&self.cluster)
    }

    /// Waits until all deletions are finished.
    pub fn wait_for_deletions(&self) {
        until("deletions are finished", || self.status().unfinished_deletions == 0);
    }
}

/// Fetches the status of the interface node.
pub fn interface_status(cluster: &Cluster) -> NodeStatus {
    let number = cluster.map().interface as usize;
    cluster.status(Duration::from_secs(10)).swap_remove(number).1.unwrap()
}

/// Sets a flag when it is dropped, also by a panic, so that other threads stop.
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Repeats a check until it holds, at most 20 s. It does not sleep: the check itself should take
/// some time.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within 20 s");
        std::thread::yield_now();
    }
}

/// Connects a client once all nodes have joined the cluster.
pub fn connect_when_complete(address: &str, options: &ClusterOptions) -> Cluster {
    let mut cluster = Cluster::connect_with(address, options.clone()).unwrap();
    until("all nodes have joined", || {
        // A node that listens at any port has its actual port in the map once it has joined.
        let has_joined = |node: &pario::status::NodeInfo| {
            !node.disks.is_empty() && !node.address.ends_with("127.0.0.1:0")
        };
        if cluster.map().nodes.iter().all(has_joined) {
            return true;
        }
        cluster = Cluster::connect_with(address, options.clone()).unwrap();
        false
    });
    cluster
}

/// Starts a node. If a test has removed its namespace, it begins with an empty one, which the test
/// rebuilds.
pub fn start_over_any_namespace(config: &Config, name: &str) -> Node {
    let own = config.nodes.iter().find(|node| node.name == name).unwrap();
    let choice = match own.data.join("namespace.redb").exists() {
        true => MissingNamespace::Refuse,
        false => MissingNamespace::New,
    };
    Node::new().missing_namespace(choice).start(config, name).unwrap()
}

/// The configuration of one node whose socket is in the directory of the test.
pub fn alone(dir: &Path) -> Config {
    let mut config = Config::alone(dir);
    config.nodes[0].socket = dir.join("s");
    config
}

/// The configuration of two nodes with two disks each; the second one listens at any port.
pub fn two_nodes(dir: &Path, first: SocketAddr) -> Config {
    let node = |name: &str, listen: SocketAddr| NodeConfig {
        name: name.to_owned(),
        listen: Some(listen),
        socket: dir.join(format!("{name}.s")),
        all_users: false,
        data: dir.join(name),
        disks: (0..2).map(|n| DiskConfig::at(dir.join(format!("{name}/disk{n}")))).collect(),
        storage_threads: 1,
        concurrent_requests: 16,
        compute_threads: 1,
        cache_bytes: 16 << 20,
        short_cut: ShortCut::Off,
        wait_warning: None,
        ..Config::alone(dir).nodes.remove(0)
    };
    Config {
        name: "pair".to_owned(),
        key_file: Some(dir.join("key")),
        nodes: vec![node("a", first), node("b", any_port())],
        interface: 0,
        ..Config::alone(dir)
    }
}

pub fn key_options(dir: &Path) -> ClusterOptions {
    let key_file = Some(dir.join("key"));
    ClusterOptions { key_file, short_cut: Some(false), ..Default::default() }
}

pub fn write_key(dir: &Path) -> PathBuf {
    let path = dir.join("key");
    pario_net::write_private_file(&path, Key::random().to_hex()).unwrap();
    path
}

pub fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub fn tcp_of(address: &str) -> SocketAddr {
    address.parse::<Address>().unwrap().tcp.unwrap()
}

const NODE: &str = "PARIO_TEST_NODE";
const DIRECTORY: &str = "PARIO_TEST_DIRECTORY";
const FIRST: &str = "PARIO_TEST_FIRST";

/// A node in a process of its own, which ends with this one.
pub struct NodeProcess {
    process: Child,
    pub address: String,
    dir: PathBuf,
    name: String,
}

impl NodeProcess {
    /// Starts the test program again as a node: `local`, alone and for all users, or `b`, the
    /// second of two.
    pub fn start(dir: &Path, name: &str, first: Option<SocketAddr>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "sites::node_process", "--nocapture"])
            .env(NODE, name)
            .env(DIRECTORY, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(first) = first {
            command.env(FIRST, first.to_string());
        }
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("the node has started").unwrap();
            if let Some(at) = line.find('@') {
                break line[at + 1..].to_owned();
            }
        };
        Self { process, address, dir: dir.to_owned(), name: name.to_owned() }
    }

    /// Removes its Unix socket, so that clients reach it over TCP only.
    pub fn only_tcp(&self) {
        std::fs::remove_file(self.dir.join(format!("{}.s", self.name))).unwrap();
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Closes its standard input, so that it stops, and waits for its end.
    pub fn stop(mut self) {
        drop(self.process.stdin.take());
        self.process.wait().unwrap();
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The node of [`NodeProcess`]. It does nothing unless `NodeProcess::start` has set its variables.
#[test]
fn node_process() {
    let (Ok(name), Some(dir)) = (std::env::var(NODE), std::env::var_os(DIRECTORY)) else { return };
    let dir = PathBuf::from(dir);
    let config = match std::env::var(FIRST) {
        Ok(first) => two_nodes(&dir, first.parse().unwrap()),
        Err(_) => {
            let mut config = alone(&dir);
            config.nodes[0].all_users = true;
            config
        }
    };
    let node = Node::start(&config, &name).unwrap();
    operations::add_to(node.operations());
    // One write for the whole line: the test runner writes to the same standard output.
    std::io::stdout().write_all(format!("@{}\n", node.address()).as_bytes()).unwrap();
    // The node runs until its parent closes the pipe or ends.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
