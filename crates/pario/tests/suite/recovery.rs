//! Nodes are killed, and nothing that was acknowledged is lost.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use fastrand::Rng;
use pario::status::{CheckDepth, CheckRequest};
use pario::{Cluster, ClusterOptions, ErrorKind, ExtentIndex, ExtentPlacement, SubfileIndex};
use pario_server::Node;

use crate::sites::{NodeProcess, alone, interface_status, until};

fn options(short_cut: bool) -> ClusterOptions {
    ClusterOptions { short_cut: Some(short_cut), ..Default::default() }
}

fn address(dir: &Path) -> String {
    format!("unix:{}", dir.join("s").display())
}

fn content(name: &str, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Rng::with_seed(name.bytes().fold(7, |seed, byte| seed * 31 + u64::from(byte))).fill(&mut bytes);
    bytes
}

/// Creates and fills files until the node is gone; the names of those that were acknowledged, and
/// of those that were removed.
fn work(cluster: &Cluster, life: usize, thread: usize) -> (Vec<(String, usize)>, Vec<String>) {
    let mut random = Rng::with_seed((life * 100 + thread) as u64);
    let (mut written, mut removed) = (Vec::new(), Vec::new());
    for number in 0.. {
        let path = format!("/{life}-{thread}-{number}");
        let len = random.usize(1..400_000);
        let options = cluster.options().read(true).write(true).create_new(true);
        if options.open(&path).and_then(|file| file.write_at(&content(&path, len), 0)).is_err() {
            break;
        }
        written.push((path, len));
        if random.u32(0..4) == 0 {
            let (path, _) = written.swap_remove(random.usize(0..written.len()));
            removed.push(path.clone());
            if cluster.remove(&path).is_err() {
                break;
            }
        }
    }
    (written, removed)
}

#[test]
fn acknowledged_files_survive_kills() {
    for short_cut in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let mut written = Vec::new();
        let mut unknown: Vec<String> = Vec::new();
        for life in 0..5 {
            let node = Mutex::new(NodeProcess::start(dir.path(), "local", None));
            let cluster = Cluster::connect_with(&address(dir.path()), options(short_cut)).unwrap();
            let files = |cluster: &Cluster| interface_status(cluster).files;
            let before = files(&cluster);
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..3)
                    .map(|thread| {
                        let cluster = &cluster;
                        scope.spawn(move || work(cluster, life, thread))
                    })
                    .collect();
                // Kill the node while the threads work: once enough files exist.
                let watch = Cluster::connect(&address(dir.path())).unwrap();
                until("files are created", || files(&watch) > before + 5 + life as u64 * 7);
                node.lock().unwrap().kill();
                for thread in threads {
                    let (more, removed) = thread.join().unwrap();
                    written.extend(more);
                    unknown.extend(removed);
                }
            });
        }
        let node = NodeProcess::start(dir.path(), "local", None);
        let cluster = Cluster::connect_with(&address(dir.path()), options(short_cut)).unwrap();
        for (path, len) in &written {
            let mut bytes = vec![0; *len];
            let file = cluster.open(path).unwrap();
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert!(bytes == content(path, *len), "{path}");
            assert_eq!(file.len().unwrap(), *len as u64);
        }
        // Any other file was being created when the node was killed; it is whole or empty.
        for entry in cluster.list("/").unwrap() {
            let entry = entry.unwrap();
            let path = format!("/{}", entry.name);
            cluster.open(&path).unwrap().read_at(&mut [0; 100], 0).unwrap();
        }
        until("what was begun is finished or gone", || {
            interface_status(&cluster).unfinished_deletions == 0
        });
        let what =
            CheckRequest { depth: CheckDepth::Everything, is_repair: false, is_rebuild: false };
        let findings = cluster.check(what).unwrap().findings;
        assert_eq!(findings, []);
        assert!(!written.is_empty() && !unknown.is_empty());
        drop(cluster);
        node.stop();
    }
}

