//! A connection to one node: what a client says first, and the welcome that the node replies with.
//! [`ReconnectingClient`] opens the connection when it is first needed, and again after it was lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_net::wire::WireLimits;
use pario_net::{
    Address, BorrowedParts, Bulk, ConnectionFailure, ConnectionOptions, DescriptorClient,
    OpenConnection, OpenTimeLimits, Options, PendingReply, ReconnectingClient, RecvBuffer,
    RpcClient, RpcError, SentRequest, SessionSetup,
};
use pario_proto::{
    ClusterMap, Failure, Identity, PROTOCOL_VERSION, PeerKind, REQUEST_PORT, Reply, ReplyMessage,
    Request, RequestMessage, TOKEN_LIMIT_BYTES,
};
use parking_lot::Mutex;

use crate::error::Error;
use crate::key::FoundKey;
use crate::protocol::NodeProtocol;
use crate::unanswered;

/// The time limit for a node to show that it is there, over a network.
const FAR_PRESENCE_LIMIT: Duration = Duration::from_millis(1_800);
/// The time limit for opening a connection to a node that is there: it may be busy.
const FAR_OPEN_LIMIT: Duration = Duration::from_secs(5);
/// The time limit on the same machine, where a missing node is noticed at once.
const NEAR_OPEN_LIMIT: Duration = Duration::from_secs(10);

/// How this process presents itself to nodes.
#[derive(Clone)]
pub struct Client {
    pub name: String,
    pub identity: Identity,
    /// The key of the cluster.
    pub key: Option<FoundKey>,
    /// The time limit for a reply.
    pub timeout: Duration,
    /// The time limit for opening a connection, if the caller has set one.
    pub connect_wait: Option<Duration>,
    /// Whether nodes of every user are trusted: those that the caller has named are. A node that
    /// was found must run as the caller or as root.
    pub trusts_any_user: bool,
}

/// A connection to one node.
pub struct Connection {
    client: Arc<Client>,
    node: ReconnectingClient<NodeProtocol, NodeSetup>,
}

/// What a node says when a connection to it is opened.
#[derive(Debug)]
pub struct Welcome {
    pub node: String,
    pub map: ClusterMap,
    pub identity: Identity,
    /// The socket that passes descriptors of flat subfiles.
    pub descriptors: Option<String>,
}

/// A request that is under way.
pub struct Waiting {
    pub pending: PendingReply<NodeProtocol>,
    /// The memory that the request is sent from, if it is the caller's.
    borrowed: Option<BorrowedParts<NodeProtocol>>,
    node: String,
    deadline: Instant,
    timeout: Duration,
}

impl Connection {
    /// A connection that is opened when it is needed.
    pub fn new(client: Arc<Client>, node: &str, address: Address) -> Self {
        let limits = |total, presence| match client.connect_wait {
            Some(limit) => OpenTimeLimits { total: limit, presence: limit, handshake: limit },
            None => OpenTimeLimits { presence, ..OpenTimeLimits::within(total) },
        };
        let options = ConnectionOptions {
            name: client.name.clone(),
            port: REQUEST_PORT,
            key: client.key.as_ref().map(|found| found.key.clone()),
            connects_to_any_user: client.trusts_any_user,
            near: limits(NEAR_OPEN_LIMIT, NEAR_OPEN_LIMIT),
            far: limits(FAR_OPEN_LIMIT, FAR_PRESENCE_LIMIT),
            pause: Duration::ZERO,
            space: Options {
                close_wait: Duration::from_millis(200),
                // A node that returns no credit is like one that does not reply.
                send_wait: Some(client.timeout),
                limits: WireLimits::for_tokens(TOKEN_LIMIT_BYTES),
                ..Options::default()
            },
        };
        let setup = NodeSetup { client: client.clone(), node: Mutex::new(node.to_owned()) };
        Self { client, node: ReconnectingClient::new(options, setup, Some(address)) }
    }

    /// Sets the address of the node for the next connection.
    pub fn set_address(&self, address: Address) {
        self.node.set_address(address);
    }

    /// Opens the connection if it is not open.
    pub fn welcome(&self) -> Result<Arc<Welcome>, Error> {
        Ok(self.open()?.session.clone())
    }

    /// Sends a request and waits for the reply.
    pub fn call(&self, request: Request) -> Result<Reply, Error> {
        self.start(request, Vec::new())?.wait().map(|(reply, _)| reply)
    }

    /// Sends a request and waits for the reply, within this time limit.
    pub fn call_within(&self, request: Request, within: Duration) -> Result<Reply, Error> {
        let deadline = Instant::now() + within;
        let started = self.node.start(deadline, None, || message(&request, &[]))?;
        let waiting = Waiting { deadline, timeout: within, ..self.waiting(started) };
        waiting.wait().map(|(reply, _)| reply)
    }

