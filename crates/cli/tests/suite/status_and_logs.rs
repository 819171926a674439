//! The administrator's view of a running node: traffic by the short cut in `pario status` and
//! `pario top`, and the log.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Lines};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::process::{ChildStderr, Command, Stdio};

use crate::command::{Sandbox, ServerProcess, stdout, until};
use pario::{Cluster, ClusterOptions};
use rustix::process::Signal;
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Returns bytes and calls, read and written, of all disks.
fn traffic(json: &Value) -> [u64; 4] {
    let nodes = json["nodes"].as_array().unwrap().iter();
    let disks: Vec<&Value> = nodes.flat_map(|node| node["disks"].as_array().unwrap()).collect();
    ["read_bytes", "written_bytes", "reads", "writes"]
        .map(|field| disks.iter().map(|disk| disk[field].as_u64().unwrap()).sum())
}

fn connect(sandbox: &Sandbox) -> Cluster {
    let options = ClusterOptions { short_cut: Some(true), ..ClusterOptions::default() };
    Cluster::connect_with(&sandbox.file("data").display().to_string(), options).unwrap()
}

#[test]
fn what_moves_by_the_short_cut_is_counted() {
    let sandbox = Sandbox::served();
    let count = || traffic(&sandbox.json(&["status"]));
    assert_eq!(count(), [0; 4]);
    let cluster = connect(&sandbox);
    let file = cluster.create("/f").unwrap();
    assert!(file.has_short_cut());
    let bytes = vec![7; 3 << 20];
    file.write_at(&bytes, 0).unwrap();
    let [read, written, reads, writes] = count();
    assert_eq!((read, reads, written), (0, 0, 3 * MIB));
    assert!((4..=64).contains(&writes), "{writes}");
    let disks = sandbox.json(&["status"])["nodes"][0]["disks"].take();
    for disk in disks.as_array().unwrap() {
        assert_eq!(disk["written_bytes"], 3 * MIB / 4, "the units are spread evenly: {disks}");
    }
    let mut back = vec![0; 3 << 20];
    assert_eq!(file.read_at(&mut back, 0).unwrap(), 3 << 20);
    assert_eq!(file.read_at(&mut back[..10], 5).unwrap(), 10);
    assert_eq!(count()[..2], [3 * MIB + 10, 3 * MIB]);
    // Traffic through the node counts in the same way.
    sandbox.write("local", 1 << 20, 1);
    let copy = ["--no-short-cut", "cp", "local", "pario:/g"];
    assert!(sandbox.on_cluster(&copy).output().unwrap().status.success());
    assert_eq!(count()[1], 4 * MIB);
    // The traffic of an ended process stays counted, once.
    drop(file);
    drop(cluster);
    for _ in 0..3 {
        assert_eq!(count()[..2], [3 * MIB + 10, 4 * MIB]);
    }
    assert!(sandbox.on_cluster(&["cat", "/f"]).output().unwrap().stdout == bytes);
    let [read, written, ..] = count();
    assert!(read >= 6 * MIB + 10, "the end may be looked for twice: {read}");
    assert_eq!(written, 4 * MIB);
}

#[test]
fn top_shows_what_moves_by_the_short_cut() {
    let sandbox = Sandbox::served();
    let cluster = connect(&sandbox);
    let file = cluster.create("/f").unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let rates = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                file.write_at(&[1; 65_536], 0).unwrap();
            }
        });
        let rates = until("something moves", || {
            let json = sandbox.json(&["top", "--interval", "0.2"]);
            let disks = json["nodes"][0]["disks"].as_array().unwrap().clone();
            let rate = |field: &str| disks.iter().filter_map(|disk| disk[field].as_u64()).sum();
            let rates: [u64; 2] = ["written_bytes_per_second", "requests_per_second"].map(rate);
            (rates[0] > 0).then_some(rates)
        });
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        rates
    });
    assert!(rates[1] > 0, "{rates:?}");
}

/// A restarted node counts from zero, and continues to count existing clients.
#[test]
fn clients_that_outlive_a_node_are_counted_by_the_next_one() {
    let mut sandbox = Sandbox::served();
    let cluster = connect(&sandbox);
    let file = cluster.create("/f").unwrap();
    file.write_at(&[1; 1000], 0).unwrap();
    let node = sandbox.node();
    node.signal(Signal::KILL);
    drop(node.wait());
    let serve = sandbox.pario(&["serve", "--data", "data"]);
    sandbox.serve_by(ServerProcess::start(serve));
    until("it is counted again", || {
        // The connection is restored by the next request; one under way may still fail.
        cluster.metadata("/f").ok()?;
        file.write_at(&[2; 1000], 0).unwrap();
        (traffic(&sandbox.json(&["status"]))[1] > 0).then_some(())
    });
    assert!(file.has_short_cut());
}

struct Log(Lines<BufReader<ChildStderr>>);

impl Log {
    fn start(mut serve: Command) -> (ServerProcess, Self) {
        serve.env("PARIO_LOG", "info").stderr(Stdio::piped());
        let mut node = ServerProcess::start(serve);
        let log = Self(node.stderr().lines());
        (node, log)
    }

