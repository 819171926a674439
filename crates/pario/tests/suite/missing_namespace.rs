//! The namespace of several nodes is rebuilt from the disks of all of them, and not before.

use std::time::{Duration, Instant};

use pario::{Cluster, Failure};
use pario_server::{MissingNamespace, Node, NodeError};

use crate::sites::{NodeProcess, any_port, connect_when_complete, key_options, tcp_of};

/// No rebuild of a few files takes this long.
const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn a_rebuild_waits_for_the_disks_of_all_nodes() {
    let dir = tempfile::tempdir().unwrap();
    crate::sites::write_key(dir.path());
    let start = |choice| {
        let config = crate::sites::two_nodes(dir.path(), any_port());
        Node::new().missing_namespace(choice).start(&config, "a")
    };
    let join = |node: &Node| {
        let first = tcp_of(&node.address());
        let child = NodeProcess::start(dir.path(), "b", Some(first));
        child.only_tcp();
        (format!("tcp:{first}"), child)
    };
    let node = start(MissingNamespace::Refuse).unwrap();
    let (address, child) = join(&node);
    let cluster = connect_when_complete(&address, &key_options(dir.path()));
    let content: Vec<u8> = (0..200_000_u32).map(|byte| (byte % 251) as u8).collect();
    let options = cluster.options().read(true).write(true).create_new(true).unit(1000);
    let file = options.open("/over-both").unwrap();
    file.write_at(&content, 0).unwrap();
    file.close().unwrap();
    drop(cluster);
    child.stop();
    node.stop();
    std::fs::remove_file(dir.path().join("a/namespace.redb")).unwrap();

    let error = start(MissingNamespace::Refuse).unwrap_err();
    assert!(matches!(error, NodeError::NamespaceMissing { .. }), "{error}");
    let node = start(MissingNamespace::Rebuild).unwrap();
    // The first node alone knows only a part of the namespace: no client sees that part.
    let alone = format!("tcp:{}", tcp_of(&node.address()));
    let cluster = Cluster::connect_with(&alone, key_options(dir.path())).unwrap();
    let error = cluster.metadata("/over-both").unwrap_err();
    let pario::Error::Failure(Failure::Refused { why, .. }) = &error else { panic!("{error:?}") };
    assert!(why.contains("it waits for the disks of b"), "{why}");
    assert!(node.rebuilt().is_none());
    drop(cluster);

    let (address, child) = join(&node);
    let begin = Instant::now();
    while node.rebuilt().is_none() {
        assert!(begin.elapsed() < TIMEOUT, "it is never rebuilt");
        std::thread::yield_now();
    }
    let cluster = connect_when_complete(&address, &key_options(dir.path()));
    let mut bytes = vec![0; content.len()];
    cluster.open("/over-both").unwrap().read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == content);
    drop(cluster);
    child.stop();
    node.stop();
    start(MissingNamespace::Refuse).unwrap().stop();
}

#[test]
fn only_the_interface_node_has_a_choice() {
    let dir = tempfile::tempdir().unwrap();
    crate::sites::write_key(dir.path());
    let config = crate::sites::two_nodes(dir.path(), any_port());
    for choice in [MissingNamespace::Rebuild, MissingNamespace::New] {
        let error = Node::new().missing_namespace(choice).start(&config, "b").unwrap_err();
        assert!(error.to_string().contains("are for the interface node, \"a\""), "{error}");
    }
}