    /// Sends a request that may take very long. The node must reply to other requests in time
    /// while it works.
    pub fn call_long(&self, request: Request) -> Result<Reply, Error> {
        let Waiting { mut pending, node, timeout, .. } = self.start(request, Vec::new())?;
        loop {
            match pending.wait_until(Instant::now() + timeout) {
                Ok(reply) => return answered(&node, reply).map(|(reply, _)| reply),
                Err(still_pending) => pending = still_pending,
            }
            self.call(Request::Map)?;
        }
    }

    /// Sends a request with data. Its reply can be waited for.
    pub fn start(&self, request: Request, data: Vec<Bulk>) -> Result<Waiting, Error> {
        let started = self.node.start(self.deadline(), None, || message(&request, &data))?;
        Ok(self.waiting(started))
    }

    /// Sends a request with bytes from where they are, unless the node is in this process.
    ///
    /// # Safety
    /// The bytes must stay as they are until the request was waited for or dropped.
    pub unsafe fn start_lent(&self, request: Request, bytes: &[&[u8]]) -> Result<Waiting, Error> {
        let message = |data| RequestMessage { request: request.clone(), data };
        // SAFETY: `Waiting` keeps what borrows the bytes until it is waited for or dropped; until
        // then the caller keeps them.
        let started = unsafe { self.node.start_borrowed(self.deadline(), bytes, message) }?;
        Ok(self.waiting(started))
    }

    /// Sends a request. The data of its reply is received into the buffer where that is possible.
    pub fn start_into(
        &self,
        request: Request,
        buffer: Option<&Arc<RecvBuffer>>,
    ) -> Result<Waiting, Error> {
        let started = self.node.start(self.deadline(), buffer, || message(&request, &[]))?;
        Ok(self.waiting(started))
    }

    /// Sends a request and waits for no reply. Does nothing if the connection is not open.
    pub fn tell(&self, request: Request) {
        self.node.notify(message(&request, &[]));
    }

    /// Returns a watch on the connection that is open now; opens one if none is.
    pub fn watch(&self) -> Result<Watch, Error> {
        Ok(Watch(self.open()?.link.clone()))
    }

    /// Whether the connection is open now.
    pub fn is_open(&self) -> bool {
        self.node.current().is_some()
    }

    /// A client for descriptors, if the node passes any to this process. The process at the socket
    /// must run as the node's user: another process could have put its socket there.
    pub fn descriptors(&self) -> Option<DescriptorClient> {
        let connection = self.open().ok()?;
        let path = connection.session.descriptors.clone()?;
        let client = DescriptorClient::connect(path.as_ref()).ok()?;
        client.set_timeout(self.client.timeout).ok()?;
        let node = connection.link.peer_user()?;
        (client.server_user().uid == node.uid).then_some(client)
    }

    fn open(&self) -> Result<Arc<OpenConnection<NodeProtocol, NodeSetup>>, Error> {
        // The time limits for opening end sooner than this, unless the caller has set a longer one.
        let longest = self.client.connect_wait.unwrap_or(NEAR_OPEN_LIMIT);
        self.node.connection(Instant::now() + longest)
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.client.timeout
    }

    fn waiting(&self, started: SentRequest<NodeProtocol, NodeSetup>) -> Waiting {
        let SentRequest { pending, borrowed, connection } = started;
        let node = connection.session.node.clone();
        let timeout = self.client.timeout;
        Waiting { pending, borrowed, node, deadline: self.deadline(), timeout }
    }
}

/// Says hello to a node, and keeps its welcome.
struct NodeSetup {
    client: Arc<Client>,
    /// The name of the node as far as it is known, for errors.
    node: Mutex<String>,
}

impl SessionSetup<NodeProtocol> for NodeSetup {
    type Session = Arc<Welcome>;
    type Error = Error;

    fn first_request(&self) -> RequestMessage<Bulk> {
        let request = Request::Hello {
            version: PROTOCOL_VERSION,
            identity: self.client.identity.clone(),
            client: self.client.name.clone(),
            peer: PeerKind::Client,
        };
        message(&request, &[])
    }

    fn accept(&self, reply: ReplyMessage<Bulk>) -> Result<Arc<Welcome>, Error> {
        let mut known = self.node.lock();
        match answered(&known, Ok(reply))?.0 {
            Reply::Welcome { node, identity, map, descriptors } => {
                known.clone_from(&node);
                Ok(Arc::new(Welcome { node, map, identity, descriptors }))
            }
            _ => Err(strange(&known)),
        }
    }

