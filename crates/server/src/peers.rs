//! The other nodes of the cluster, as this node reaches them.
//!
//! [`ReconnectingClient`] opens a connection to a node when it is first needed, and again after it
//! was lost. This file adds what a node says first, how long the reply to each kind of request may
//! take, and whether this node has joined the cluster over its connection to the interface node.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pario_net::wire::WireLimits;
use pario_net::{
    Address, Bulk, ConnectionFailure, ConnectionOptions, Key, OpenTimeLimits, Options,
    ReconnectingClient, SessionSetup,
};
use pario_proto::{
    Failure, Identity, PROTOCOL_VERSION, PeerKind, PeerRequest, PeerStatus, REQUEST_PORT, Reply,
    ReplyMessage, Request, RequestMessage, TOKEN_LIMIT_BYTES,
};

use crate::config::{Config, NodeConfig};
use crate::protocol::NodeProtocol;

/// The time limit for opening a connection.
const OPEN_LIMIT: Duration = Duration::from_millis(1_500);
/// The time limit for a reply.
const REPLY_LIMIT: Duration = Duration::from_secs(10);
/// The time limit for a node to acknowledge that rights have changed.
const REVOKE_LIMIT: Duration = Duration::from_secs(3);
/// The time limit for a reply that needs whole disks to be read.
const LIST_LIMIT: Duration = Duration::from_secs(3600);
/// The pause before another attempt to reach a node that could not be reached.
const PAUSE: Duration = Duration::from_millis(300);

/// The other nodes.
pub struct Peers {
    peers: Vec<Peer>,
    interface: usize,
    /// The number of the connection to the interface node over which this node has joined; 0 if it
    /// has not joined yet.
    joined_over: AtomicU64,
}

struct Peer {
    name: String,
    client: ReconnectingClient<NodeProtocol, PeerSetup>,
}

impl Peers {
    /// Creates the clients of all nodes; opens no connection.
    pub fn new(config: &Config, me: usize, identity: Identity, key: Option<Key>) -> Self {
        Self::with_pause(config, me, &identity, key.as_ref(), PAUSE)
    }

    fn with_pause(
        config: &Config,
        me: usize,
        identity: &Identity,
        key: Option<&Key>,
        pause: Duration,
    ) -> Self {
        let own_name = &config.nodes[me].name;
        let peer = |node: &NodeConfig| {
            let options = ConnectionOptions {
                name: format!("node {own_name} to {}", node.name),
                port: REQUEST_PORT,
                key: key.cloned(),
                connects_to_any_user: false,
                near: OpenTimeLimits::within(OPEN_LIMIT),
                far: OpenTimeLimits::within(OPEN_LIMIT),
                pause,
                space: Options {
                    close_wait: Duration::from_millis(100),
                    limits: WireLimits::for_tokens(TOKEN_LIMIT_BYTES),
                    ..Options::default()
                },
            };
            let setup = PeerSetup { own_name: own_name.clone(), identity: identity.clone() };
            let client = ReconnectingClient::new(options, setup, node.listen.map(Address::tcp));
            Peer { name: node.name.clone(), client }
        };
        Self {
            peers: config.nodes.iter().map(peer).collect(),
            interface: config.interface,
            joined_over: AtomicU64::new(0),
        }
    }

    /// Sends a request to a node and calls `then` once: with the reply, or with a failure, at the
    /// latest when the time limit of the request has passed.
    pub fn ask_then(
        &self,
        node: usize,
        request: Request,
        then: impl FnOnce(Result<ReplyMessage<Bulk>, Failure>) + Send + 'static,
    ) {
        let Peer { name, client } = &self.peers[node];
        let time_limit = match &request {
            Request::Peer(PeerRequest::ListSubfiles { .. } | PeerRequest::RepairSubfile { .. }) => {
                LIST_LIMIT
            }
            Request::Peer(PeerRequest::Revoke(_)) => REVOKE_LIMIT,
            _ => REPLY_LIMIT,
        };
        let message = || RequestMessage { request: request.clone(), data: Vec::new() };
        let name = name.clone();
        client.call_then(time_limit, message, move |reply| {
            then(reply.map_err(|why| down(&name, &why)));
        });
    }

    /// Whether a node can be reached, as far as is known.
    pub fn is_there(&self, node: usize) -> bool {
        self.trouble_text(node).is_none()
    }