/// An open file works again when the node is back. Until then calls fail at once and name the
/// missing node.
#[test]
fn a_client_outlives_its_node() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = NodeProcess::start(dir.path(), "local", None);
    let cluster = Cluster::connect_with(&address(dir.path()), options(false)).unwrap();
    let file = cluster.create("/f").unwrap();
    let extents = cluster.options().read(true).write(true).create(true).extents();
    let extents = extents.open("/e").unwrap();
    let place = ExtentPlacement { subfile: SubfileIndex(1), extent: ExtentIndex(3) };
    for round in 0..4u8 {
        file.write_at(&[round; 200_000], 0).unwrap();
        extents.write_extent(&[round], &[round; 1000], place).unwrap();
        node.kill();
        let fails = |what: &str, work: &dyn Fn() -> Result<(), pario::Error>| {
            let begun = Instant::now();
            let error = work().unwrap_err();
            assert!(begun.elapsed() < Duration::from_secs(2), "{what}: {:?}", begun.elapsed());
            assert_eq!(error.kind(), ErrorKind::NodeUnreachable, "{what}: {error}");
            let error = error.to_string();
            let is_told = error.contains("node local") && error.contains(" does not answer");
            assert!(is_told, "{what}: {error}");
        };
        fails("read", &|| file.read_at(&mut [0; 10], 0).map(|_| ()));
        fails("write", &|| file.write_at(&[9; 10], 1 << 20));
        fails("start", &|| file.start_read_at(10, 0).and_then(|read| read.wait()).map(|_| ()));
        fails("len", &|| file.len().map(|_| ()));
        fails("sync", &|| file.sync());
        fails("extent", &|| extents.read_extent(place).map(|_| ()));
        fails("open", &|| cluster.open("/f").map(|_| ()));
        fails("create", &|| cluster.create("/g").map(|_| ()));
        fails("list", &|| cluster.list("/").map(|_| ()));
        node = NodeProcess::start(dir.path(), "local", None);
        let mut bytes = vec![0; 200_000];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes.iter().all(|byte| *byte == round));
        assert_eq!(extents.read_extent(place).unwrap().unwrap().header[..], [round]);
        assert_eq!(file.len().unwrap(), 200_000);
        file.sync().unwrap();
    }
    drop((file, extents, cluster));
    node.stop();
}

/// A handle from before a restart never means a file that was opened afterwards.
#[test]
fn handles_of_before_a_restart_mean_nothing() {
    for short_cut in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let config = alone(dir.path());
        let node = Node::start(&config, "local").unwrap();
        let cluster = Cluster::connect_with(&address(dir.path()), options(short_cut)).unwrap();
        let old = cluster.create("/old").unwrap();
        old.write_at(b"old", 0).unwrap();
        node.stop();
        let node = Node::start(&config, "local").unwrap();
        until("the client has noticed", || cluster.metadata("/").is_ok());
        let new = cluster.create("/new").unwrap();
        new.write_at(b"new", 0).unwrap();
        let mut bytes = [0; 3];
        // Rights change: the old file asks for a new grant, with a handle that is not known. Its
        // last grant shows which file it is.
        cluster.set_mode("/old", 0o600).unwrap();
        old.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"old");
        drop(old);
        // Closing the old one has not closed the new one: it can be used though it is deleted.
        cluster.remove("/new").unwrap();
        assert_eq!(interface_status(&cluster).open_files, 1);
        new.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"new");
        drop((new, cluster));
        node.stop();
    }
}

/// With two nodes, the death of one fails what needs it and nothing else.
#[test]
fn one_of_two_nodes_dies() {
    let mut site = crate::sites::Site::new(crate::sites::Transport::TwoNodes);
    let (here, there) = (site.disks()[0].clone(), site.disks()[2].clone());
    let cluster = site.cluster.clone();
    let new = |disk: &str, path: &str| {
        let options = cluster.options().read(true).write(true).create_new(true);
        options.disks([disk]).open(path).unwrap()
    };
    let (near, far) = (new(&here, "/near"), new(&there, "/far"));
    near.write_at(b"near", 0).unwrap();
    far.write_at(b"far!", 0).unwrap();
    let deleted = new(&there, "/deleted");
    drop(deleted);
    site.child.as_mut().unwrap().kill();
    let begun = Instant::now();
    let error = far.read_at(&mut [0; 4], 0).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("node b") && error.contains(" does not answer"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(2));
    let mut bytes = [0; 4];
    near.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"near");
    cluster.remove("/deleted").unwrap();
    // Files are created on the disks that are there.
    let mut number = 0;
    until("the loss is known", || {
        number += 1;
        let created = cluster.create(&format!("/spread-{number}"));
        created.is_ok_and(|file| file.metadata().is_ok_and(|found| found.subfiles.len() == 2))
    });
    let what = CheckRequest { depth: CheckDepth::Names, is_repair: false, is_rebuild: false };
    let report = cluster.check(what).unwrap();
    assert_eq!(report.silent_nodes, ["b"]);
    assert!(
        report
            .findings
            .iter()
            .all(|found| found.kind == pario::status::FindingKind::UnfinishedDeletion)
    );
    let first = crate::sites::tcp_of(&site.nodes[0].address());
    let child = NodeProcess::start(site.dir.path(), "b", Some(first));
    child.only_tcp();
    site.child = Some(child);
    // It has another port now: a new client finds it.
    until("the node is back and the deletion is finished", || {
        let back = site.another();
        let is_read = back.open("/far").and_then(|far| far.read_exact_at(&mut bytes, 0)).is_ok();
        is_read && interface_status(&back).unfinished_deletions == 0
    });
    assert_eq!(&bytes, b"far!");
}
