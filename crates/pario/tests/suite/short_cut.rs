//! Whether accesses take the short cut.

use pario::{Cluster, ClusterOptions};
use pario_server::Node;
use pario_server::config::ShortCut;

use crate::sites::{
    alone, any_port, connect_when_complete, key_options, tcp_of, two_nodes, write_key,
};

/// `short_cut = "read"`: readers have descriptors, writes go through the node.
#[test]
fn descriptors_for_reading_only() {
    for (short_cut, reads, writes) in [
        (ShortCut::Write, true, true),
        (ShortCut::Read, true, false),
        (ShortCut::Off, false, false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut config = alone(dir.path());
        config.nodes[0].short_cut = short_cut;
        let _node = Node::start(&config, "local").unwrap();
        let address = format!("unix:{}", config.nodes[0].socket.display());
        let options = ClusterOptions { short_cut: Some(true), ..Default::default() };
        let cluster = Cluster::connect_with(&address, options).unwrap();
        let file = cluster.create("/f").unwrap();
        file.write_at(b"bytes", 0).unwrap();
        assert_eq!(file.has_short_cut(), writes, "{short_cut:?}");
        let reader = cluster.open("/f").unwrap();
        assert_eq!(reader.has_short_cut(), reads, "{short_cut:?}");
        file.write_at(b"again", 0).unwrap();
        let mut bytes = [0; 5];
        reader.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"again");
    }
}

/// Only the first of two nodes passes descriptors.
#[test]
fn a_file_has_a_short_cut_if_all_its_nodes_pass_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    write_key(dir.path());
    let mut config = two_nodes(dir.path(), any_port());
    config.nodes[0].short_cut = ShortCut::Write;
    let first = Node::start(&config, "a").unwrap();
    config.nodes[0].listen = Some(tcp_of(&first.address()));
    let _second = Node::start(&config, "b").unwrap();
    let address = format!("unix:{}", config.nodes[0].socket.display());
    let options = ClusterOptions { short_cut: Some(true), ..key_options(dir.path()) };
    let cluster = connect_when_complete(&address, &options);
    for (disks, has_short_cut) in [
        (["a/disk0", "a/disk1"], true),
        (["a/disk0", "b/disk0"], false),
        (["b/disk0", "a/disk0"], false),
    ] {
        let path = format!("/{}", disks.join("-").replace('/', "."));
        let options = cluster.options().read(true).write(true).create_new(true);
        let file = options.disks(disks).open(&path).unwrap();
        assert_eq!(file.has_short_cut(), has_short_cut, "{disks:?}");
    }
}
