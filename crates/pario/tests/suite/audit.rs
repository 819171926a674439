//! The audit log of a node: what is in it, and that floods neither fill it nor slow the node.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pario::Access;
use pario::status::{CheckDepth, CheckRequest};
use pario_net::{Address, Key, Space};
use pario_proto::{Grant, PeerRequest, Request};
use pario_server::Node;
use serde_json::Value;

use crate::sites::raw_client::{RawClient, part, revoked};
use crate::sites::{Site, Transport, alone, tcp_of, until};

fn client(site: &Site, uid: u32) -> RawClient {
    let address = tcp_of(&site.nodes[0].address());
    RawClient::connect(address, &site.dir.path().join("key"), uid, "thief")
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Stops the node, so that all is written, and reads its log.
fn log_of(site: &mut Site) -> Vec<Value> {
    let (log, node) = (site.dir.path().join("audit.log"), site.nodes.remove(0));
    node.stop();
    assert_eq!(std::fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    lines(&log)
}

/// Asserts that the log has a line of a kind and a user that contains two texts.
#[track_caller]
fn has(lines: &[Value], kind: &str, user: u32, object: &str, outcome: &str) {
    let is_it = |line: &&Value| {
        let has = |field: &str, text: &str| line[field].as_str().unwrap().contains(text);
        line["kind"] == kind
            && line["user"] == user
            && has("object", object)
            && has("outcome", outcome)
    };
    assert!(lines.iter().any(|line| is_it(&line)), "{kind} {object} {outcome}: {lines:#?}");
}

#[test]
fn refusals_administration_and_changes_of_rights_are_in_the_log() {
    let mut site = Site::new(Transport::Tcp);
    let user = client(&site, 1000);
    let file = site.cluster.create("/f").unwrap();
    file.write_at(b"some", 0).unwrap();
    let held = user.open("/f", Access::READ).unwrap();
    let forged = Grant { uid: 0, ..held.grant.clone() };
    assert!(client(&site, 0).read(&forged, part(&held, 0)).is_err());
    site.cluster.set_mode("/f", 0o600).unwrap();
    revoked(user.read(&held.grant, part(&held, 0)));
    assert!(user.open("/f", Access::READ).is_err());
    assert!(user.ask(Request::Stop).is_err());
    let remove = PeerRequest::RemoveSubfiles { files: Vec::new(), epoch: 0 };
    assert!(user.ask(Request::Peer(remove)).is_err());
    site.cluster.make_directory("/d").unwrap();
    site.cluster.set_mode("/d", 0o1777).unwrap();
    site.cluster.set_mode("/d", 0o1777).unwrap();
    site.cluster.set_owner("/d", Some(7), Some(8)).unwrap();
    let what = CheckRequest { depth: CheckDepth::Names, is_repair: true, is_rebuild: false };
    site.cluster.check(what).unwrap();
    site.cluster.reset(&[]).unwrap();
    drop((file, user));
    let lines = log_of(&mut site);
    has(&lines, "refused", 0, "file ", "was not given by this cluster");
    has(&lines, "refused", 1000, "file ", "have changed since it was opened");
    has(&lines, "refused", 1000, "/f", "user 1000 may not read it (owner 0, mode 0600)");
    has(&lines, "refused", 1000, "stop the node", "only the user that runs the node");
    has(&lines, "refused", 1000, "", "only nodes of the cluster may ask this");
    let change = "from owner 0, group 0, mode 0644 to owner 0, group 0, mode 0600";
    has(&lines, "rights", 0, "/f", change);
    has(&lines, "rights", 0, "/d", "to owner 0, group 0, mode 1777, sticky");
    has(&lines, "rights", 0, "/d", "to owner 7, group 8, mode 1777, sticky");
    has(&lines, "administration", 0, "repair the cluster", "done");
    has(&lines, "administration", 0, "reset all files and jobs", "done");
    let rights = lines.iter().filter(|line| line["kind"] == "rights").count();
    assert_eq!(rights, 3, "what changes nothing is not told");
    let thief = lines.iter().filter(|line| line["client"] == "thief").count();
    assert!(thief >= 5 && lines.iter().all(|line| line["node"] == "local"), "{lines:#?}");
}

#[test]
fn refused_connections_are_in_the_log() {
    let site = Site::new(Transport::Tcp);
    let address = Address::tcp(tcp_of(&site.nodes[0].address()));
    let wrong = Space::builder("stranger").key(Key::random()).join(&address).build();
    assert!(wrong.is_err(), "it has another key");
    let refused = |line: &Value| line["kind"] == "refused" && line["object"] == "connection";
    let mut found = None;
    until("the line is written", || {
        found = lines(&site.dir.path().join("audit.log")).into_iter().find(refused);
        found.is_some()
    });
    let line = found.unwrap();
    assert!(line["client"].as_str().unwrap().contains("127.0.0.1"), "{line}");
    assert!(line["outcome"].as_str().unwrap().contains("key"), "{line}");
}

#[test]
fn nodes_that_join_are_in_the_log() {
    let site = Site::new(Transport::TwoNodes);
    let log = site.dir.path().join("a/audit.log");
    until("the line is written", || {
        let is_join = |line: &Value| line["object"] == "join of node b";
        lines(&log).iter().any(|line| is_join(line) && line["kind"] == "administration")
    });
    assert!(site.dir.path().join("b/audit.log").exists());
}

/// Refusals without end: few lines, and requests of others are answered as before.
#[test]
fn a_flood_of_refusals_gives_few_lines() {
    const REFUSALS: u64 = 20_000;
    let mut site = Site::new(Transport::Tcp);
    let file = site.cluster.create("/f").unwrap();
    file.write_at(b"some", 0).unwrap();
    let user = client(&site, 1000);
    let held = user.open("/f", Access::READ).unwrap();
    let forged = Grant { access: Access::READ_WRITE, ..held.grant.clone() };
    let began = Instant::now();
    for _ in 0..REFUSALS {
        assert!(user.read(&forged, part(&held, 0)).is_err());
    }
    let seconds = began.elapsed().as_secs();
    file.write_at(b"more", 0).unwrap();
    drop((file, user));
    let lines = log_of(&mut site);
    let flood: Vec<&Value> = lines.iter().filter(|line| line["client"] == "thief").collect();
    assert!(flood.len() as u64 <= seconds + 3, "{} lines in {seconds} s", flood.len());
    let count =
        |field: &str| lines.iter().filter_map(|line| line.get(field)?.as_u64()).sum::<u64>();
    assert_eq!(count("count") + count("lost"), REFUSALS, "{lines:#?}");
}

#[test]
fn the_log_can_be_switched_off() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = alone(dir.path());
    config.nodes[0].audit = false;
    let node = Node::start(&config, "local").unwrap();
    let address = format!("unix:{}", dir.path().join("s").display());
    let cluster = pario::Cluster::connect(&address).unwrap();
    cluster.create("/f").unwrap();
    cluster.set_mode("/f", 0o600).unwrap();
    drop(cluster);
    node.stop();
    let logs: Vec<PathBuf> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("audit"))
        .collect();
    assert!(logs.is_empty(), "{logs:?}");
}