    /// The failure for a node that could not be reached the last time.
    pub fn trouble(&self, node: usize) -> Option<Failure> {
        self.trouble_text(node).map(|why| down(&self.peers[node].name, &why))
    }

    /// Why a node could not be reached the last time.
    pub fn trouble_text(&self, node: usize) -> Option<String> {
        self.peers[node].client.last_failure()
    }

    /// Whether a connection to a node is open.
    pub fn is_linked(&self, node: usize) -> bool {
        self.peers[node].client.current().is_some()
    }

    /// Whether this node has joined the cluster over its last connection to the interface node.
    pub fn has_joined(&self) -> bool {
        let epoch = self.peers[self.interface].client.epoch();
        epoch != 0 && epoch == self.joined_over.load(Ordering::SeqCst)
    }

    /// Notes that this node has joined the cluster over this connection to the interface node.
    pub fn set_joined(&self, connection: u64) {
        self.joined_over.store(connection, Ordering::SeqCst);
    }

    /// Opens a connection to a node if none is open; returns its number.
    pub fn try_reach(&self, node: usize) -> Result<u64, Failure> {
        let Peer { name, client } = &self.peers[node];
        let connection = client.connection(Instant::now() + OPEN_LIMIT);
        connection.map(|connection| connection.epoch).map_err(|why| down(name, &why))
    }

    /// Sets the address of a node. A failure at another address counts no more.
    pub fn set_address(&self, node: usize, address: Address) {
        self.peers[node].client.set_address(address);
    }

    /// Ends the requests whose time limit has passed.
    pub fn expire(&self, now: Instant) {
        self.peers.iter().for_each(|peer| peer.client.expire(now));
    }

    /// How the other nodes are, as seen from here.
    pub fn status(&self, me: usize) -> Vec<PeerStatus> {
        let others = self.peers.iter().enumerate().filter(|(number, _)| *number != me);
        let status = |(_, peer): (usize, &Peer)| {
            let trouble = peer.client.last_failure();
            PeerStatus { name: peer.name.clone(), is_there: trouble.is_none(), trouble }
        };
        others.map(status).collect()
    }
}

/// Says hello to another node. Its errors are reasons, without the name of that node.
struct PeerSetup {
    own_name: String,
    identity: Identity,
}

impl SessionSetup<NodeProtocol> for PeerSetup {
    type Session = ();
    type Error = String;

    fn first_request(&self) -> RequestMessage<Bulk> {
        let request = Request::Hello {
            version: PROTOCOL_VERSION,
            identity: self.identity.clone(),
            client: format!("node {}", self.own_name),
            peer: PeerKind::Node,
        };
        RequestMessage { request, data: Vec::new() }
    }

    fn accept(&self, reply: ReplyMessage<Bulk>) -> Result<(), String> {
        match reply.result {
            Ok(Reply::Welcome { .. }) => Ok(()),
            Ok(_) => Err("its reply does not belong to the request".to_owned()),
            Err(failure) => Err(failure.to_string()),
        }
    }

    fn explain(&self, failure: ConnectionFailure) -> String {
        match failure {
            ConnectionFailure::NoAddress => {
                "its address is not known; it has not joined the cluster yet".to_owned()
            }
            failure => failure.reason(),
        }
    }
}

