//! The first start of a cluster whose nodes all join at the same time.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use pario_net::{Key, write_private_file};
use pario_proto::ClusterMap;
use pario_server::Node;
use pario_server::config::{Config, DiskConfig, NodeConfig};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// Clusters that the test starts.
const CLUSTERS: usize = 6;
/// Nodes of each cluster that join the interface node.
const JOINING: usize = 6;
/// The longest time in which all nodes join.
const JOIN_TIMEOUT: Duration = Duration::from_secs(20);

/// Collects the warnings of all threads.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Message(&self.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Message<'w>(&'w Mutex<Vec<String>>);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

/// A cluster in a directory: the interface node, and those that join.
fn configuration(dir: &Path) -> Config {
    let key_file = dir.join("key");
    write_private_file(&key_file, Key::random().to_hex()).unwrap();
    // All listeners are open at once, so that no two have the same port.
    let ports: Vec<_> = (0..=JOINING)
        .map(|_| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap())
        .collect();
    let node = |(number, port): (usize, &TcpListener)| {
        let data = dir.join(format!("node{number}"));
        NodeConfig {
            name: format!("node{number}"),
            listen: Some(port.local_addr().unwrap()),
            socket: data.join("pario.sock"),
            disks: vec![DiskConfig::at(data.join("disk"))],
            storage_threads: 1,
            concurrent_requests: 16,
            compute_threads: 1,
            cache_bytes: 1 << 20,
            ..Config::alone(&data).nodes.remove(0)
        }
    };
    let nodes = ports.iter().enumerate().map(node).collect();
    let alone = Config::alone(dir);
    Config { name: "many".to_owned(), key_file: Some(key_file), nodes, ..alone }
}

#[test]
fn nodes_that_join_at_the_same_time_are_all_remembered() {
    let warnings = Warnings::default();
    tracing::subscriber::set_global_default(warnings.clone()).unwrap();
    for _ in 0..CLUSTERS {
        let dir = tempfile::tempdir().unwrap();
        let config = configuration(dir.path());
        let interface = Node::start(&config, "node0").unwrap();
        let all_at_once = Barrier::new(JOINING);
        let joined: Vec<Node> = std::thread::scope(|scope| {
            let join = |number: usize| {
                let (config, all_at_once) = (&config, &all_at_once);
                scope.spawn(move || {
                    all_at_once.wait();
                    Node::start(config, &format!("node{number}")).unwrap()
                })
            };
            let starting: Vec<_> = (1..=JOINING).map(join).collect();
            starting.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        // The interface node keeps the cluster map in a file.
        let path = dir.path().join("node0/cluster.map");
        let begin = Instant::now();
        loop {
            let bytes = std::fs::read(&path).unwrap();
            let map: ClusterMap = postcard::from_bytes(&bytes).unwrap();
            if map.nodes.iter().all(|node| !node.disks.is_empty()) {
                break;
            }
            assert!(begin.elapsed() < JOIN_TIMEOUT, "not all are remembered: {map:?}");
            std::thread::yield_now();
        }
        let warned = warnings.0.lock().unwrap().clone();
        let failed: Vec<_> =
            warned.iter().filter(|text| text.contains("cannot be written")).collect();
        assert!(failed.is_empty(), "{failed:?}");
        drop(joined);
        drop(interface);
    }
}
