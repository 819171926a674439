//! Creates and deletes during which a node is killed, and clocks that jump.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pario::Cluster;
use pario::status::{CheckDepth, CheckRequest, FindingKind};

use super::lab::{Lab, NAMES, is_heavy, until};

/// Only looks.
pub const LOOK: CheckRequest =
    CheckRequest { depth: CheckDepth::Everything, is_repair: false, is_rebuild: false };

/// The known state of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    There,
    Gone,
    /// The last call has failed.
    Unsure,
}

/// Creates and deletes names of its own until `is_over` is set.
fn storm(
    cluster: &Cluster,
    client: usize,
    seed: u64,
    is_over: &AtomicBool,
    acknowledged: &AtomicU64,
) -> BTreeMap<String, Known> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut known = BTreeMap::new();
    while !is_over.load(Ordering::SeqCst) {
        let name = format!("{client}-{}", random.u32(..40));
        let path = format!("/storm/{name}");
        let is_there = known.get(&name).copied().unwrap_or(Known::Gone) != Known::Gone;
        let done = if is_there {
            cluster.remove(&path).map(|()| Known::Gone)
        } else {
            let options = cluster.options().write(true).create_new(true);
            options.open(&path).map(|file| {
                // That a file cannot be closed because its node is away changes nothing here.
                let _ = file.close();
                Known::There
            })
        };
        let now = match done {
            Ok(now) => {
                acknowledged.fetch_add(1, Ordering::SeqCst);
                now
            }
            Err(error) if error.kind() == pario::ErrorKind::NotFound => {
                let before = known.get(&name);
                assert_eq!(before, Some(&Known::Unsure), "{path} was acknowledged: {error}");
                Known::Gone
            }
            Err(error) if error.kind() == pario::ErrorKind::AlreadyExists => {
                panic!("{path} was deleted, and that was acknowledged: {error}")
            }
            Err(_) => Known::Unsure,
        };
        known.insert(name, now);
    }
    known
}

#[test]
fn creates_and_deletes_are_whole_or_not_at_all_when_any_node_dies() {
    let Some(mut lab) = Lab::start() else { return };
    let clients: Vec<Cluster> = (0..3).map(|_| lab.cluster()).collect();
    clients[0].make_directory("/storm").unwrap();
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..if is_heavy() { 60 } else { 6 } {
        let victim = round % NAMES.len();
        let (is_over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
        let known = Mutex::new(BTreeMap::new());
        std::thread::scope(|scope| {
            for (client, cluster) in clients.iter().enumerate() {
                let (seed, client) = (random.u64(..), client + 10 * round);
                let (is_over, acknowledged, known) = (&is_over, &acknowledged, &known);
                scope.spawn(move || {
                    let mine = storm(cluster, client, seed, is_over, acknowledged);
                    known.lock().unwrap().extend(mine);
                });
            }
            let some = random.u64(10..200);
            until("the storm rages", || (acknowledged.load(Ordering::SeqCst) > some).then_some(()));
            lab.kill(victim);
            lab.start_node(victim);
            let before = acknowledged.load(Ordering::SeqCst);
            until("the storm goes on", || {
                (acknowledged.load(Ordering::SeqCst) > before + 10).then_some(())
            });
            is_over.store(true, Ordering::SeqCst);
        });
        let known = known.into_inner().unwrap();
        let cluster = lab.cluster();
        let listed: Result<BTreeSet<String>, _> = cluster
            .list_names("/storm")
            .unwrap()
            .map(|entry| Ok::<_, pario::Error>(entry?.name))
            .collect();
        let listed = listed.unwrap();
        for (name, known) in &known {
            match known {
                Known::There => assert!(listed.contains(name), "{name} was created, and is gone"),
                Known::Gone => assert!(!listed.contains(name), "{name} was deleted, and is there"),
                Known::Unsure => {}
            }
        }
        // An existing file is whole; deleted and partly created files vanish.
        until("what is half done is finished", || {
            let report = cluster.check(LOOK).unwrap();
            let is_half =
                |kind| matches!(kind, FindingKind::UnfinishedDeletion | FindingKind::Extra);
            let bad: Vec<_> = report.findings.iter().filter(|f| !is_half(f.kind)).collect();
            assert!(bad.is_empty(), "{bad:#?}");
            (report.findings.is_empty() && report.silent_nodes.is_empty()).then_some(())
        });
        for name in listed {
            let file = cluster.options().read(true).write(true).open(&format!("/storm/{name}"));
            let file = file.unwrap();
            file.write_at(&[5; 1 << 20], 0).unwrap();
            file.close().unwrap();
            cluster.remove(&format!("/storm/{name}")).unwrap();
        }
        // This also counts what check takes for creations under way.
        until("nothing of this round is left on the disks", || {
            let report = cluster.check(LOOK).unwrap();
            (report.subfiles == 0 && report.silent_nodes.is_empty()).then_some(())
        });
    }
    // Nothing comes back with a new start.
    lab.stop(0);
    lab.start_node(0);
    let cluster = lab.cluster();
    until("nothing is left on the disks", || {
        let report = cluster.check(LOOK).unwrap();
        (report.subfiles == 0 && report.silent_nodes.is_empty()).then_some(())
    });
}

/// Ids are made of the time: here of one that jumps as no machine's does.
#[test]
fn ids_are_new_and_nothing_is_lost_when_the_clock_jumps() {
    use pario_proto::{Access, FileId, FilePath, Identity};
    use pario_server::metadata::RedbStore;
    use pario_server::namespace::{Namespace, WallClock};

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("namespace.redb");
    let root = Identity { uid: 0, gids: vec![0] };
    let year_s: u64 = 365 * 86_400;
    let jumps = [56 * year_s, 30 * year_s, 0, 80 * year_s, 56 * year_s, 56 * year_s];
    let mut ids: BTreeSet<FileId> = BTreeSet::new();
    for (start, seconds) in jumps.into_iter().enumerate() {
        let now_ns = Arc::new(AtomicU64::new(seconds * 1_000_000_000));
        let clock = WallClock::new({
            let now_ns = now_ns.clone();
            move || now_ns.load(Ordering::SeqCst)
        });
        let store = RedbStore::open(&path).unwrap();
        let namespace = Namespace::open(Arc::new(store), "alpha", &root, clock).unwrap();
        for step in 0..20_u64 {
            // It goes back while the node runs as well.
            now_ns.store((seconds * 1_000_000_000).saturating_sub(step << 40), Ordering::SeqCst);
            assert!(ids.insert(namespace.new_file_id()), "an id was used twice");
            let made = FilePath::new(&format!("/{start}-{step}")).unwrap();
            let (send, receive) = std::sync::mpsc::channel();
            namespace.make_directory(root.clone(), made.clone(), 0o755, move |made| {
                send.send(made.map(|_| ())).unwrap();
            });
            receive.recv().unwrap().unwrap();
            let record = namespace.lookup(&root, &made, Access::LOOK).unwrap();
            assert!(ids.insert(record.id), "an id was used twice");
        }
        for start in 0..=start {
            for step in 0..20 {
                let path = FilePath::new(&format!("/{start}-{step}")).unwrap();
                let found = namespace.lookup(&root, &path, Access::LOOK);
                assert!(found.is_ok(), "what was acknowledged is gone: {found:?}");
            }
        }
        assert_eq!(namespace.problems().unwrap(), Vec::<String>::new());
    }
}
