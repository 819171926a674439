//! The other nodes of the cluster, as this one reaches them.
//!
//! A link is opened when it is first needed, and again after it was lost. A node that does not
//! answer is given some time; after that whoever asks is told so, with its name.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pario_net::wire::Limits;
use pario_net::{Address, Bulk, Key, Options, RpcClient, Space, SpaceId};
use pario_proto::{
    Failure, Identity, PROTOCOL_VERSION, PeerKind, PeerRequest, PeerStatus, Reply, ReplyMessage,
    Request, RequestMessage, TOKEN_LIMIT_BYTES,
};
use parking_lot::Mutex;

use crate::config::Config;
use crate::protocol::NodeProtocol;

/// The port at which every node takes questions.
pub const REQUESTS: &str = "requests";

/// How long opening a link may take.
const CONNECT_WAIT: Duration = Duration::from_millis(1_500);
/// How long an answer may take.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// How long a node may take to acknowledge that rights have changed.
const REVOKE_WAIT: Duration = Duration::from_secs(3);
/// How long it may take where disks are read as a whole.
const LIST_WAIT: Duration = Duration::from_secs(3600);
/// A node that could not be reached is not tried again for so long.
const PAUSE: Duration = Duration::from_millis(300);

type Link = RpcClient<NodeProtocol>;
type Then = Box<dyn FnOnce(Result<ReplyMessage<Bulk>, Failure>) + Send>;

/// The other nodes.
pub struct Peers {
    own_name: String,
    identity: Identity,
    key: Option<Key>,
    peers: Vec<Peer>,
    waiting: Mutex<Vec<(Instant, Weak<Waiting>)>>,
    interface: usize,
    /// Since the last new link to the interface node.
    has_joined: AtomicBool,
}

struct Peer {
    name: String,
    address: Mutex<Option<Address>>,
    /// Never held while anything is waited for.
    state: Mutex<State>,
    /// Held by the one who opens a link.
    opening: Mutex<()>,
}

#[derive(Default)]
struct State {
    link: Option<(Space, Link)>,
    trouble: Option<(Instant, String)>,
}

/// Somebody who waits for an answer; told once.
struct Waiting {
    then: Mutex<Option<Then>>,
    node: String,
}

impl Peers {
    /// Nobody has been asked yet.
    pub fn new(config: &Config, me: usize, identity: Identity, key: Option<Key>) -> Self {
        let peer = |node: &crate::config::NodeConfig| Peer {
            name: node.name.clone(),
            address: Mutex::new(node.listen.map(Address::tcp)),
            state: Mutex::default(),
            opening: Mutex::default(),
        };
        Self {
            own_name: config.nodes[me].name.clone(),
            identity,
            key,
            peers: config.nodes.iter().map(peer).collect(),
            waiting: Mutex::default(),
            interface: config.interface,
            has_joined: AtomicBool::new(false),
        }
    }

    /// Asks a node; `then` is told once, at the latest when the node has taken too long.
    pub fn ask_then(
        &self,
        node: usize,
        request: Request,
        then: impl FnOnce(Result<ReplyMessage<Bulk>, Failure>) + Send + 'static,
    ) {
        let link = match self.link(node) {
            Ok(link) => link,
            Err(failure) => return then(Err(failure)),
        };
        let name = self.peers[node].name.clone();
        let waiting =
            Arc::new(Waiting { then: Mutex::new(Some(Box::new(then))), node: name.clone() });
        let wait = match &request {
            // Reads whole disks.
            Request::Peer(PeerRequest::ListSubfiles { .. } | PeerRequest::RepairSubfile { .. }) => {
                LIST_WAIT
            }
            Request::Peer(PeerRequest::Revoke(_)) => REVOKE_WAIT,
            _ => ANSWER_WAIT,
        };
        self.waiting.lock().push((Instant::now() + wait, Arc::downgrade(&waiting)));
        let question = RequestMessage { request, data: Vec::new() };
        link.call_then(question, move |answer| {
            waiting.tell(answer.map_err(|error| down(&name, &error.reason())));
        });
    }

