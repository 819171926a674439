//! Nodes whose clocks differ by weeks and jump: nothing is lost, nothing takes longer, and no id is
//! used twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use pario::Cluster;
use pario_proto::{Access, FileId, GRANT_LIFETIME_EPOCHS};

use super::grants::create_at;
use super::lab::{Lab, at_once, is_heavy, pattern, until};
use super::names::LOOK;
use crate::sites::raw_client::{expired, part, works};

const DAY_S: u64 = 86_400;
/// More than a stripe: all disks get some of it.
const LEN: usize = 1 << 20;

/// The results of the workers.
#[derive(Default)]
struct Done {
    ids: Mutex<BTreeSet<FileId>>,
    /// Files that are there, with the seeds of what is in them.
    files: Mutex<BTreeMap<String, u64>>,
    count: AtomicU64,
}

impl Done {
    /// Creates, writes, syncs, reads, lists and deletes until `is_over` is set.
    fn work(&self, cluster: &Cluster, worker: u64, is_over: &AtomicBool) {
        for number in 0.. {
            if is_over.load(Ordering::SeqCst) {
                return;
            }
            let (name, seed) = (format!("{worker}-{number}"), (worker << 32) + number);
            let path = format!("/work/{name}");
            self.make(cluster, &path, seed);
            at_once("listing", || {
                let listed: Result<Vec<_>, _> = cluster.list_names("/work")?.collect();
                assert!(listed?.iter().any(|entry| entry.name == name), "{path} is not listed");
                Ok(())
            });
            if number % 3 == 0 {
                at_once("deleting", || cluster.remove(&path));
            } else {
                self.files.lock().unwrap().insert(path, seed);
            }
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn make(&self, cluster: &Cluster, path: &str, seed: u64) {
        let options = cluster.options().read(true).write(true).create_new(true);
        let file = at_once("creating", || options.open(path));
        let id = file.record().id;
        assert!(self.ids.lock().unwrap().insert(id), "{id} was used twice");
        let bytes = pattern(seed, 0, LEN);
        at_once("writing", || file.write_at(&bytes, 0));
        at_once("syncing", || file.sync());
        let mut back = vec![0; LEN];
        at_once("reading", || file.read_exact_at(&mut back, 0));
        assert!(back == bytes, "{path} has something else");
        at_once("closing", || file.close());
    }

    /// Asserts that all files exist with their content.
    fn compare(&self, cluster: &Cluster) {
        let files = self.files.lock().unwrap();
        let listed: Result<BTreeSet<String>, pario::Error> = cluster
            .list_names("/work")
            .unwrap()
            .map(|entry| Ok(format!("/work/{}", entry?.name)))
            .collect();
        assert_eq!(listed.unwrap(), files.keys().cloned().collect());
        for (path, seed) in &*files {
            let mut back = vec![0; LEN];
            cluster.open(path).unwrap().read_exact_at(&mut back, 0).unwrap();
            assert!(back == pattern(*seed, 0, LEN), "{path} has something else");
        }
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn clocks_that_differ_by_weeks_and_jump_disturb_no_client() {
    let Some(mut lab) = Lab::start_with_clocks(["-10d", "+10d", "+0d"]) else { return };
    let cluster = lab.cluster();
    cluster.make_directory("/work").unwrap();
    let open = cluster.options().read(true).write(true).create_new(true).open("/open").unwrap();
    let expected = now_s() - 10 * DAY_S;
    let created = open.record().created_ns / 1_000_000_000;
    assert!(created.abs_diff(expected) < 3600, "the node has another clock: {created}");

    // Grants count epochs, not hours: this one is valid whatever the clocks say.
    let user = lab.raw_client(1, 0);
    let there = create_at(&cluster, 1, "/there");
    let grant = lab.raw_client(0, 0).open("/there", Access::READ).unwrap();
    let place = part(&grant, 0);
    drop(there);

    let done = Done::default();
    let is_over = AtomicBool::new(false);
    let clients = [lab.cluster(), lab.cluster_at(1), lab.cluster_at(2)];
    let jumps = [
        ["+10d", "-10d", "+0d"],
        ["-10d", "+10d", "-20d"],
        ["+3650d", "+3650d", "+3650d"],
        ["-3650d", "+0d", "+1d"],
        ["-1d", "-1d", "-1d"],
    ];
    let rounds = if is_heavy() { 20 } else { 2 };
    std::thread::scope(|scope| {
        /// Ends the workers also if the test fails.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let _end = End(&is_over);
        for (worker, client) in (0..).zip(&clients) {
            let (done, is_over) = (&done, &is_over);
            scope.spawn(move || done.work(client, worker, is_over));
        }
        for (round, jump) in jumps.iter().cycle().take(rounds * jumps.len()).enumerate() {
            for (node, offset) in jump.iter().enumerate() {
                lab.set_clock(node, offset);
            }
            // Clients with an open file learn of new rights, whatever the clocks show.
            let mode = 0o600 + u32::try_from(round % 8).unwrap();
            at_once("changing rights", || cluster.set_mode("/open", mode));
            at_once("writing", || open.write_at(&pattern(9, 0, LEN), 0));
            at_once("syncing", || open.sync());
            works(user.read(&grant.grant, place));
            let before = done.count.load(Ordering::SeqCst);
            until("the clients go on", || {
                (done.count.load(Ordering::SeqCst) > before + 6).then_some(())
            });
        }
    });
    done.compare(&cluster);
    // It expires with the epochs, also while all clocks are years behind; open files go on.
    for node in 0..3 {
        lab.set_clock(node, "-3650d");
    }
    lab.begin_grant_epochs(GRANT_LIFETIME_EPOCHS + 1);
    until("the grant has expired", || user.read(&grant.grant, place).err());
    expired(user.read(&grant.grant, place));
    at_once("writing", || open.write_at(&pattern(9, 0, LEN), 0));

    // Nodes that are started with another clock than before join, and find what they had.
    for (round, node) in [1, 0, 2].into_iter().enumerate() {
        for (step, offset) in ["-20d", "+20d"].into_iter().enumerate() {
            lab.stop(node);
            lab.set_clock(node, offset);
            lab.start_node(node);
            let cluster = lab.cluster();
            let path = format!("/work/again-{round}-{step}");
            until("all nodes are reached", || {
                cluster.status(super::lab::IN_TIME).iter().all(|(_, s)| s.is_ok()).then_some(())
            });
            done.make(&cluster, &path, 77);
            done.files.lock().unwrap().insert(path, 77);
            done.compare(&cluster);
        }
    }
    until("deleted files are gone", || {
        let report = lab.cluster().check(LOOK).unwrap();
        (report.findings.is_empty() && report.silent_nodes.is_empty()).then_some(())
    });
    eprintln!("{} files", done.ids.lock().unwrap().len());
}
