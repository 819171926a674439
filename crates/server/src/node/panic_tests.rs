//! Requests that panic, in each thread that handles requests: only the request itself fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pario_net::{Address, Bulk, RpcClient, Space, SpaceId};
use pario_proto::{
    Access, DiskChoice, Failure, FilePath, Identity, LayoutChoice, NamespaceRequest, Opened,
    PROTOCOL_VERSION, PeerKind, Reply, Request, RequestMessage, SubfileIndex, SubfileLocation,
    SubfileRange,
};

use super::Node;
use crate::config::Config;
use crate::protocol::NodeProtocol;
use crate::sessions::Session;

/// The name of a client whose requests panic in the dispatcher.
const IN_DISPATCHER: &str = "panics in the dispatcher";
/// The name of a client whose writes panic during long work.
const IN_WORK: &str = "panics in work";

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Panics in the dispatcher, for the client that requests it.
pub(super) fn panic_if_requested(session: &Session, request: &Request) {
    if session.name == IN_DISPATCHER && !matches!(request, Request::Namespace(_)) {
        PANICS.fetch_add(1, Ordering::SeqCst);
        panic!("a test wants this request to panic");
    }
}

/// Panics during long work of the leader, for the client that requests it.
pub(super) fn panic_in_work_if_requested(session: &Session) {
    if session.name == IN_WORK {
        PANICS.fetch_add(1, Ordering::SeqCst);
        panic!("a test wants this write to panic");
    }
}

pub(super) struct Client {
    requests: RpcClient<NodeProtocol>,
    _space: Space,
}

impl Client {
    pub(super) fn new(config: &Config, name: &str) -> Self {
        let address = Address::unix(&config.nodes[0].socket);
        let own = format!("client {}", SpaceId::random());
        let space = Space::builder(&own).join(&address).build().unwrap();
        let requests = RpcClient::open(&space, "requests", Duration::from_secs(10)).unwrap();
        let client = Self { requests, _space: space };
        let identity = Identity { uid: 0, gids: vec![0] };
        let (version, name) = (PROTOCOL_VERSION, name.to_owned());
        let hello = Request::Hello { version, identity, client: name, peer: PeerKind::Client };
        assert!(matches!(client.ask(hello, vec![]), Ok(Reply::Welcome { .. })));
        client
    }

    pub(super) fn ask(&self, request: Request, data: Vec<Bulk>) -> Result<Reply, Failure> {
        let pending = self.requests.start(RequestMessage { request, data }).unwrap();
        let answer = pending.wait_until(Instant::now() + Duration::from_secs(30));
        answer.unwrap_or_else(|_| panic!("there is no answer")).unwrap().result
    }

    pub(super) fn create(&self, path: &str) -> Opened {
        let request = NamespaceRequest::Create {
            path: FilePath::new(path).unwrap(),
            access: Access::READ_WRITE,
            is_new: true,
            mode: 0o600,
            layout: LayoutChoice::Striped { unit_bytes: None, disks: DiskChoice::Count(1) },
        };
        match self.ask(Request::Namespace(request), vec![]) {
            Ok(Reply::Opened(opened)) => opened,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn write(&self, opened: &Opened) -> Result<Reply, Failure> {
        let disk = opened.record.layout.as_ref().unwrap().disks().as_slice()[0];
        let part = SubfileLocation { disk, subfile: SubfileIndex(0) };
        let ranges = vec![SubfileRange { offset: 0, len: 4 }];
        let grant = opened.grant.clone();
        self.ask(Request::Write { grant, part, ranges }, vec![Bulk::from(b"data".to_vec())])
    }
}

#[track_caller]
fn panicked(answered: Result<Reply, Failure>, kind: &str) {
    match answered {
        Err(Failure::Internal { node, why }) => {
            assert_eq!(node, "local");
            assert!(why.contains("panicked") && why.contains(kind), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_panic_ends_its_request_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::alone(&dir.path().join("data"));
    config.nodes[0].socket = dir.path().join("s");
    let node = Node::start_beside(&config, "local").unwrap();
    let honest = Client::new(&config, "honest");
    let file = honest.create("/honest");
    let rounds = 100;
    std::thread::scope(|scope| {
        for number in 0..3 {
            let config = &config;
            scope.spawn(move || {
                let (dispatcher, work) =
                    (Client::new(config, IN_DISPATCHER), Client::new(config, IN_WORK));
                let file = work.create(&format!("/{number}"));
                for _ in 0..rounds {
                    panicked(dispatcher.ask(Request::Map, vec![]), "map");
                    panicked(dispatcher.ask(Request::Jobs, vec![]), "jobs");
                    panicked(work.write(&file), "write");
                }
            });
        }
        for _ in 0..rounds {
            assert!(matches!(honest.ask(Request::Map, vec![]), Ok(Reply::Map(_))));
            assert_eq!(honest.write(&file), Ok(Reply::Done));
        }
    });
    assert_eq!(PANICS.load(Ordering::SeqCst), 3 * 3 * rounds);
    // Nothing is left behind: no request is under way, and no disk has a queue.
    let shared = &node.shared;
    // A node counts a request as ended only after it has sent the reply.
    let deadline = Instant::now() + Duration::from_secs(30);
    while shared.shutdown.under_way().0 > 0 {
        assert!(Instant::now() < deadline, "a request is still under way");
        std::thread::yield_now();
    }
    assert!(shared.disks.status(&[]).iter().all(|disk| disk.queue == 0));
    assert!(matches!(honest.ask(Request::Map, vec![]), Ok(Reply::Map(_))), "the node serves");
}