    /// Whether a node answers, as far as is known.
    pub fn is_there(&self, node: usize) -> bool {
        self.peers[node].state.lock().trouble.is_none()
    }

    /// What is wrong with a node that does not answer.
    pub fn trouble(&self, node: usize) -> Option<Failure> {
        let state = self.peers[node].state.lock();
        state.trouble.as_ref().map(|(_, why)| down(&self.peers[node].name, why))
    }

    /// What was wrong the last time that a node was to be reached.
    pub fn trouble_text(&self, node: usize) -> Option<String> {
        let state = self.peers[node].state.lock();
        state.trouble.as_ref().map(|(_, why)| why.clone())
    }

    /// Whether there is a link to a node.
    pub fn is_linked(&self, node: usize) -> bool {
        let state = self.peers[node].state.lock();
        state.link.as_ref().is_some_and(|(_, link)| link.is_alive())
    }

    /// Whether this node has joined the cluster over the link that it has.
    pub fn has_joined(&self) -> bool {
        self.has_joined.load(Ordering::SeqCst)
    }

    /// This node has joined the cluster.
    pub fn set_joined(&self) {
        self.has_joined.store(true, Ordering::SeqCst);
    }

    /// Opens a link to a node if there is none; says what is wrong if there cannot be.
    pub fn try_reach(&self, node: usize) -> Result<(), Failure> {
        self.link(node).map(|_| ())
    }

    /// Where a node is. Trouble with another address does not count any more.
    pub fn set_address(&self, node: usize, address: Address) {
        let peer = &self.peers[node];
        let before = peer.address.lock().replace(address.clone());
        if before != Some(address) {
            peer.state.lock().trouble = None;
        }
    }

    /// Tells those who have waited too long.
    pub fn expire(&self, now: Instant) {
        let mut late = Vec::new();
        self.waiting.lock().retain(|(deadline, waiting)| match waiting.upgrade() {
            Some(waiting) if *deadline <= now => {
                late.push(waiting);
                false
            }
            Some(_) => true,
            None => false,
        });
        for waiting in late {
            let why = "it has taken too long to answer".to_owned();
            waiting.tell(Err(down(&waiting.node, &why)));
        }
    }

    /// How the other nodes are, as seen from here.
    pub fn status(&self, me: usize) -> Vec<PeerStatus> {
        let others = self.peers.iter().enumerate().filter(|(number, _)| *number != me);
        let status = |(_, peer): (usize, &Peer)| {
            let state = peer.state.lock();
            let trouble = state.trouble.as_ref().map(|(_, why)| why.clone());
            PeerStatus { name: peer.name.clone(), is_there: trouble.is_none(), trouble }
        };
        others.map(status).collect()
    }

    fn link(&self, node: usize) -> Result<Link, Failure> {
        let peer = &self.peers[node];
        if let Some(known) = peer.known() {
            return known;
        }
        let _one_at_a_time = peer.opening.lock();
        // Somebody else may have tried meanwhile; what came of it is true for all who waited.
        if let Some(known) = peer.known() {
            return known;
        }
        let connected = self.connect(peer);
        let mut state = peer.state.lock();
        match connected {
            Ok((space, link)) => {
                state.link = Some((space, link.clone()));
                state.trouble = None;
                if node == self.interface {
                    self.has_joined.store(false, Ordering::SeqCst);
                }
                Ok(link)
            }
            Err(why) => {
                let failure = down(&peer.name, &why);
                state.trouble = Some((Instant::now(), why));
                Err(failure)
            }
        }
    }

