//! Rights that were given once: grants expire, are renewed while a file is open, and revive nothing.

use std::net::SocketAddr;

use pario::{Cluster, ClusterOptions, DiskId, ExtentIndex, ExtentPlacement, SubfileIndex};
use pario_proto::{
    Failure, FileId, FileKind, FileRecord, GRANT_LIFETIME_EPOCHS, Grant, PeerRequest, Reply,
    Request, SubfileLocation,
};
use pario_server::Node;

use crate::sites::raw_client::{RawClient, deleted, expired, part, revoked, works};
use crate::sites::{Site, Transport, alone, tcp_of, until};

/// Epochs after which a grant has expired.
const LIFETIME: u64 = GRANT_LIFETIME_EPOCHS + 1;

fn node_address(site: &Site, node: usize) -> SocketAddr {
    match node {
        0 => tcp_of(&site.nodes[0].address()),
        _ => tcp_of(&site.child.as_ref().unwrap().address),
    }
}

fn client(site: &Site, node: usize, uid: u32) -> RawClient {
    RawClient::connect(node_address(site, node), &site.dir.path().join("key"), uid, "thief")
}

/// The numbers of disks by their names.
fn disks(cluster: &Cluster, names: &[String]) -> Vec<DiskId> {
    let map = cluster.map();
    let all: Vec<DiskId> =
        map.nodes.iter().flat_map(|node| &node.disks).map(|disk| disk.id).collect();
    let number = |name: &String| all.iter().find(|id| map.disk_name(**id) == *name).copied();
    names.iter().map(|name| number(name).unwrap()).collect()
}

/// A directory in which every user may create files.
fn make_open_directory(cluster: &Cluster) {
    cluster.make_directory("/open").unwrap();
    cluster.set_mode("/open", 0o777).unwrap();
}

#[test]
fn an_old_grant_is_refused_at_every_node_after_its_lifetime() {
    let site = Site::new(Transport::TwoNodes);
    make_open_directory(&site.cluster);
    let (first, second) = (client(&site, 0, 1000), client(&site, 1, 1000));
    let names = site.disks();
    let disks = disks(&site.cluster, &[names[0].clone(), names[2].clone()]);
    let opened = first.create("/open/f", 0o600, disks).unwrap();
    let (here, there) = (part(&opened, 0), part(&opened, 1));
    works(first.write(&opened.grant, here));
    works(second.write(&opened.grant, there));
    site.nodes[0].begin_grant_epochs(GRANT_LIFETIME_EPOCHS).unwrap();
    works(first.read(&opened.grant, here));
    works(second.read(&opened.grant, there));
    site.nodes[0].begin_grant_epochs(1).unwrap();
    expired(first.read(&opened.grant, here));
    expired(first.write(&opened.grant, here));
    until("the second node has heard the epoch", || second.read(&opened.grant, there).is_err());
    expired(second.read(&opened.grant, there));
    expired(second.write(&opened.grant, there));
    // As long as the file is open, another one can be had.
    let renewed = first.renew(opened.handle, &opened.grant).unwrap();
    works(first.read(&renewed.grant, here));
    works(second.read(&renewed.grant, there));
}

#[test]
fn an_open_file_goes_on_through_several_lifetimes() {
    for transport in [Transport::ShortCut, Transport::Socket, Transport::Tcp, Transport::TwoNodes] {
        println!("{transport:?}");
        let site = Site::new(transport);
        let file = site.cluster.create("/f").unwrap();
        let options = site.cluster.options().read(true).write(true).create_new(true);
        let extents = options.extents().open("/e").unwrap();
        let place = ExtentPlacement { subfile: SubfileIndex(3), extent: ExtentIndex(7) };
        for round in 0..4u8 {
            let bytes = vec![round; 400_000];
            file.write_at(&bytes, 0).unwrap();
            extents.write_extent(&[round], &bytes, place).unwrap();
            site.nodes[0].begin_grant_epochs(LIFETIME).unwrap();
            let mut back = vec![9; 400_000];
            file.read_exact_at(&mut back, 0).unwrap();
            assert!(back == bytes);
            site.nodes[0].begin_grant_epochs(LIFETIME).unwrap();
            assert!(file.start_read_at(400_000, 0).unwrap().wait().unwrap() == bytes);
            site.nodes[0].begin_grant_epochs(LIFETIME).unwrap();
            file.start_write_at(bytes.clone(), 0).unwrap().wait().unwrap();
            site.nodes[0].begin_grant_epochs(LIFETIME).unwrap();
            file.sync().unwrap();
            site.nodes[0].begin_grant_epochs(LIFETIME).unwrap();
            assert_eq!(file.metadata().unwrap().len, 400_000);
            assert_eq!(extents.read_extent(place).unwrap().unwrap().body.len(), 400_000);
            site.nodes[0].begin_grant_epochs(LIFETIME).unwrap();
            assert_eq!(extents.list_extents().unwrap().count(), 1);
            extents.sync().unwrap();
        }
    }
}

