//! A client that opens its connection when a request first needs it, and again after it was lost.
//!
//! *Opening.* One thread opens at a time and holds `opening`; no thread holds `state` while it
//! waits. Other threads that need the connection wait for that attempt until their own deadline, and
//! share its outcome. After a failure all requests fail with its reason for a while
//! ([`ConnectionOptions::pause`]).
//!
//! *Each connection is a space of its own*, which listens nowhere and has a random name: the server
//! admits one space of a name, and a connection that was lost must not stand in the way of the next.
//!
//! *Lock order*: `opening`, then `state`. Code of users runs without `state`.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::borrowed_parts::BorrowedParts;
use super::connection_state::ConnectionState;
use super::{PendingReply, Protocol, RpcClient};
use crate::address::Address;
use crate::bulk::Bulk;
use crate::error::{ConnectionFailure, OpenError, RpcError};
use crate::key::{Key, SpaceId};
use crate::recv_buffer::RecvBuffer;
use crate::space::{Options, Space};

/// What a client sends first on each new connection, and how it reports failures.
pub trait SessionSetup<P: Protocol>: Send + Sync + 'static {
    /// What the server's first reply says; kept with the connection.
    type Session: Send + Sync + 'static;
    /// Why there is no connection or no reply.
    type Error: Clone + Send + 'static;

    /// The first request.
    fn first_request(&self) -> P::Request;
    /// Checks the first reply. On an error the connection is closed.
    fn accept(&self, reply: P::Reply) -> Result<Self::Session, Self::Error>;
    /// The error for a failure.
    fn explain(&self, failure: ConnectionFailure) -> Self::Error;
}

/// How a [`ReconnectingClient`] opens its connections.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// The name of the client, to which each connection adds a random one.
    pub name: String,
    /// The port of the server.
    pub port: &'static str,
    /// The key that client and server share.
    pub key: Option<Key>,
    /// Whether the server may run as any user ([`SpaceBuilder::connect_to_any_user`]).
    ///
    /// [`SpaceBuilder::connect_to_any_user`]: crate::SpaceBuilder::connect_to_any_user
    pub connects_to_any_user: bool,
    /// The time limits for a server on the same machine.
    pub near: OpenTimeLimits,
    /// The time limits for a server that is reached over a network.
    pub far: OpenTimeLimits,
    /// The time after a failure in which the client does not try again.
    pub pause: Duration,
    /// The options of the space of each connection; its time limits for opening are not used.
    pub space: Options,
}

/// The time limits for opening a connection.
#[derive(Clone, Copy, Debug)]
pub struct OpenTimeLimits {
    /// All of it, from the socket to the first reply.
    pub total: Duration,
    /// Until the server's process shows that it is there ([`Options::answer_wait`]).
    pub presence: Duration,
    /// The socket and its handshake ([`Options::connect_wait`]).
    pub handshake: Duration,
}

impl OpenTimeLimits {
    /// The same limit for all steps; the handshake has its usual limit if that is shorter.
    pub fn within(total: Duration) -> Self {
        let handshake = Options::default().connect_wait.min(total);
        Self { total, presence: total, handshake }
    }
}

