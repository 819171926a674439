//! A connection to one node: opened when it is first needed, and again after it was lost.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_net::wire::Limits;
use pario_net::{
    Address, Bulk, BulkBuffer, DescriptorClient, Key, OpenError, Options, PendingReply, RecvBuffer,
    RpcClient, RpcError, SendBuffer, Space, SpaceId,
};
use pario_proto::{
    ClusterMap, Failure, Identity, PROTOCOL_VERSION, PeerKind, Reply, ReplyMessage, Request,
    RequestMessage, TOKEN_LIMIT_BYTES,
};
use parking_lot::Mutex;

use crate::error::Error;
use crate::protocol::NodeProtocol;
use crate::unanswered;

/// The port at which every node takes questions.
const REQUESTS: &str = "requests";
/// How long a node may take to show that it is there, over a network.
const CONNECT_WAIT: Duration = Duration::from_millis(1_800);
/// How long opening a connection may take if it is there: it may have much to do.
const WELCOME_WAIT: Duration = Duration::from_secs(5);
/// How long it may take on the same machine, where a node that is not there is known at once.
const NEAR_CONNECT_WAIT: Duration = Duration::from_secs(10);

type Link = RpcClient<NodeProtocol>;

/// How this process presents itself to nodes.
#[derive(Clone)]
pub struct Client {
    pub name: String,
    pub identity: Identity,
    pub key: Option<Key>,
    /// Where the key was read from.
    pub key_file: Option<PathBuf>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How long a connection may take to be opened, if the caller has said so.
    pub connect_wait: Option<Duration>,
    /// Whether nodes of every user are trusted: those that the caller has named are. A node that
    /// was found must run as the caller or as root.
    pub trusts_any_user: bool,
}

/// A connection to one node.
pub struct Connection {
    client: Arc<Client>,
    /// Never held while anything is waited for.
    state: Mutex<State>,
    /// Held by the one who opens the connection.
    opening: Mutex<()>,
}

struct State {
    node: String,
    address: Address,
    live: Option<Live>,
    /// When the connection could last not be opened, and why.
    trouble: Option<(Instant, Error)>,
}

#[derive(Clone)]
struct Live {
    _space: Space,
    link: Link,
    welcome: Arc<Welcome>,
}

/// What a node said when the connection was opened.
#[derive(Debug)]
pub struct Welcome {
    pub node: String,
    pub map: ClusterMap,
    pub identity: Identity,
    /// Where descriptors of flat subfiles can be had.
    pub descriptors: Option<String>,
}

/// A question that is under way.
pub struct Waiting {
    pub pending: PendingReply<NodeProtocol>,
    /// What it was asked with, if that is not its own.
    lent: Option<LentBytes>,
    node: String,
    deadline: Instant,
    timeout: Duration,
}

impl Connection {
    /// A connection that is opened when it is needed.
    pub fn new(client: Arc<Client>, node: &str, address: Address) -> Self {
        let state = State { node: node.to_owned(), address, live: None, trouble: None };
        Self { client, state: Mutex::new(state), opening: Mutex::default() }
    }

    /// Where the node is now.
    pub fn set_address(&self, address: Address) {
        self.state.lock().address = address;
    }

    /// Opens the connection if it is not open.
    pub fn welcome(&self) -> Result<Arc<Welcome>, Error> {
        Ok(self.live()?.welcome)
    }

    /// Asks, and waits for the answer.
    pub fn call(&self, request: Request) -> Result<Reply, Error> {
        self.start(request, Vec::new())?.wait().map(|(reply, _)| reply)
    }

    /// Asks, and waits for the answer, but not longer than this.
    pub fn call_within(&self, request: Request, within: Duration) -> Result<Reply, Error> {
        let deadline = Instant::now() + within;
        let mut waiting = self.start_by(request, None, deadline, |_| Default::default())?;
        waiting.deadline = deadline;
        waiting.timeout = within;
        waiting.wait().map(|(reply, _)| reply)
    }