/// A file that was not used for a lifetime gets its short cut all the same.
#[test]
fn an_idle_file_gets_descriptors_after_its_grant_has_expired() {
    let site = Site::new(Transport::ShortCut);
    site.cluster.create("/f").unwrap().write_at(b"idle", 0).unwrap();
    let file = site.cluster.open("/f").unwrap();
    site.nodes[0].begin_grant_epochs(LIFETIME).unwrap();
    assert!(file.has_short_cut());
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"idle");
}

/// The replies of the interface node to a node that has missed a revocation, and to one that has a
/// later epoch.
#[test]
fn a_node_that_has_missed_a_revocation_must_load_them() {
    let mut site = Site::new(Transport::TwoNodes);
    let names = site.disks();
    let options = site.cluster.options().write(true).create_new(true);
    let file = options.disks([names[2].clone()]).open("/f").unwrap();
    let id = file.record().id;
    let key = site.dir.path().join("key");
    let peer = RawClient::connect(node_address(&site, 0), &key, 0, "node b again");
    let news = || match peer.ask(Request::Peer(PeerRequest::GrantNews { node: "b".to_owned() })) {
        Ok(Reply::GrantNews { epoch, must_reload }) => (epoch, must_reload),
        reply => panic!("{reply:?}"),
    };
    let load = |known_epoch| {
        let (node, after) = ("b".to_owned(), None);
        match peer.ask(Request::Peer(PeerRequest::Revocations { node, known_epoch, after })) {
            Ok(Reply::Revocations { epoch, revocations, is_more: false }) => (epoch, revocations),
            reply => panic!("{reply:?}"),
        }
    };
    let (epoch, must_reload) = news();
    assert!(!must_reload);
    site.child.as_mut().unwrap().kill();
    assert_eq!(site.cluster.set_mode("/f", 0o600).unwrap().untold, ["b"]);
    assert!(news().1);
    let (_, revocations) = load(None);
    assert!(revocations.iter().any(|known| known.file == id && known.first_valid == 1));
    assert!(!news().1, "it has them");
    // Epochs never fall: the interface node goes on from what a node knows.
    let known = epoch + 1_000_000;
    assert!(load(Some(known)).0 >= known);
    assert!(news().0 >= known);
    let unknown = PeerRequest::GrantNews { node: "c".to_owned() };
    assert!(peer.ask(Request::Peer(unknown)).is_err());
}

/// As everywhere, a file that was opened stays open, whatever its mode says; but not after a change
/// of its rights.
#[test]
fn a_renewal_checks_rights_that_have_changed_and_no_others() {
    let site = Site::new(Transport::Tcp);
    make_open_directory(&site.cluster);
    let user = client(&site, 0, 1000);
    let all = disks(&site.cluster, &site.disks());
    let created = user.create("/open/f", 0o400, all).unwrap();
    let place = part(&created, 0);
    works(user.write(&created.grant, place));
    site.nodes[0].begin_grant_epochs(LIFETIME).unwrap();
    expired(user.write(&created.grant, place));
    let renewed = user.renew(created.handle, &created.grant).unwrap();
    works(user.write(&renewed.grant, place));
    // A grant of another user is not renewed, nor one that was changed.
    let other = client(&site, 0, 2000);
    let taken = other.renew(created.handle, &renewed.grant).unwrap_err();
    assert!(taken.to_string().contains("given to another user"), "{taken}");
    let forged = Grant { epoch: u64::MAX, ..renewed.grant.clone() };
    let taken = client(&site, 0, 1000).renew(1, &forged).unwrap_err();
    assert!(taken.to_string().contains("not given by this cluster"), "{taken}");

    site.cluster.set_mode("/open/f", 0o440).unwrap();
    revoked(user.write(&renewed.grant, place));
    let denied = user.renew(created.handle, &renewed.grant).unwrap_err();
    assert!(matches!(denied, Failure::Denied { .. }), "{denied}");
}

/// A restarted node knows no handles; the last grant shows which file the client had open.
#[test]
fn open_files_are_renewed_after_a_restart_of_the_interface_node() {
    for short_cut in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let config = alone(dir.path());
        let mut node = Node::start(&config, "local").unwrap();
        let address = format!("unix:{}", dir.path().join("s").display());
        let options = ClusterOptions { short_cut: Some(short_cut), ..Default::default() };
        let cluster = Cluster::connect_with(&address, options).unwrap();
        let file = cluster.create("/f").unwrap();
        for round in 0..3u8 {
            file.write_at(&[round; 100_000], 0).unwrap();
            node.stop();
            node = Node::start(&config, "local").unwrap();
            until("the client has noticed", || cluster.metadata("/").is_ok());
            node.begin_grant_epochs(LIFETIME).unwrap();
            assert!(
                file.start_read_at(100_000, 0).unwrap().wait().unwrap() == vec![round; 100_000]
            );
            file.sync().unwrap();
        }
        // A file that was deleted is not among them.
        cluster.remove("/f").unwrap();
        until("its subfiles are gone", || {
            crate::sites::interface_status(&cluster).unfinished_deletions == 0
        });
        let error = file.metadata().unwrap_err();
        assert!(error.to_string().contains("was deleted"), "{error}");
        drop((file, cluster));
        node.stop();
    }
}