    fn connect(&self, peer: &Peer) -> Result<(Space, Link), String> {
        let Some(address) = peer.address.lock().clone() else {
            return Err("its address is not known; it has not joined the cluster yet".to_owned());
        };
        let deadline = Instant::now() + CONNECT_WAIT;
        // A node admits one space of a name: a link that was lost must not be in the way.
        let name = format!("node {} to {} {}", self.own_name, peer.name, SpaceId::random());
        let options = Options {
            answer_wait: CONNECT_WAIT,
            close_wait: Duration::from_millis(100),
            limits: Limits::for_tokens(TOKEN_LIMIT_BYTES),
            ..Options::default()
        };
        let mut builder = Space::builder(&name).options(options).join(&address).listen_nowhere();
        if let Some(key) = &self.key {
            builder = builder.key(key.clone());
        }
        let space = builder.build().map_err(|error| error.reason())?;
        let left = deadline.saturating_duration_since(Instant::now());
        let link = Link::open(&space, REQUESTS, left).map_err(|error| error.reason())?;
        let request = Request::Hello {
            version: PROTOCOL_VERSION,
            identity: self.identity.clone(),
            client: format!("node {}", self.own_name),
            peer: PeerKind::Node,
        };
        let asked = link.start(RequestMessage { request, data: Vec::new() });
        let asked = asked.map_err(|error| error.reason())?;
        match asked.wait_until(deadline) {
            Ok(Ok(ReplyMessage { result: Ok(Reply::Welcome { .. }), .. })) => Ok((space, link)),
            Ok(Ok(ReplyMessage { result: Err(failure), .. })) => Err(failure.to_string()),
            Ok(Ok(_)) => Err("it gives answers that do not belong to the question".to_owned()),
            Ok(Err(error)) => Err(error.reason()),
            Err(_) => Err("it does not answer".to_owned()),
        }
    }
}

impl Peer {
    /// The link, or why there is none; nothing if that is to be found out.
    fn known(&self) -> Option<Result<Link, Failure>> {
        let mut state = self.state.lock();
        if let Some((_, link)) = &state.link {
            if link.is_alive() {
                return Some(Ok(link.clone()));
            }
            state.link = None;
        }
        match &state.trouble {
            Some((since, why)) if since.elapsed() < PAUSE => Some(Err(down(&self.name, why))),
            _ => None,
        }
    }
}

impl Waiting {
    fn tell(&self, answer: Result<ReplyMessage<Bulk>, Failure>) {
        let then = self.then.lock().take();
        if let Some(then) = then {
            then(answer);
        }
    }
}

