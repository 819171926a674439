//! Which grants a node accepts: its epoch, revocations, and a model of both.

use std::collections::BTreeMap;

use pario_proto::Access;
use proptest::prelude::*;

use super::*;

fn grant(file: u128, rights_version: u32, epoch: u64) -> Grant {
    let (access, seal) = (Access::READ, [0; 32]);
    Grant { file: FileId(file), uid: 1, access, rights_version, epoch, seal }
}

#[test]
fn a_node_without_the_epoch_accepts_nothing() {
    let mut window = GrantWindow::default();
    window.revoke(Revocation { file: FileId(1), first_valid: 3, epoch: 5 });
    assert_eq!(window.check(&grant(1, 3, 5)), Err(GrantRefusal::Uninformed));
    window.enter(5);
    assert_eq!(window.check(&grant(1, 3, 5)), Ok(()));
    assert_eq!(window.check(&grant(1, 2, 5)), Err(GrantRefusal::Revoked));
}

#[test]
fn grants_expire_and_their_revocations_go_with_them() {
    let mut window = GrantWindow::default();
    window.enter(100);
    window.revoke(Revocation { file: FileId(1), first_valid: 3, epoch: 100 });
    let last = 100 + GRANT_LIFETIME_EPOCHS;
    window.enter(last);
    assert_eq!(window.check(&grant(2, 0, 100)), Ok(()));
    assert_eq!(window.check(&grant(1, 2, 100)), Err(GrantRefusal::Revoked));
    window.enter(last + 1);
    assert_eq!(window.check(&grant(2, 0, 100)), Err(GrantRefusal::Expired));
    assert_eq!(window.check(&grant(1, 2, 100)), Err(GrantRefusal::Expired));
    assert!(window.revocations.is_empty());
    // The epoch never falls.
    window.enter(3);
    assert_eq!(window.epoch(), Some(last + 1));
    // A node that lags behind accepts newer grants.
    assert_eq!(window.check(&grant(2, 0, last + 500)), Ok(()));
}

#[test]
fn deleted_files_stay_deleted_however_many_follow() {
    let mut window = GrantWindow::default();
    window.enter(1);
    for file in 0..200_000 {
        let first_valid = REMOVED_RIGHTS_VERSION;
        window.revoke(Revocation { file: FileId(file), first_valid, epoch: 1 });
    }
    assert_eq!(window.check(&grant(0, REMOVED_RIGHTS_VERSION, 1)), Err(GrantRefusal::Deleted));
    let (mut pages, mut after, mut count) = (0, None, 0);
    loop {
        let (page, has_more) = window.page(after);
        (pages, count) = (pages + 1, count + page.len());
        after = page.last().map(|last| last.file);
        if !has_more {
            break;
        }
    }
    assert_eq!((pages, count), (200_000usize.div_ceil(PAGE_LIMIT), 200_000));
}

/// An event in a cluster of one interface node and two others.
#[derive(Clone, Copy, Debug)]
enum ClusterEvent {
    Epochs(u64),
    Issue(u128),
    /// Rights of a file change; the flags say which nodes receive the revocation.
    Change(u128, [bool; 2]),
    Delete(u128, [bool; 2]),
    /// A node asks for news.
    News(usize),
    /// A node restarts; the flag says whether it reaches the interface node.
    Restart(usize, bool),
    RestartInterface,
}

fn events() -> impl Strategy<Value = ClusterEvent> {
    let file = || 0..4u128;
    prop_oneof![
        3 => (1..4u64).prop_map(ClusterEvent::Epochs),
        4 => file().prop_map(ClusterEvent::Issue),
        3 => (file(), any::<[bool; 2]>()).prop_map(|(file, heard)| ClusterEvent::Change(file, heard)),
        1 => (file(), any::<[bool; 2]>()).prop_map(|(file, heard)| ClusterEvent::Delete(file, heard)),
        3 => (0..2usize).prop_map(ClusterEvent::News),
        2 => (0..2usize, any::<bool>()).prop_map(|(node, reaches)| ClusterEvent::Restart(node, reaches)),
        1 => Just(ClusterEvent::RestartInterface),
    ]
}