    fn explain(&self, failure: ConnectionFailure) -> Error {
        let node = self.node.lock().clone();
        match failure {
            ConnectionFailure::NoLink { address, error, time_limit } => {
                let key_source = self.client.key.as_ref().map(|found| found.source.as_str());
                unanswered::explain(&error, &node, &address, key_source, time_limit)
            }
            ConnectionFailure::Silent { address, time_limit } => {
                unanswered::silent(&node, &address, time_limit)
            }
            failure => down(&node, &failure.to_string()),
        }
    }
}

/// Tells whether a connection is still open.
pub struct Watch(RpcClient<NodeProtocol>);

impl Watch {
    /// Whether it is.
    pub fn is_open(&self) -> bool {
        self.0.is_alive()
    }
}

impl Waiting {
    /// Waits for the reply.
    pub fn wait(self) -> Result<(Reply, Vec<Bulk>), Error> {
        let Self { pending, borrowed, node, deadline, timeout } = self;
        let Ok(reply) = pending.wait_until(deadline) else {
            let why = format!("no reply within {:.1} s", timeout.as_secs_f64());
            return Err(down(&node, &why));
        };
        // A node that has replied has received the request, as a rule.
        if let Some(borrowed) = &borrowed {
            borrowed.wait_until(deadline);
        }
        answered(&node, reply)
    }

    /// Removes the time limit: only the reply or the loss of the connection ends the wait.
    pub fn without_limit(mut self) -> Self {
        const AGES: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        self.deadline = Instant::now() + AGES;
        self.timeout = AGES;
        self
    }

    /// The node that receives the request.
    pub fn node(&self) -> &str {
        &self.node
    }
}

fn message(request: &Request, data: &[Bulk]) -> RequestMessage<Bulk> {
    RequestMessage { request: request.clone(), data: data.to_vec() }
}

/// The reply of a node, or the error that it means.
pub fn answered(
    node: &str,
    reply: Result<ReplyMessage<Bulk>, RpcError>,
) -> Result<(Reply, Vec<Bulk>), Error> {
    match reply {
        Ok(ReplyMessage { result: Ok(reply), data }) => Ok((reply, data)),
        Ok(ReplyMessage { result: Err(failure), .. }) => Err(failure.into()),
        Err(error) => Err(down(node, &error.to_string())),
    }
}

/// The error for a node that does not reply.
pub fn down(node: &str, why: &str) -> Error {
    Failure::NodeDown { node: node.to_owned(), why: why.to_owned() }.into()
}

/// The error for a reply that does not belong to its request.
pub fn strange(node: &str) -> Error {
    let why = "its reply does not belong to the request".to_owned();
    Error::Failure(Failure::Internal { node: node.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};

    use pario_net::{PortOptions, RecvError, RpcServer, Space};

    use super::*;

    fn connection(address: Address) -> Connection {
        let identity = Identity { uid: 0, gids: vec![0] };
        let timeout = Duration::from_secs(30);
        let name = "test".to_owned();
        let client = Client {
            name,
            identity,
            key: None,
            timeout,
            connect_wait: None,
            trusts_any_user: true,
        };
        Connection::new(Arc::new(client), "busy", address)
    }

    #[test]
    fn a_node_that_is_there_may_take_its_time_to_say_so() {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let space = Space::builder("busy").host().listen_tcp(any_port).build().unwrap();
        let address = Address::tcp(space.address().tcp.unwrap());
        let port: RpcServer<NodeProtocol> =
            RpcServer::new(&space, REQUEST_PORT, PortOptions::default()).unwrap();
        let node = std::thread::spawn(move || {
            let asked = port.recv().unwrap();
            // Other things come first.
            let busy_until = Instant::now() + FAR_PRESENCE_LIMIT + Duration::from_millis(300);
            while let Some(left) = busy_until.checked_duration_since(Instant::now()) {
                let next = port.recv_timeout(left);
                assert!(matches!(next, Err(RecvError::Timeout { .. })), "only one asks");
            }
            let map = ClusterMap { name: String::new(), nodes: Vec::new(), interface: 0 };
            let identity = Identity { uid: 0, gids: vec![0] };
            let (node, descriptors) = ("busy".to_owned(), None);
            let welcome = Reply::Welcome { node, identity, map, descriptors };
            asked.responder.send(ReplyMessage { result: Ok(welcome), data: Vec::new() });
            // It is there until the client has gone.
            let _ = port.recv();
        });
        let connection = connection(address);
        assert_eq!(connection.welcome().unwrap().node, "busy");
        drop(connection);
        space.close();
        node.join().unwrap();
    }

    #[test]
    fn a_node_that_shows_no_life_is_given_up_soon() {
        let deaf = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let connection = connection(Address::tcp(deaf.local_addr().unwrap()));
        let began = Instant::now();
        let error = connection.welcome().unwrap_err();
        assert!(began.elapsed() < FAR_OPEN_LIMIT / 2, "known after {:?}", began.elapsed());
        assert!(error.to_string().contains("busy"), "{error}");
    }
}