/// A node does not do what it should.
pub fn down(node: &str, why: &str) -> Failure {
    Failure::NodeDown { node: node.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use pario_net::{PortOptions, RpcServer};
    use pario_proto::ClusterMap;

    use super::*;

    /// Nodes `a`, which is this one, and `b`.
    fn peers() -> Peers {
        let mut config = Config::alone("/nowhere".as_ref());
        config.nodes.push(config.nodes[0].clone());
        config.nodes[0].name = "a".to_owned();
        config.nodes[1].name = "b".to_owned();
        config.interface = 1;
        Peers::new(&config, 0, Identity { uid: 0, gids: vec![0] }, None)
    }

    /// A node that welcomes everybody, and answers nothing else.
    struct Silent {
        space: Space,
        asked: Arc<AtomicUsize>,
    }

    impl Silent {
        fn start() -> Self {
            let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let space = Space::builder("node b").host().listen_tcp(any_port).build().unwrap();
            let port: RpcServer<NodeProtocol> =
                RpcServer::new(&space, REQUESTS, PortOptions::default()).unwrap();
            let asked = Arc::new(AtomicUsize::new(0));
            let count = asked.clone();
            std::thread::spawn(move || {
                let mut unanswered = Vec::new();
                while let Ok(asked) = port.recv() {
                    if let Request::Hello { identity, .. } = asked.request.request {
                        let map =
                            ClusterMap { name: String::new(), nodes: Vec::new(), interface: 0 };
                        let (node, descriptors) = ("b".to_owned(), None);
                        let welcome = Reply::Welcome { node, identity, map, descriptors };
                        asked
                            .responder
                            .send(ReplyMessage { result: Ok(welcome), data: Vec::new() });
                    } else {
                        unanswered.push(asked.responder);
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
            Self { space, asked }
        }
    }

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(Instant::now() < deadline, "it takes too long until {what}");
            std::thread::yield_now();
        }
    }

    fn told(answer: Result<ReplyMessage<Bulk>, Failure>) -> String {
        match answer {
            Err(failure @ Failure::NodeDown { .. }) => failure.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_node_whose_address_nobody_knows_is_told_by_name() {
        let peers = peers();
        assert!(peers.is_there(1), "nothing is known against it yet");
        let (send, receive) = mpsc::channel();
        peers.ask_then(1, Request::Map, move |answer| send.send(answer).unwrap());
        let why = told(receive.recv().unwrap());
        assert!(why.contains('b') && why.contains("has not joined"), "{why}");
        assert!(!peers.is_there(1) && !peers.is_linked(1));
        assert!(peers.trouble(1).is_some() && peers.trouble(0).is_none());
        let status = peers.status(0);
        assert_eq!((status.len(), status[0].name.as_str(), status[0].is_there), (1, "b", false));
        // Where it is now, nobody has looked for it.
        let address = Address::tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 9)));
        peers.set_address(1, address.clone());
        assert!(peers.is_there(1));
        assert!(peers.try_reach(1).is_err());
        peers.set_address(1, address);
        assert!(!peers.is_there(1), "that is no news");
    }

    #[test]
    fn a_node_that_is_not_there_is_not_tried_all_the_time() {
        let peers = peers();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        peers.set_address(1, Address::tcp(listener.local_addr().unwrap()));
        drop(listener);
        let first = peers.try_reach(1).unwrap_err();
        let since = peers.peers[1].state.lock().trouble.clone().unwrap().0;
        let second = peers.try_reach(1).unwrap_err();
        assert_eq!(first, second);
        let again = peers.peers[1].state.lock().trouble.clone().unwrap().0;
        assert!(again == since || since.elapsed() >= PAUSE, "it was tried again at once");
        // Later it is tried again.
        peers.peers[1].state.lock().trouble.as_mut().unwrap().0 -= PAUSE;
        assert!(peers.try_reach(1).is_err());
        assert!(peers.peers[1].state.lock().trouble.as_ref().unwrap().0 >= since);
    }

    #[test]
    fn who_gets_no_answer_is_told_once_and_in_time() {
        let (peers, silent) = (peers(), Silent::start());
        peers.set_address(1, silent.space.address());
        peers.try_reach(1).unwrap();
        assert!(peers.is_linked(1) && peers.is_there(1));
        let (send, receive) = mpsc::channel();
        let began = Instant::now();
        let list = PeerRequest::ListSubfiles {
            after: None,
            limit: 1,
            depth: pario_proto::CheckDepth::Names,
        };
        for request in [Request::Map, Request::Peer(list)] {
            let send = send.clone();
            peers.ask_then(1, request, move |answer| send.send(answer).unwrap());
        }
        drop(send);
        until("both are asked", || silent.asked.load(Ordering::SeqCst) == 2);
        peers.expire(began);
        assert!(receive.try_recv().is_err(), "it may still answer");
        peers.expire(Instant::now() + ANSWER_WAIT);
        let why = told(receive.recv().unwrap());
        assert!(why.contains('b') && why.contains("too long"), "{why}");
        assert!(receive.try_recv().is_err(), "who has disks read waits longer");
        // The end of the node is known to who still waits, and only there.
        silent.space.close();
        told(receive.recv().unwrap());
        assert!(receive.recv().is_err(), "everybody was told once");
    }

    #[test]
    fn with_a_new_link_a_node_has_to_join_again() {
        let (peers, silent) = (peers(), Silent::start());
        peers.set_address(1, silent.space.address());
        peers.try_reach(1).unwrap();
        assert!(!peers.has_joined());
        peers.set_joined();
        peers.try_reach(1).unwrap();
        assert!(peers.has_joined(), "the link is still the same");
        silent.space.close();
        until("the link is lost", || !peers.is_linked(1));
        let silent = Silent::start();
        peers.set_address(1, silent.space.address());
        peers.try_reach(1).unwrap();
        assert!(peers.is_linked(1) && !peers.has_joined());
    }
}