/// A grant for a file that no subfile of was made yet, and that was deleted since.
fn grant_of_deleted(site: &Site, user: &RawClient) -> (Grant, SubfileLocation) {
    make_open_directory(&site.cluster);
    let all = disks(&site.cluster, &site.disks());
    let before = site.subfiles();
    let opened = user.create("/open/f", 0o600, all).unwrap();
    let close = pario_proto::NamespaceRequest::Close { handle: opened.handle };
    user.ask(Request::Namespace(close)).unwrap();
    site.cluster.remove("/open/f").unwrap();
    site.wait_for_deletions();
    assert_eq!(site.subfiles(), before);
    (opened.grant.clone(), part(&opened, 3))
}

#[test]
fn a_deleted_file_stays_deleted_however_many_are_deleted_after_it() {
    let site = Site::new(Transport::Tcp);
    let user = client(&site, 0, 1000);
    let (grant, place) = grant_of_deleted(&site, &user);
    deleted(user.write(&grant, place));
    // More files than nodes used to remember are removed, as the interface node tells nodes to.
    let key = site.dir.path().join("key");
    let peer = RawClient::connect(node_address(&site, 0), &key, 0, "node x");
    let epoch = grant.epoch;
    let layout = site.cluster.create("/other").unwrap().record().layout.clone();
    for batch in 0..70u128 {
        let file = |number: u128| FileRecord {
            id: FileId(1_000_000 + batch * 1_000 + number),
            kind: FileKind::Flat,
            layout: layout.clone(),
            uid: 0,
            gid: 0,
            mode: 0,
            created_ns: 0,
            changed_ns: 0,
            rights_version: 0,
            first_synced: Vec::new(),
        };
        let files = (0..1_000).map(file).collect();
        let removed = peer.ask(Request::Peer(PeerRequest::RemoveSubfiles { files, epoch }));
        assert_eq!(removed, Ok(Reply::Done));
    }
    deleted(user.write(&grant, place));
    assert_eq!(site.subfiles(), 0);
}

#[test]
fn a_deleted_file_stays_deleted_after_restarts() {
    let mut site = Site::new(Transport::Tcp);
    let user = client(&site, 0, 1000);
    let (grant, place) = grant_of_deleted(&site, &user);
    let mut config = alone(site.dir.path());
    config.key_file = Some(site.dir.path().join("key"));
    config.nodes[0].listen = Some(crate::sites::any_port());
    for _ in 0..3 {
        site.nodes.remove(0).stop();
        site.nodes.push(Node::start(&config, "local").unwrap());
        let user = client(&site, 0, 1000);
        deleted(user.write(&grant, place));
        assert!(matches!(user.renew(7, &grant), Err(Failure::Deleted { .. })));
        assert_eq!(site.subfiles(), 0);
    }
    site.nodes[0].begin_grant_epochs(LIFETIME).unwrap();
    expired(client(&site, 0, 1000).write(&grant, place));
    assert_eq!(site.subfiles(), 0);
}

/// A client uses a deleted file that it has open until it closes it, through renewals.
#[test]
fn a_deleted_file_that_is_open_is_used_until_it_is_closed() {
    let site = Site::new(Transport::TwoNodes);
    make_open_directory(&site.cluster);
    let (first, second) = (client(&site, 0, 1000), client(&site, 1, 1000));
    let names = site.disks();
    let disks = disks(&site.cluster, &[names[0].clone(), names[2].clone()]);
    let opened = first.create("/open/f", 0o600, disks).unwrap();
    works(first.write(&opened.grant, part(&opened, 0)));
    site.cluster.set_mode("/open/f", 0o644).unwrap();
    site.cluster.remove("/open/f").unwrap();
    revoked(first.write(&opened.grant, part(&opened, 0)));
    let mut grant = opened.grant.clone();
    for _ in 0..3 {
        site.nodes[0].begin_grant_epochs(LIFETIME).unwrap();
        grant = first.renew(opened.handle, &grant).unwrap().grant;
        works(first.write(&grant, part(&opened, 0)));
        works(second.write(&grant, part(&opened, 1)));
    }
    let close = pario_proto::NamespaceRequest::Close { handle: opened.handle };
    first.ask(Request::Namespace(close)).unwrap();
    site.wait_for_deletions();
    deleted(first.write(&grant, part(&opened, 0)));
    deleted(second.write(&grant, part(&opened, 1)));
    assert!(matches!(first.renew(opened.handle, &grant), Err(Failure::Deleted { .. })));
    assert_eq!(site.subfiles(), 0);
}