/// A client of one server, whose connection is opened when a request needs it.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use pario_net::{
///     ConnectionFailure, ConnectionOptions, OpenTimeLimits, Options, PortOptions, Protocol,
///     ReconnectingClient, RpcServer, SessionSetup, Space,
/// };
///
/// enum Squares {}
///
/// impl Protocol for Squares {
///     const NAME: &'static str = "example.squares/1";
///     type Request = u64;
///     type Reply = u64;
/// }
///
/// struct Probe;
///
/// impl SessionSetup<Squares> for Probe {
///     type Session = ();
///     type Error = String;
///
///     fn first_request(&self) -> u64 {
///         2
///     }
///     fn accept(&self, reply: u64) -> Result<(), String> {
///         (reply == 4).then_some(()).ok_or("it cannot compute".to_owned())
///     }
///     fn explain(&self, failure: ConnectionFailure) -> String {
///         failure.reason()
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let home = Space::builder("home").host().build()?;
/// # let squares = RpcServer::<Squares>::new(&home, "squares", PortOptions::default())?;
/// # let server = std::thread::spawn(move || {
/// #     while let Ok(incoming) = squares.recv() {
/// #         incoming.responder.send(incoming.request * incoming.request);
/// #     }
/// # });
/// let limits = OpenTimeLimits::within(Duration::from_secs(5));
/// let options = ConnectionOptions {
///     name: "guest".to_owned(),
///     port: "squares",
///     key: None,
///     connects_to_any_user: false,
///     near: limits,
///     far: limits,
///     pause: Duration::from_millis(300),
///     space: Options::default(),
/// };
/// let client = ReconnectingClient::new(options, Probe, Some(home.address()));
/// let deadline = Instant::now() + Duration::from_secs(5);
/// assert_eq!(client.start(deadline, None, || 12)?.pending.wait()?, 144);
/// # home.close();
/// # server.join().unwrap();
/// # Ok(())
/// # }
/// ```
pub struct ReconnectingClient<P: Protocol, S: SessionSetup<P>> {
    options: ConnectionOptions,
    setup: Arc<S>,
    state: Mutex<State<P, S>>,
    /// Held by the thread that opens a connection.
    opening: Mutex<()>,
    /// The callbacks that wait for replies, with their deadlines.
    callbacks: Mutex<Vec<ExpiringCallback<P::Reply, S::Error>>>,
}

type State<P, S> = ConnectionState<Arc<OpenConnection<P, S>>, <S as SessionSetup<P>>::Error>;
type Opened<P, S> = Result<Arc<OpenConnection<P, S>>, <S as SessionSetup<P>>::Error>;
type ExpiringCallback<R, E> = (Instant, Weak<Callback<R, E>>);

/// A connection that was opened. It may be lost by now.
pub struct OpenConnection<P: Protocol, S: SessionSetup<P>> {
    /// The space of this connection alone: the server ends the session when it is lost.
    _space: Space,
    /// Sends requests over this connection only.
    pub link: RpcClient<P>,
    /// What the server said when the connection was opened.
    pub session: S::Session,
    /// The number of the connection; the first one of a client has number 1.
    pub epoch: u64,
}

/// A request that was sent over a connection.
pub struct SentRequest<P: Protocol, S: SessionSetup<P>> {
    /// Waits for the reply.
    pub pending: PendingReply<P>,
    /// The memory that the request borrows, if any. It must live until the reply came.
    pub borrowed: Option<BorrowedParts<P>>,
    /// Where the request was sent.
    pub connection: Arc<OpenConnection<P, S>>,
}

/// A callback that runs once: with the reply, or when it expires.
struct Callback<R, E>(Mutex<Option<CallbackFn<R, E>>>);

type CallbackFn<R, E> = Box<dyn FnOnce(Result<R, E>) + Send>;

impl<R, E> Callback<R, E> {
    fn run(&self, result: Result<R, E>) {
        let callback = self.0.lock().take();
        if let Some(callback) = callback {
            callback(result);
        }
    }
}

impl<P: Protocol, S: SessionSetup<P>> ReconnectingClient<P, S> {
    /// A client without a connection.
    pub fn new(options: ConnectionOptions, setup: S, address: Option<Address>) -> Self {
        Self {
            options,
            setup: Arc::new(setup),
            state: Mutex::new(ConnectionState::new(address)),
            opening: Mutex::default(),
            callbacks: Mutex::default(),
        }
    }

    /// Sets the address for the next connection. One that is open stays open.
    pub fn set_address(&self, address: Address) {
        self.state.lock().set_address(address);
    }

    /// Why the last attempt to open a connection failed; none if it succeeded.
    pub fn last_failure(&self) -> Option<S::Error> {
        self.state.lock().failure().cloned()
    }