    /// Asks for something that may take very long. The node must answer other questions in time
    /// while it works.
    pub fn call_long(&self, request: Request) -> Result<Reply, Error> {
        let Waiting { mut pending, node, timeout, .. } = self.start(request, Vec::new())?;
        loop {
            match pending.wait_until(Instant::now() + timeout) {
                Ok(answer) => return answered(&node, answer).map(|(reply, _)| reply),
                Err(unanswered) => pending = unanswered,
            }
            self.call(Request::Map)?;
        }
    }

    /// Asks; the answer can be waited for.
    pub fn start(&self, request: Request, data: Vec<Bulk>) -> Result<Waiting, Error> {
        let deadline = Instant::now() + self.client.timeout;
        self.start_by(request, None, deadline, |_| (data.clone(), None))
    }

    /// Asks, and sends bytes from where they are, unless it is the node itself that would get them.
    ///
    /// # Safety
    /// The bytes must stay as they are until the question was waited for or dropped.
    pub unsafe fn start_lent(&self, request: Request, bytes: &[&[u8]]) -> Result<Waiting, Error> {
        let deadline = Instant::now() + self.client.timeout;
        self.start_by(request, None, deadline, |link| {
            if !link.releases_when_sent() {
                return (vec![copy_of(bytes)], None);
            }
            let loan = SendBuffer::new();
            // SAFETY: `LentBytes` waits for the loan, and lives until the question was waited for
            // or dropped; so long the caller keeps the bytes.
            let data = bytes.iter().map(|bytes| unsafe { loan.lend(bytes) }).collect();
            (data, Some(LentBytes { loan, link: link.clone() }))
        })
    }

    /// Asks; what is answered lands where it is wanted, if that can be.
    pub fn start_into(
        &self,
        request: Request,
        landing: Option<&Arc<RecvBuffer>>,
    ) -> Result<Waiting, Error> {
        let deadline = Instant::now() + self.client.timeout;
        self.start_by(request, landing, deadline, |_| Default::default())
    }

    /// Asks, if the connection can be opened by then; `data` is what goes with the question.
    fn start_by(
        &self,
        request: Request,
        landing: Option<&Arc<RecvBuffer>>,
        deadline: Instant,
        data: impl Fn(&Link) -> (Vec<Bulk>, Option<LentBytes>),
    ) -> Result<Waiting, Error> {
        for attempt in 0.. {
            let live = self.live_by(deadline)?;
            let (data, lent) = data(&live.link);
            let question = RequestMessage { request: request.clone(), data };
            let asked = match landing {
                Some(landing) => live.link.start_into(question, landing),
                None => live.link.start(question),
            };
            match asked {
                Ok(pending) => {
                    return Ok(Waiting {
                        pending,
                        lent,
                        node: live.welcome.node.clone(),
                        deadline: Instant::now() + self.client.timeout,
                        timeout: self.client.timeout,
                    });
                }
                // The node may have been started again since the last question.
                Err(RpcError::Lost { .. } | RpcError::Closed { .. }) if attempt == 0 => {}
                Err(error) => return Err(down(&live.welcome.node, &error.to_string())),
            }
        }
        unreachable!("the second attempt gives or returns")
    }

    /// Tells the node something and waits for no answer. If the connection is lost, nobody is told.
    pub fn tell(&self, request: Request) {
        let live = self.state.lock().live.clone();
        if let Some(live) = live
            && let Ok(pending) = live.link.start(RequestMessage { request, data: Vec::new() })
        {
            // Looking for the answer sends the question.
            pending.is_done();
        }
    }

    /// Tells whether the connection that is open now is still open.
    pub fn watch(&self) -> Result<Watch, Error> {
        Ok(Watch(self.live()?.link))
    }

    /// Whether the connection is open now.
    pub fn is_open(&self) -> bool {
        self.known().is_some()
    }

    /// A client for descriptors, if the node gives any to this process. The process that hands them
    /// out must be of the node's user: another one could have put its socket there.
    pub fn descriptors(&self) -> Option<DescriptorClient> {
        let live = self.live().ok()?;
        let path = live.welcome.descriptors.clone()?;
        let client = DescriptorClient::connect(path.as_ref()).ok()?;
        client.set_timeout(self.client.timeout).ok()?;
        let node = live.link.peer_user()?;
        (client.server_user().uid == node.uid).then_some(client)
    }