/// The failure of a node that does not reply.
pub fn down(node: &str, why: &str) -> Failure {
    Failure::NodeDown { node: node.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use pario_net::{PortOptions, RpcServer, Space};
    use pario_proto::ClusterMap;

    use super::*;

    const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    /// Nodes `a`, which is this one, and `b`.
    fn peers(pause: Duration) -> Peers {
        let mut config = Config::alone("/nowhere".as_ref());
        config.nodes.push(config.nodes[0].clone());
        config.nodes[0].name = "a".to_owned();
        config.nodes[1].name = "b".to_owned();
        config.interface = 1;
        Peers::with_pause(&config, 0, &Identity { uid: 0, gids: vec![0] }, None, pause)
    }

    /// A node that welcomes all clients, and replies to nothing else.
    struct Silent {
        space: Space,
        received: Arc<AtomicUsize>,
    }

    impl Silent {
        fn start(listen: SocketAddr) -> Self {
            let space = Space::builder("node b").host().listen_tcp(listen).build().unwrap();
            let port: RpcServer<NodeProtocol> =
                RpcServer::new(&space, REQUEST_PORT, PortOptions::default()).unwrap();
            let received = Arc::new(AtomicUsize::new(0));
            let count = received.clone();
            std::thread::spawn(move || {
                let mut unanswered = Vec::new();
                while let Ok(incoming) = port.recv() {
                    if let Request::Hello { identity, .. } = incoming.request.request {
                        let map =
                            ClusterMap { name: String::new(), nodes: Vec::new(), interface: 0 };
                        let (node, descriptors) = ("b".to_owned(), None);
                        let welcome = Reply::Welcome { node, identity, map, descriptors };
                        let reply = ReplyMessage { result: Ok(welcome), data: Vec::new() };
                        incoming.responder.send(reply);
                    } else {
                        unanswered.push(incoming.responder);
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
            Self { space, received }
        }
    }

    fn until(event: &str, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(Instant::now() < deadline, "it takes too long until {event}");
            std::thread::yield_now();
        }
    }

    fn failure(reply: Result<ReplyMessage<Bulk>, Failure>) -> String {
        match reply {
            Err(failure @ Failure::NodeDown { .. }) => failure.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_node_without_a_known_address_is_reported_by_name() {
        let peers = peers(PAUSE);
        assert!(peers.is_there(1), "nothing is known against it yet");
        let (send, receive) = mpsc::channel();
        peers.ask_then(1, Request::Map, move |reply| send.send(reply).unwrap());
        let why = failure(receive.recv().unwrap());
        assert!(why.contains('b') && why.contains("has not joined"), "{why}");
        assert!(!peers.is_there(1) && !peers.is_linked(1));
        assert!(peers.trouble(1).is_some() && peers.trouble(0).is_none());
        let status = peers.status(0);
        assert_eq!((status.len(), status[0].name.as_str(), status[0].is_there), (1, "b", false));
        // At its new address it has not been tried yet.
        let address = Address::tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 9)));
        peers.set_address(1, address.clone());
        assert!(peers.is_there(1));
        assert!(peers.try_reach(1).is_err());
        peers.set_address(1, address);
        assert!(!peers.is_there(1), "the address is the same");
    }

    #[test]
    fn a_node_that_is_not_there_is_tried_again_after_a_pause() {
        for pause in [Duration::from_secs(3600), Duration::ZERO] {
            let peers = peers(pause);
            let listener = TcpListener::bind(ANY_PORT).unwrap();
            let address = listener.local_addr().unwrap();
            peers.set_address(1, Address::tcp(address));
            drop(listener);
            let first = peers.try_reach(1).unwrap_err();
            // It would answer now.
            let _node = Silent::start(address);
            match pause {
                Duration::ZERO => assert_eq!(peers.try_reach(1).unwrap(), 1),
                _ => assert_eq!(peers.try_reach(1).unwrap_err(), first),
            }
        }
    }

    #[test]
    fn a_request_without_a_reply_fails_once_and_in_time() {
        let (peers, silent) = (peers(PAUSE), Silent::start(ANY_PORT));
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
            peers.ask_then(1, request, move |reply| send.send(reply).unwrap());
        }
        drop(send);
        until("it has received both", || silent.received.load(Ordering::SeqCst) == 2);
        peers.expire(began);
        assert!(receive.try_recv().is_err(), "it may still reply");
        peers.expire(Instant::now() + REPLY_LIMIT);
        let why = failure(receive.recv().unwrap());
        assert!(why.contains('b') && why.contains("too long"), "{why}");
        assert!(receive.try_recv().is_err(), "a request that reads disks waits longer");
        // The end of the node fails only the request that still waits.
        silent.space.close();
        failure(receive.recv().unwrap());
        assert!(receive.recv().is_err(), "each callback ran once");
    }

    #[test]
    fn with_a_new_connection_a_node_has_to_join_again() {
        let (peers, silent) = (peers(PAUSE), Silent::start(ANY_PORT));
        peers.set_address(1, silent.space.address());
        let first = peers.try_reach(1).unwrap();
        assert!(!peers.has_joined());
        peers.set_joined(first);
        assert_eq!(peers.try_reach(1).unwrap(), first);
        assert!(peers.has_joined(), "the connection is still the same");
        silent.space.close();
        until("the connection is lost", || !peers.is_linked(1));
        let silent = Silent::start(ANY_PORT);
        peers.set_address(1, silent.space.address());
        peers.try_reach(1).unwrap();
        assert!(peers.is_linked(1) && !peers.has_joined());
        // A join over the connection before does not count.
        peers.set_joined(first);
        assert!(!peers.has_joined());
    }
}
