//! A test cluster: embedded in this process, or of nodes with two disks each that are reached over
//! TCP with a key.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use pario::status::NodeInfo;
use pario::{Cluster, ClusterOptions};
use pario_image::{Pixel, Pixels, Sample};
use pario_server::Node;
use pario_server::config::{Config, DiskConfig, NodeConfig, ShortCut};
use tempfile::TempDir;

/// A cluster and a client of it. Fields are dropped in order: the client first.
pub struct Site {
    pub cluster: Cluster,
    pub name: &'static str,
    _nodes: Vec<Node>,
    dir: TempDir,
}

impl Site {
    /// A cluster embedded in this process.
    pub fn embedded() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::embedded(dir.path().join("data")).unwrap();
        Self { cluster, name: "embedded", _nodes: Vec::new(), dir }
    }

    /// Two nodes with two disks each.
    pub fn two_nodes() -> Self {
        Self::nodes("two nodes", &["a", "b"])
    }

    /// A cluster of these nodes, which join one after the other.
    pub fn nodes(name: &'static str, names: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key: String = (0..32).map(|_| format!("{:02x}", fastrand::u8(..))).collect();
        std::fs::write(dir.path().join("key"), key).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(dir.path().join("key"), private).unwrap();
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let start = |first: SocketAddr, name: &str| {
            let node = Node::new().operations(pario_image::operations());
            node.start_beside(&configuration(dir.path(), first, names), name).unwrap()
        };
        let mut nodes = vec![start(any_port, names[0])];
        let address = tcp_of(&nodes[0].address());
        nodes.extend(names[1..].iter().map(|name| start(address, name)));
        let options = ClusterOptions {
            key_file: Some(dir.path().join("key")),
            short_cut: Some(false),
            ..Default::default()
        };
        let cluster = connect(&format!("tcp:{address}"), &options);
        Self { cluster, name, _nodes: nodes, dir }
    }

    /// A directory for files outside of the cluster.
    pub fn directory(&self) -> &Path {
        self.dir.path()
    }
}

/// Connects to a cluster and waits until all nodes have joined.
fn connect(address: &str, options: &ClusterOptions) -> Cluster {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let cluster = Cluster::connect_with(address, options.clone()).unwrap();
        let has_joined =
            |node: &NodeInfo| !node.disks.is_empty() && !node.address.ends_with("127.0.0.1:0");
        if cluster.map().nodes.iter().all(has_joined) {
            return cluster;
        }
        assert!(Instant::now() < deadline, "not all nodes have joined");
        std::thread::yield_now();
    }
}

fn tcp_of(address: &str) -> SocketAddr {
    let tcp = address.split(';').find_map(|part| part.strip_prefix("tcp="));
    tcp.expect("it listens on TCP").parse().unwrap()
}

fn configuration(dir: &Path, first: SocketAddr, names: &[&str]) -> Config {
    let node = |name: &str, listen: SocketAddr| NodeConfig {
        name: name.to_owned(),
        listen: Some(listen),
        socket: dir.join(format!("{name}.s")),
        all_users: false,
        data: dir.join(name),
        disks: (0..2).map(|n| DiskConfig::at(dir.join(format!("{name}/disk{n}")))).collect(),
        storage_threads: 1,
        concurrent_requests: 16,
        compute_threads: 2,
        cache_bytes: 16 << 20,
        short_cut: ShortCut::Off,
        wait_warning: None,
        ..Config::alone(dir).nodes.remove(0)
    };
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let address = |number| if number == 0 { first } else { any_port };
    Config {
        name: "site".to_owned(),
        key_file: Some(dir.join("key")),
        nodes: names.iter().zip(0..).map(|(name, number)| node(name, address(number))).collect(),
        interface: 0,
        ..Config::alone(dir)
    }
}

/// Pixels that follow from a seed, with few or with many different values.
pub fn random_pixels(random: &mut fastrand::Rng, width: u32, height: u32, pixel: Pixel) -> Pixels {
    let is_coarse = random.bool();
    let samples = width as usize * height as usize * pixel.channels();
    let mut data = Vec::new();
    for _ in 0..samples {
        match (pixel.sample(), is_coarse) {
            (Sample::U8, true) => data.push(random.u8(0..3) * 100),
            (Sample::I8, true) => data.push([0x80, 0, 50][random.usize(0..3)]),
            (Sample::I16, true) => {
                data.extend([-32_768i16, 0, 1_000][random.usize(0..3)].to_le_bytes())
            }
            (Sample::U8 | Sample::I8, false) => data.push(random.u8(..)),
            (Sample::U16, true) => data.extend((random.u16(0..3) * 20_000).to_le_bytes()),
            (Sample::U16 | Sample::I16, false) => data.extend(random.u16(..).to_le_bytes()),
            (Sample::F32, true) => {
                data.extend([0.0f32, 0.25, 1.0][random.usize(0..3)].to_le_bytes())
            }
            (Sample::F32, false) => data.extend(random.f32().to_le_bytes()),
        }
    }
    Pixels::new(width, height, pixel, data).unwrap()
}