    fn live(&self) -> Result<Live, Error> {
        self.live_by(Instant::now() + self.connect_wait())
    }

    fn connect_wait(&self) -> Duration {
        let is_near = self.state.lock().address.is_near();
        let usual = if is_near { NEAR_CONNECT_WAIT } else { WELCOME_WAIT };
        self.client.connect_wait.unwrap_or(usual)
    }

    /// The connection, opened by then if it is not.
    fn live_by(&self, deadline: Instant) -> Result<Live, Error> {
        let began = Instant::now();
        let deadline = deadline.min(began + self.connect_wait());
        if let Some(live) = self.known() {
            return Ok(live);
        }
        let Some(_one_at_a_time) = self.opening.try_lock_until(deadline) else {
            let node = self.state.lock().node.clone();
            return Err(down(&node, "no connection could be opened in time"));
        };
        if let Some(live) = self.known() {
            return Ok(live);
        }
        let (node, address) = {
            let state = self.state.lock();
            match &state.trouble {
                // Whoever waited for somebody else's attempt shares its outcome, so that many do
                // not wait for each other's attempts in turn.
                Some((since, error)) if *since >= began => return Err(error.clone()),
                _ => (state.node.clone(), state.address.clone()),
            }
        };
        let connected = connect(&self.client, &node, &address, deadline);
        let mut state = self.state.lock();
        match connected {
            Ok(live) => {
                state.node = live.welcome.node.clone();
                state.live = Some(live.clone());
                Ok(live)
            }
            Err(error) => {
                state.trouble = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    fn known(&self) -> Option<Live> {
        let mut state = self.state.lock();
        match &state.live {
            Some(live) if live.link.is_alive() => Some(live.clone()),
            _ => {
                state.live = None;
                None
            }
        }
    }
}

/// Tells whether a connection is still open.
pub struct Watch(Link);

impl Watch {
    /// Whether it is.
    pub fn is_open(&self) -> bool {
        self.0.is_alive()
    }
}

impl Waiting {
    /// Waits for the answer.
    pub fn wait(self) -> Result<(Reply, Vec<Bulk>), Error> {
        let Self { pending, lent, node, deadline, timeout } = self;
        match pending.wait_until(deadline) {
            Ok(answer) => {
                // What was answered was received, as a rule.
                if let Some(lent) = &lent {
                    lent.loan.wait_until(deadline);
                }
                answered(&node, answer)
            }
            Err(_) => {
                let why = format!("no answer within {:.1} s", timeout.as_secs_f64());
                Err(down(&node, &why))
            }
        }
    }

    /// Waits as long as it takes, or until the connection is lost.
    pub fn without_limit(mut self) -> Self {
        const AGES: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        self.deadline = Instant::now() + AGES;
        self.timeout = AGES;
        self
    }

    /// The node that was asked.
    pub fn node(&self) -> &str {
        &self.node
    }
}

/// Bytes of the caller that are sent from where they are. When this is dropped, they are its own
/// again.
struct LentBytes {
    loan: Arc<SendBuffer>,
    link: Link,
}

impl Drop for LentBytes {
    fn drop(&mut self) {
        // What waits to be sent leaves no sooner than the node reads, or never.
        if !self.loan.wait_until(Instant::now()) {
            self.link.close_link("it does not take what is written in time");
            self.loan.wait();
        }
    }
}

fn copy_of(parts: &[&[u8]]) -> Bulk {
    let mut copy = BulkBuffer::new(parts.iter().map(|part| part.len()).sum());
    let mut filled = 0;
    for part in parts {
        copy[filled..filled + part.len()].copy_from_slice(part);
        filled += part.len();
    }
    copy.freeze()
}

/// What an answer means.
pub fn answered(
    node: &str,
    answer: Result<ReplyMessage<Bulk>, RpcError>,
) -> Result<(Reply, Vec<Bulk>), Error> {
    match answer {
        Ok(ReplyMessage { result: Ok(reply), data }) => Ok((reply, data)),
        Ok(ReplyMessage { result: Err(failure), .. }) => Err(failure.into()),
        Err(error) => Err(down(node, &error.to_string())),
    }
}

fn connect(
    client: &Client,
    node: &str,
    address: &Address,
    deadline: Instant,
) -> Result<Live, Error> {
    let left = deadline.saturating_duration_since(Instant::now());
    let usual = if address.is_near() { left } else { left.min(CONNECT_WAIT) };
    let usual_handshake = Options::default().connect_wait;
    let options = Options {
        answer_wait: client.connect_wait.map_or(usual, |_| left),
        connect_wait: client.connect_wait.map_or(usual_handshake, |_| left),
        close_wait: Duration::from_millis(200),
        // A node that returns no credit is like one that does not answer.
        send_wait: Some(client.timeout),
        limits: Limits::for_tokens(TOKEN_LIMIT_BYTES),
        ..Options::default()
    };
    let handshake_wait =
        client.connect_wait.unwrap_or(options.connect_wait.min(options.answer_wait));
    // A node admits one space of a name: neither a second cluster in this process, nor a process
    // of the same number on another machine, nor the connection that was lost, may be in the way.
    let name = format!("{} {}", client.name, SpaceId::random());
    // A client has nothing that others could connect to.
    let mut builder = Space::builder(&name).options(options).join(address).listen_nowhere();
    builder = builder.connect_to_any_user(client.trusts_any_user);
    if let Some(key) = &client.key {
        builder = builder.key(key.clone());
    }
    let key_file = client.key_file.as_deref();
    let space = builder
        .build()
        .map_err(|error| unanswered::explain(&error, node, address, key_file, handshake_wait))?;
    let silent = || unanswered::silent(node, address, client.connect_wait.unwrap_or(left));
    let left = deadline.saturating_duration_since(Instant::now());
    let link = Link::open(&space, REQUESTS, left).map_err(|error| match error {
        OpenError::Timeout { .. } => silent(),
        error => down(node, &error.to_string()),
    })?;
    let request = Request::Hello {
        version: PROTOCOL_VERSION,
        identity: client.identity.clone(),
        client: client.name.clone(),
        peer: PeerKind::Client,
    };
    let asked = link.start(RequestMessage { request, data: Vec::new() });
    let asked = asked.map_err(|error| down(node, &error.to_string()))?;
    let answer = match asked.wait_until(deadline) {
        Ok(answer) => answered(node, answer)?,
        Err(_) => return Err(silent()),
    };
    match answer {
        (Reply::Welcome { node, identity, map, descriptors }, _) => {
            let welcome = Arc::new(Welcome { node, map, identity, descriptors });
            Ok(Live { _space: space, link, welcome })
        }
        _ => Err(strange(node)),
    }
}

/// A node does not answer.
pub fn down(node: &str, why: &str) -> Error {
    Failure::NodeDown { node: node.to_owned(), why: why.to_owned() }.into()
}

/// A node has answered something else than what was asked.
pub fn strange(node: &str) -> Error {
    let why = "its answer does not belong to the question".to_owned();
    Error::Failure(Failure::Internal { node: node.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};

    use pario_net::{PortOptions, RecvError, RpcServer};

    use super::*;

    fn connection(address: Address) -> Connection {
        let identity = Identity { uid: 0, gids: vec![0] };
        let timeout = Duration::from_secs(30);
        let name = "test".to_owned();
        let client = Client {
            name,
            identity,
            key: None,
            key_file: None,
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
            RpcServer::new(&space, REQUESTS, PortOptions::default()).unwrap();
        let node = std::thread::spawn(move || {
            let asked = port.recv().unwrap();
            // Other things come first.
            let busy_until = Instant::now() + CONNECT_WAIT + Duration::from_millis(300);
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
        assert!(began.elapsed() < WELCOME_WAIT / 2, "known after {:?}", began.elapsed());
        assert!(error.to_string().contains("busy"), "{error}");
    }
}
