//! A node takes times and ids from the clock of its builder.

use pario_proto::{
    Access, CollectiveOpen, FilePath, JobCall, Member, Mode, NamespaceRequest, Reply, Request,
};

use super::panic_tests::Client;
use super::{MissingNamespace, Node};
use crate::config::Config;
use crate::namespace::WallClock;

const NOW_NS: u64 = 7_000_000_001;

#[test]
fn files_and_jobs_use_the_clock_of_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::alone(&dir.path().join("data"));
    config.nodes[0].socket = dir.path().join("s");
    let clock = WallClock::new(|| NOW_NS);
    let _node = Node::new().clock(clock).start_beside(&config, "local").unwrap();
    let client = Client::new(&config, "client");
    let record = client.create("/file").record;
    assert_eq!((record.created_ns, record.changed_ns), (NOW_NS, NOW_NS));
    let path = FilePath::new("/file").unwrap();
    let stat = Request::Namespace(NamespaceRequest::Stat { path: path.clone() });
    let Ok(Reply::Stat { record, .. }) = client.ask(stat, vec![]) else { panic!("it exists") };
    assert_eq!((record.created_ns, record.changed_ns), (NOW_NS, NOW_NS));

    let job = |number, call| {
        let member = Member { job: "job".to_owned(), size: 1, rank: 0 };
        client.ask(Request::Job { member, number, call }, vec![])
    };
    let barrier = job(0, JobCall::Barrier { is_near: true });
    let Ok(Reply::BarrierDone { memory: Some(memory) }) = barrier else { panic!("{barrier:?}") };
    assert_eq!(memory.0 >> 32, u128::from(NOW_NS));
    let (access, mode) = (Access::READ, Mode::Unix);
    let open = CollectiveOpen { path, access, creation: None, mode, is_near: true };
    let opened = job(1, JobCall::Open(open));
    let Ok(Reply::OpenedForAll { shared_file, .. }) = opened else { panic!("{opened:?}") };
    assert_eq!(shared_file.0 >> 32, u128::from(NOW_NS));
}

#[test]
fn the_audit_log_uses_the_clock_of_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::alone(&dir.path().join("data"));
    config.nodes[0].socket = dir.path().join("s");
    let clock = WallClock::new(|| NOW_NS);
    let node = Node::new().clock(clock).start_beside(&config, "local").unwrap();
    let client = Client::new(&config, "client");
    client.create("/file");
    let (path, uid, gid) = (FilePath::new("/file").unwrap(), None, None);
    let request = NamespaceRequest::SetRights { path, mode: Some(0o640), uid, gid };
    let set = client.ask(Request::Namespace(request), vec![]);
    assert!(matches!(set, Ok(Reply::RightsSet { .. })), "{set:?}");
    node.stop();
    let log = std::fs::read_to_string(dir.path().join("data/audit.log")).unwrap();
    let line: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(line["time"], "1970-01-01T00:00:07.000000001Z");
}

/// The clock of this machine stands still, so the epochs of ids are consecutive. A rebuild must not
/// give a directory the id of a file that it restores later.
#[test]
fn a_rebuild_gives_no_directory_the_id_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::alone(&dir.path().join("data"));
    config.nodes[0].socket = dir.path().join("s");
    let start = |choice| {
        let builder = Node::new().clock(WallClock::new(|| 0)).missing_namespace(choice);
        (builder.start_beside(&config, "local").unwrap(), Client::new(&config, "client"))
    };
    let path = |text: &str| FilePath::new(text).unwrap();
    let (node, client) = start(MissingNamespace::Refuse);
    let directory = NamespaceRequest::MakeDirectory { path: path("/d"), mode: 0o755 };
    assert_eq!(client.ask(Request::Namespace(directory), vec![]), Ok(Reply::Done));
    assert_eq!(client.write(&client.create("/d/first")), Ok(Reply::Done));
    node.stop();
    // A rebuild restores a hidden copy last, though its id is the highest.
    let (node, client) = start(MissingNamespace::Refuse);
    assert_eq!(client.write(&client.create("/.second.1.pario-part")), Ok(Reply::Done));
    node.stop();
    std::fs::remove_file(dir.path().join("data/namespace.redb")).unwrap();
    let (_node, client) = start(MissingNamespace::Rebuild);
    for text in ["/d/first", "/second"] {
        let stat = Request::Namespace(NamespaceRequest::Stat { path: path(text) });
        let stat = client.ask(stat, vec![]);
        assert!(matches!(stat, Ok(Reply::Stat { .. })), "{text}: {stat:?}");
    }
}