#[derive(Default)]
struct Cluster {
    epoch: u64,
    /// The namespace: rights versions of existing files, and all revocations ever.
    versions: BTreeMap<u128, u32>,
    durable: Vec<Revocation>,
    interface: GrantWindow,
    nodes: [GrantWindow; 2],
    untold: [bool; 2],
    /// Issued grants, and which nodes must refuse them by now.
    issued: Vec<(Grant, [bool; 2])>,
}

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self { epoch: 1, ..Self::default() };
        cluster.versions.extend((0..4).map(|file| (file, 0)));
        cluster.interface.enter(1);
        (0..2).for_each(|node| cluster.load(node));
        cluster
    }

    fn load(&mut self, node: usize) {
        let mut after = None;
        loop {
            let (page, has_more) = self.interface.page(after);
            after = page.last().map(|last| last.file);
            for revocation in page {
                self.nodes[node].revoke(revocation);
            }
            if !has_more {
                break;
            }
        }
        self.nodes[node].enter(self.epoch);
        self.untold[node] = false;
        for (grant, must_refuse) in &mut self.issued {
            must_refuse[node] |= Some(&grant.rights_version) != self.versions.get(&grant.file.0);
        }
    }

    fn revoke(&mut self, file: u128, first_valid: u32, heard: [bool; 2]) {
        let revocation = Revocation { file: FileId(file), first_valid, epoch: self.epoch };
        self.durable.push(revocation);
        self.interface.revoke(revocation);
        for (node, heard) in heard.into_iter().enumerate() {
            if !heard {
                self.untold[node] = true;
                continue;
            }
            self.nodes[node].revoke(revocation);
            for (grant, must_refuse) in &mut self.issued {
                must_refuse[node] |= grant.file.0 == file;
            }
        }
    }

    fn happen(&mut self, event: ClusterEvent) {
        match event {
            ClusterEvent::Epochs(count) => {
                self.epoch += count;
                self.interface.enter(self.epoch);
            }
            ClusterEvent::Issue(file) => {
                if let Some(version) = self.versions.get(&file) {
                    self.issued.push((grant(file, *version, self.epoch), [false; 2]));
                }
            }
            ClusterEvent::Change(file, heard) => {
                if let Some(version) = self.versions.get_mut(&file) {
                    *version += 1;
                    let first_valid = *version;
                    self.revoke(file, first_valid, heard);
                }
            }
            ClusterEvent::Delete(file, heard) => {
                if self.versions.remove(&file).is_some() {
                    self.revoke(file, REMOVED_RIGHTS_VERSION, heard);
                }
            }
            ClusterEvent::News(node) => {
                if self.untold[node] || self.nodes[node].epoch().is_none() {
                    self.load(node);
                }
                self.nodes[node].enter(self.epoch);
            }
            ClusterEvent::Restart(node, reaches) => {
                self.nodes[node] = GrantWindow::default();
                if reaches {
                    self.load(node);
                }
            }
            ClusterEvent::RestartInterface => {
                self.epoch += 1;
                self.interface = GrantWindow::default();
                let counts = |known: &&Revocation| !is_past(known.epoch, self.epoch);
                for known in self.durable.iter().filter(counts) {
                    self.interface.revoke(*known);
                }
                self.interface.enter(self.epoch);
                // All nodes lose their links, and load everything when they ask again.
                self.untold = [true; 2];
            }
        }
    }

    fn check(&self) {
        for (grant, must_refuse) in &self.issued {
            let is_current = Some(&grant.rights_version) == self.versions.get(&grant.file.0);
            let is_old = is_past(grant.epoch, self.epoch);
            let here = self.interface.check(grant);
            assert_eq!(here.is_ok(), is_current && !is_old, "{grant:?} {here:?}");
            for (node, window) in self.nodes.iter().enumerate() {
                let there = window.check(grant);
                assert!(there.is_err() || !must_refuse[node], "node {node} accepts {grant:?}");
                let has_heard = window.epoch().is_some();
                assert!(has_heard || there == Err(GrantRefusal::Uninformed));
                let is_late = window.epoch() == Some(self.epoch) && is_old;
                assert!(there.is_err() || !is_late, "node {node} accepts the old {grant:?}");
                let is_valid = has_heard && is_current && !is_old;
                assert!(there.is_ok() || !is_valid, "node {node} refuses {grant:?}: {there:?}");
            }
        }
    }
}

proptest! {
    /// Whatever is lost and restarted: a node that has acknowledged or loaded a revocation never
    /// accepts an older grant again, and every node that has been informed accepts the valid ones.
    #[test]
    fn nodes_refuse_what_they_must_and_accept_what_is_valid(
        events in prop::collection::vec(events(), 1..120),
    ) {
        let mut cluster = Cluster::new();
        for event in events {
            cluster.happen(event);
            cluster.check();
        }
    }
}
