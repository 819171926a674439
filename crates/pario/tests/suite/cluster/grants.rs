//! Grants and revocations while nodes hang, are cut off, or start without the interface node.

use std::time::{Duration, Instant};

use pario::{Access, Cluster, File};
use pario_proto::{Failure, GRANT_LIFETIME_EPOCHS, Opened, Reply};

use super::lab::{Lab, NAMES, until};
use crate::sites::raw_client::{expired, part, revoked, works};

/// Epochs after which a grant has expired.
const LIFETIME: u64 = GRANT_LIFETIME_EPOCHS + 1;

/// A file on the first disk of a node, with something in it, that all users may read.
pub fn create_at(cluster: &Cluster, node: usize, path: &str) -> File {
    let disk = format!("{}/disk0", NAMES[node]);
    let options = cluster.options().read(true).write(true).create_new(true).disks([disk]);
    let file = options.open(path).unwrap_or_else(|error| panic!("{error}"));
    file.write_at(b"some bytes", 0).unwrap();
    file
}

/// The reply to user 1000 for a file.
fn open_as_user(lab: &Lab, path: &str) -> Opened {
    lab.raw_client(0, 1000).open(path, Access::READ).unwrap()
}

#[track_caller]
fn uninformed(result: Result<Reply, Failure>) {
    let failure = result.unwrap_err();
    assert!(matches!(failure, Failure::Uninformed { .. }), "{failure}");
    assert!(failure.to_string().contains("start node alpha"), "{failure}");
}

#[test]
fn a_node_that_starts_without_the_interface_node_accepts_no_grant() {
    let Some(mut lab) = Lab::start() else { return };
    let cluster = lab.cluster();
    let _files = [create_at(&cluster, 1, "/taken"), create_at(&cluster, 1, "/kept")];
    let (taken, kept) = (open_as_user(&lab, "/taken"), open_as_user(&lab, "/kept"));
    let user = lab.raw_client(1, 1000);
    works(user.read(&taken.grant, part(&taken, 0)));
    assert_eq!(cluster.set_mode("/taken", 0o600).unwrap().untold, [""; 0]);
    revoked(user.read(&taken.grant, part(&taken, 0)));
    lab.kill(0);
    lab.kill(1);
    lab.start_node(1);
    let user = lab.raw_client(1, 1000);
    uninformed(user.read(&taken.grant, part(&taken, 0)));
    uninformed(user.read(&kept.grant, part(&kept, 0)));
    // Nodes that run on know what they knew.
    lab.start_node(0);
    until("the node has heard", || user.read(&kept.grant, part(&kept, 0)).ok());
    revoked(user.read(&taken.grant, part(&taken, 0)));
    // The same if the interface node was there all the time.
    lab.kill(1);
    lab.start_node(1);
    let user = lab.raw_client(1, 1000);
    works(user.read(&kept.grant, part(&kept, 0)));
    revoked(user.read(&taken.grant, part(&taken, 0)));
}

#[test]
fn open_files_outlive_the_interface_node() {
    let Some(mut lab) = Lab::start_with_clocks(["+0d", "+0d", "+0d"]) else { return };
    let cluster = lab.cluster();
    let file = create_at(&cluster, 1, "/f");
    let held = open_as_user(&lab, "/f");
    let user = lab.raw_client(1, 1000);
    // The last epoch in which the grants are valid.
    lab.begin_grant_epochs(GRANT_LIFETIME_EPOCHS);
    lab.kill(0);
    for offset in ["+1d", "-1d", "+3650d", "-3650d", "+0d"] {
        (1..3).for_each(|node| lab.set_clock(node, offset));
        works(user.read(&held.grant, part(&held, 0)));
        let mut bytes = [0; 10];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"some bytes");
        file.write_at(b"some bytes", 0).unwrap();
        file.set_len(10).unwrap();
        assert_eq!(file.metadata().unwrap().len, 10);
    }
    // It is back, counts on, and knows nothing of the open file: its grant shows it.
    lab.set_clock(0, "-3650d");
    lab.start_node(0);
    lab.begin_grant_epochs(LIFETIME);
    until("the grant has expired", || user.read(&held.grant, part(&held, 0)).err());
    expired(user.read(&held.grant, part(&held, 0)));
    until("the file goes on", || file.write_at(b"some bytes", 0).ok());
    file.sync().unwrap();
}

#[test]
fn a_change_of_rights_names_a_node_that_hangs_and_holds_there_when_it_goes_on() {
    let Some(lab) = Lab::start() else { return };
    let cluster = lab.cluster();
    let _files = [create_at(&cluster, 1, "/there"), create_at(&cluster, 2, "/elsewhere")];
    let held = open_as_user(&lab, "/there");
    let user = lab.raw_client(1, 1000);
    works(user.read(&held.grant, part(&held, 0)));
    lab.pause(1);
    let began = Instant::now();
    assert_eq!(cluster.set_mode("/there", 0o600).unwrap().untold, ["beta"]);
    assert!(began.elapsed() < Duration::from_secs(6), "it took {:?}", began.elapsed());
    assert_eq!(cluster.set_mode("/elsewhere", 0o600).unwrap().untold, [""; 0]);
    lab.resume(1);
    until("the node has heard of it", || user.read(&held.grant, part(&held, 0)).err());
    revoked(user.read(&held.grant, part(&held, 0)));
    until("nothing is left to be told", || {
        cluster.set_mode("/there", 0o640).unwrap().untold.is_empty().then_some(())
    });
}

#[test]
fn a_node_whose_link_was_cut_hears_what_it_has_missed() {
    let Some(lab) = Lab::start() else { return };
    let cluster = lab.cluster();
    let _file = create_at(&cluster, 1, "/there");
    let held = open_as_user(&lab, "/there");
    lab.set_cable(1, false);
    assert_eq!(cluster.set_mode("/there", 0o600).unwrap().untold, ["beta"]);
    lab.set_cable(1, true);
    let user =
        until("the node is reached", || lab.try_connect(1).ok().map(|_| lab.raw_client(1, 1000)));
    until("the node has heard of it", || user.read(&held.grant, part(&held, 0)).err());
    revoked(user.read(&held.grant, part(&held, 0)));
}