    /// The number of the last connection that was opened; 0 before the first.
    pub fn epoch(&self) -> u64 {
        self.state.lock().epoch()
    }

    /// The connection that is open now.
    pub fn current(&self) -> Option<Arc<OpenConnection<P, S>>> {
        let mut state = self.state.lock();
        let lost = state.take_lost(|current| !current.link.is_alive());
        let current = state.current().cloned();
        drop(state);
        // Closing a space may wait.
        drop(lost);
        current
    }

    /// The connection, opened until the deadline and within the time limits if none is open.
    pub fn connection(&self, deadline: Instant) -> Opened<P, S> {
        let asked = Instant::now();
        if let Some(outcome) = self.outcome(asked) {
            return outcome;
        }
        let limits = self.limits(self.state.lock().address());
        let deadline = deadline.min(asked + limits.total);
        let Some(_opener) = self.opening.try_lock_until(deadline) else {
            return Err(self.setup.explain(ConnectionFailure::StillOpening));
        };
        // Another thread may have ended its attempt since.
        if let Some(outcome) = self.outcome(asked) {
            return outcome;
        }
        let address = self.state.lock().address().cloned();
        let opened = match &address {
            Some(address) => self.open(address, asked, deadline),
            None => Err(self.setup.explain(ConnectionFailure::NoAddress)),
        };
        let mut state = self.state.lock();
        match opened {
            Ok((link, session, _space)) => Ok(state
                .record_open(|epoch| Arc::new(OpenConnection { _space, link, session, epoch }))),
            Err(error) => {
                state.record_failure(Instant::now(), address.as_ref(), error.clone());
                Err(error)
            }
        }
    }

    /// Sends a request; opens a connection until the deadline if none is open. If the connection is
    /// lost before the request was sent, sends it once more. The reply may be received into a
    /// buffer, as with [`RpcClient::start_into`].
    pub fn start(
        &self,
        deadline: Instant,
        into: Option<&Arc<RecvBuffer>>,
        request: impl Fn() -> P::Request,
    ) -> Result<SentRequest<P, S>, S::Error> {
        self.start_over(deadline, into, |_| (request(), None))
    }

    /// Sends a request with bytes of the caller from where they are, if the link is a socket, and
    /// with a copy of them otherwise.
    ///
    /// # Safety
    /// The bytes must neither change nor move until [`SentRequest::borrowed`] is dropped.
    pub unsafe fn start_borrowed(
        &self,
        deadline: Instant,
        parts: &[&[u8]],
        request: impl Fn(Vec<Bulk>) -> P::Request,
    ) -> Result<SentRequest<P, S>, S::Error> {
        self.start_over(deadline, None, |link| {
            // SAFETY: the caller of this function promises it.
            let (bulk, borrowed) = unsafe { BorrowedParts::lend(link, parts) };
            (request(bulk), borrowed)
        })
    }

    fn start_over(
        &self,
        deadline: Instant,
        into: Option<&Arc<RecvBuffer>>,
        request: impl Fn(&RpcClient<P>) -> (P::Request, Option<BorrowedParts<P>>),
    ) -> Result<SentRequest<P, S>, S::Error> {
        let mut is_repeated = false;
        loop {
            let connection = self.connection(deadline)?;
            let (request, borrowed) = request(&connection.link);
            let started = match into {
                Some(buffer) => connection.link.start_into(request, buffer),
                None => connection.link.start(request),
            };
            match started {
                Ok(pending) => return Ok(SentRequest { pending, borrowed, connection }),
                // The server may have been restarted since the last request.
                Err(RpcError::Lost { .. } | RpcError::Closed { .. }) if !is_repeated => {
                    is_repeated = true;
                }
                Err(error) => return Err(self.setup.explain(error.into())),
            }
        }
    }