    /// Returns the next line with this text.
    fn line(&mut self, what: &str) -> String {
        let mut seen = Vec::new();
        for line in self.0.by_ref().map(Result::unwrap) {
            if line.contains(what) {
                return line;
            }
            seen.push(line);
        }
        panic!("the log ends without {what:?}: {seen:#?}");
    }
}

#[test]
fn the_log_tells_start_disks_and_stop() {
    let sandbox = Sandbox::empty();
    let (node, mut log) = Log::start(sandbox.pario(&["serve", "--data", "data"]));
    let started = log.line("has started");
    let version = env!("CARGO_PKG_VERSION");
    let pid = node.pid();
    let told = format!("node local of cluster local has started: pario {version}, process {pid}, ");
    assert!(started.contains("INFO") && started.contains(&told), "{started}");
    assert!(started.contains("no configuration file, data in "), "{started}");
    assert!(started.contains("listening on unix:"), "{started}");
    for disk in 0..4 {
        let line = log.line(&format!("disk local/disk{disk} ("));
        assert!(line.contains("MiB are free"), "{line}");
    }
    node.signal(Signal::TERM);
    let stopping = log.line("node local is stopping: ");
    let own = rustix::process::getuid().as_raw();
    let told = format!("pario serve ({pid}), user {own}, has asked for it");
    assert!(stopping.contains(&told), "{stopping}");
    let stopped = log.line("node local has stopped, after ");
    assert!(stopped.contains("INFO"), "{stopped}");
    assert!(node.wait().0.success());
}

/// Configures nodes `a` and `b` with a key, on loopback addresses.
fn two_nodes(sandbox: &Sandbox) -> [SocketAddr; 2] {
    let key = sandbox.file("lab.key");
    std::fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = ports.map(|port| port.local_addr().unwrap());
    let [a, b] = addresses;
    let root = sandbox.path().display();
    let text = format!(
        "name = \"lab\"\nkey_file = {key:?}\n\
         [nodes.a]\nlisten = \"{a}\"\ndata = \"{root}/data\"\ndisks = [\"{root}/disk\"]\n\
         [nodes.b]\nlisten = \"{b}\"\ndata = \"{root}/b\"\ndisks = [\"{root}/far\"]\n"
    );
    std::fs::write(sandbox.file("cluster.toml"), text).unwrap();
    addresses
}

#[test]
fn the_log_tells_who_joins_is_lost_and_returns() {
    let sandbox = Sandbox::empty();
    let [a, b] = two_nodes(&sandbox);
    let serve = |name| sandbox.pario(&["serve", "--config", "cluster.toml", "--node", name]);
    let (_first, mut log) = Log::start(serve("a"));
    let started = log.line("node a of cluster lab has started");
    assert!(started.contains("configuration cluster.toml"), "{started}");
    assert!(started.contains(&format!(" and tcp:{a}")), "{started}");
    let (second, mut second_log) = Log::start(serve("b"));
    let joined = log.line("has joined");
    assert!(joined.ends_with(&format!("node b ({b}) has joined")), "{joined}");
    let joined = second_log.line("has joined");
    assert!(joined.ends_with(&format!("node a ({a}) has joined")), "{joined}");
    second.signal(Signal::KILL);
    drop(second.wait());
    let lost = log.line("is lost");
    assert!(lost.contains("WARN") && lost.contains(&format!("node b ({b}) is lost: ")), "{lost}");
    for internal in ["space", "tcp=", "machine=", "node a to b", "os error", "directory"] {
        assert!(!lost.contains(internal), "{lost}");
    }
    let (_third, _) = Log::start(serve("b"));
    let back = log.line("has returned");
    assert!(
        back.contains("INFO") && back.contains(&format!("node b ({b}) has returned")),
        "{back}"
    );
}

/// Refused connections are logged at once, by address; repetitions are counted.
#[test]
fn the_log_tells_refused_strangers_once_with_a_count() {
    let sandbox = Sandbox::empty();
    let [a, _] = two_nodes(&sandbox);
    let (node, mut log) =
        Log::start(sandbox.pario(&["serve", "--config", "cluster.toml", "--node", "a"]));
    let wrong = sandbox.file("wrong.key");
    std::fs::write(&wrong, "f".repeat(64)).unwrap();
    std::fs::set_permissions(&wrong, Permissions::from_mode(0o600)).unwrap();
    let knock = || {
        let address = format!("tcp:{a}");
        let key = wrong.display().to_string();
        let arguments = ["--cluster", &address, "--key", &key, "--timeout", "20", "ls", "/"];
        let output = sandbox.pario(&arguments).output().unwrap();
        assert!(!output.status.success(), "{}", stdout(&output));
    };
    knock();
    let refused = log.line("refuses a connection");
    assert!(refused.contains("WARN the node refuses a connection from 127.0.0.1: "), "{refused}");
    for _ in 0..3 {
        knock();
    }
    node.signal(Signal::TERM);
    let mut rest: Vec<String> = Vec::new();
    rest.extend(
        log.0.by_ref().map(Result::unwrap).filter(|line| line.contains("refuses a connection")),
    );
    let [counted] = &rest[..] else { panic!("one line tells of the others: {rest:#?}") };
    assert!(counted.contains("times more in the last "), "{counted}");
    assert!(node.wait().0.success());
}