    /// Sends a request, and calls `callback` once: with the reply, with an error, or when
    /// [`expire`](Self::expire) finds that the reply took longer than the time limit. Opening a
    /// connection does not count towards it.
    pub fn call_then(
        &self,
        time_limit: Duration,
        request: impl Fn() -> P::Request,
        callback: impl FnOnce(Result<P::Reply, S::Error>) + Send + 'static,
    ) {
        let started = match self.start(Instant::now() + time_limit, None, request) {
            Ok(started) => started,
            Err(error) => return callback(Err(error)),
        };
        let callback = Arc::new(Callback(Mutex::new(Some(Box::new(callback) as _))));
        let deadline = Instant::now() + time_limit;
        self.callbacks.lock().push((deadline, Arc::downgrade(&callback)));
        let setup = self.setup.clone();
        started.pending.then(move |reply| {
            callback.run(reply.map_err(|error| setup.explain(error.into())));
        });
    }

    /// Ends all calls with callbacks whose time limit has passed. Their replies are dropped when
    /// they come.
    pub fn expire(&self, now: Instant) {
        let mut late = Vec::new();
        self.callbacks.lock().retain(|(deadline, callback)| match callback.upgrade() {
            Some(callback) if *deadline <= now => {
                late.push(callback);
                false
            }
            callback => callback.is_some(),
        });
        for callback in late {
            callback.run(Err(self.setup.explain(ConnectionFailure::Late)));
        }
    }

    /// Sends a request over the connection that is open, and drops the reply. Does nothing if none
    /// is open or it is lost.
    pub fn notify(&self, request: P::Request) {
        if let Some(connection) = self.current()
            && let Ok(pending) = connection.link.start(request)
        {
            // Checking for the reply sends the request.
            pending.is_done();
        }
    }

    fn outcome(&self, asked: Instant) -> Option<Opened<P, S>> {
        match self.current() {
            Some(connection) => Some(Ok(connection)),
            None => self.state.lock().outcome(asked, Instant::now(), self.options.pause),
        }
    }

    fn limits(&self, address: Option<&Address>) -> OpenTimeLimits {
        let is_near = address.is_some_and(Address::is_near);
        if is_near { self.options.near } else { self.options.far }
    }

    fn open(
        &self,
        address: &Address,
        asked: Instant,
        deadline: Instant,
    ) -> Result<(RpcClient<P>, S::Session, Space), S::Error> {
        let explain = |failure| self.setup.explain(failure);
        let left = || deadline.saturating_duration_since(Instant::now());
        let time_limit = deadline.saturating_duration_since(asked);
        let limits = self.limits(Some(address));
        let silent = || explain(ConnectionFailure::Silent { address: address.clone(), time_limit });
        let options = Options {
            answer_wait: limits.presence.min(left()),
            connect_wait: limits.handshake.min(left()),
            ..self.options.space.clone()
        };
        let mut builder = Space::builder(&format!("{} {}", self.options.name, SpaceId::random()))
            .options(options)
            .join(address)
            .listen_nowhere()
            .connect_to_any_user(self.options.connects_to_any_user);
        if let Some(key) = &self.options.key {
            builder = builder.key(key.clone());
        }
        let space = builder.build().map_err(|error| {
            let time_limit = limits.handshake.min(limits.presence).min(time_limit);
            explain(ConnectionFailure::NoLink { address: address.clone(), error, time_limit })
        })?;
        let link =
            RpcClient::<P>::open(&space, self.options.port, left()).map_err(
                |error| match error {
                    OpenError::Timeout { .. } => silent(),
                    error => explain(ConnectionFailure::NoPort { error }),
                },
            )?;
        let first =
            link.start(self.setup.first_request()).map_err(|error| explain(error.into()))?;
        let Ok(reply) = first.wait_until(deadline) else { return Err(silent()) };
        let session = self.setup.accept(reply.map_err(|error| explain(error.into()))?)?;
        Ok((link, session, space))
    }
}
