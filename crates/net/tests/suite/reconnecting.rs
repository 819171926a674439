//! The contract of the reconnecting client, over Unix sockets and within a process. No test waits
//! for time to pass, except for a server that never replies.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

use pario_net::{
    Address, Bulk, ConnectionFailure, ConnectionOptions, Key, OpenTimeLimits, Options, PortOptions,
    ReconnectingClient, RecvError, Responder, RpcError, RpcServer, SessionSetup, Space, Token,
};
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::protocols::Test;

const SOON: Duration = Duration::from_secs(20);
const NEVER: Duration = Duration::from_secs(3600);
/// The first request, and the reply that the client accepts.
const HELLO: u64 = 1_000;
const WELCOME: u64 = 1_001;
/// A request that gets no reply before the test releases it.
const HELD: u64 = 2_000;

type Numbers = Test<u64, u64>;
type Client = ReconnectingClient<Numbers, Hello<u64>>;

/// Sends a fixed first request; its errors are reasons.
struct Hello<Q>(Q);

impl<Q: Token + Clone + Send + Sync> SessionSetup<Test<Q, u64>> for Hello<Q> {
    type Session = u64;
    type Error = String;

    fn first_request(&self) -> Q {
        self.0.clone()
    }

    fn accept(&self, reply: u64) -> Result<u64, String> {
        if reply == WELCOME { Ok(reply) } else { Err(format!("its first reply is {reply}")) }
    }

    fn explain(&self, failure: ConnectionFailure) -> String {
        failure.reason()
    }
}

fn options(pause: Duration) -> ConnectionOptions {
    let limits = OpenTimeLimits::within(SOON);
    ConnectionOptions {
        name: "client".to_owned(),
        port: "numbers",
        key: None,
        connects_to_any_user: false,
        near: limits,
        far: limits,
        pause,
        space: Options::default(),
    }
}

fn client(pause: Duration, address: &Address) -> Client {
    ReconnectingClient::new(options(pause), Hello(HELLO), Some(address.clone()))
}

fn soon() -> Instant {
    Instant::now() + SOON
}

/// Sends a number, and waits for the reply.
fn call(client: &Client, number: u64) -> Result<u64, String> {
    let started = client.start(soon(), None, || number)?;
    started.pending.wait().map_err(|error| error.reason())
}

fn until(event: &str, is_so: impl Fn() -> bool) {
    let deadline = soon();
    while !is_so() {
        assert!(Instant::now() < deadline, "it takes too long until {event}");
        std::thread::yield_now();
    }
}

/// Where servers listen.
struct Sockets(TempDir);

impl Sockets {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn address(&self, name: &str) -> Address {
        Address::unix(self.path(name))
    }

    /// Starts a server that adds one to each number.
    fn serve(&self, name: &str) -> Server {
        let space = Space::builder(name).host().listen_unix(self.path(name)).build().unwrap();
        let port = RpcServer::<Numbers>::new(&space, "numbers", PortOptions::default()).unwrap();
        let server = Server { space, counts: Arc::default() };
        let counts = server.counts.clone();
        std::thread::spawn(move || {
            loop {
                let incoming = match port.recv() {
                    Ok(incoming) => incoming,
                    Err(RecvError::Lost { .. }) => {
                        counts.losses.fetch_add(1, Ordering::SeqCst);
                        continue;
                    }
                    Err(_) => break,
                };
                let number = incoming.request;
                let is_held = number == HELD || counts.holds_hellos.load(Ordering::SeqCst);
                let mut responder = Some(incoming.responder);
                if is_held {
                    counts.held.lock().extend(responder.take().map(|held| (number, held)));
                }
                // A test that sees the count finds the request held; one that has the reply finds
                // it counted.
                if number == HELLO {
                    counts.hellos.fetch_add(1, Ordering::SeqCst);
                }
                counts.requests.fetch_add(1, Ordering::SeqCst);
                if let Some(responder) = responder {
                    responder.send(number + 1);
                }
            }
        });
        server
    }
}

struct Server {
    space: Space,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    hellos: AtomicUsize,
    losses: AtomicUsize,
    requests: AtomicUsize,
    holds_hellos: AtomicBool,
    held: Mutex<Vec<(u64, Responder<Numbers>)>>,
}

impl Server {
    fn losses(&self) -> usize {
        self.counts.losses.load(Ordering::SeqCst)
    }

    fn hellos(&self) -> usize {
        self.counts.hellos.load(Ordering::SeqCst)
    }

    fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::SeqCst)
    }

    /// Replies to all held requests.
    fn release(&self) {
        self.counts.holds_hellos.store(false, Ordering::SeqCst);
        for (number, responder) in self.counts.held.lock().drain(..) {
            responder.send_now(number + 1);
        }
    }
}

#[test]
fn a_connection_opens_with_the_first_request_and_stays() {
    let sockets = Sockets::new();
    let server = sockets.serve("server");
    let client = client(NEVER, &sockets.address("server"));
    assert!(client.current().is_none());
    assert_eq!((client.epoch(), server.hellos()), (0, 0));
    for number in 0..10 {
        assert_eq!(call(&client, number).unwrap(), number + 1);
    }
    assert_eq!((client.epoch(), server.hellos()), (1, 1));
    let connection = client.connection(Instant::now()).unwrap();
    assert_eq!((connection.epoch, connection.session), (1, WELCOME));
}

/// A server forgets a client when it sees the loss of its link.
#[test]
fn the_server_sees_the_end_of_a_client() {
    let sockets = Sockets::new();
    let server = sockets.serve("server");
    for losses in 1..=3 {
        let client = client(NEVER, &sockets.address("server"));
        assert_eq!(call(&client, 1).unwrap(), 2);
        drop(client);
        until("the server sees the loss", || server.losses() == losses);
    }
}

#[test]
fn a_lost_link_fails_requests_under_way_and_is_replaced() {
    let sockets = Sockets::new();
    let server = sockets.serve("server");
    let client = client(Duration::ZERO, &sockets.address("server"));
    let started = client.start(soon(), None, || HELD).unwrap();
    until("the server has the request", || server.requests() == 2);
    server.space.close();
    assert!(matches!(started.pending.wait(), Err(RpcError::Lost { .. })));
    assert!(!started.connection.link.is_alive() && client.current().is_none());
    let why = call(&client, 1).unwrap_err();
    assert!(why.contains("nothing listens"), "{why}");
    assert_eq!(client.last_failure(), Some(why));
    assert_eq!(client.epoch(), 1, "no new connection");
}

#[test]
fn a_server_that_restarts_between_two_requests_goes_unnoticed() {
    let sockets = Sockets::new();
    let client = client(NEVER, &sockets.address("server"));
    for epoch in 1..=3 {
        let server = sockets.serve("server");
        assert_eq!(call(&client, 7).unwrap(), 8);
        assert_eq!((client.epoch(), server.hellos()), (epoch, 1));
        let before = client.current().unwrap();
        server.space.close();
        until("the loss is noticed", || !before.link.is_alive());
    }
}

#[test]
fn a_request_is_repeated_once_if_the_link_is_lost_before_it_is_sent() {
    let sockets = Sockets::new();
    for (losses, is_sent) in [(1, true), (2, false)] {
        let server = RefCell::new(sockets.serve("server"));
        let client = client(NEVER, &sockets.address("server"));
        let attempts = Cell::new(0);
        let started = client.start(soon(), None, || {
            // The client has a connection, and loses it before it sends.
            attempts.set(attempts.get() + 1);
            if attempts.get() <= losses {
                let before = client.current().unwrap();
                server.borrow().space.close();
                until("the loss is noticed", || !before.link.is_alive());
                server.replace(sockets.serve("server"));
            }
            7
        });
        assert_eq!(attempts.get(), 2);
        match started {
            Ok(started) => assert!(is_sent && started.pending.wait() == Ok(8)),
            Err(why) => assert!(!is_sent && why == "the connection to it was lost", "{why}"),
        }
        server.borrow().space.close();
    }
}

#[test]
fn refusals_are_reported_and_kept() {
    let sockets = Sockets::new();
    let client = client(Duration::ZERO, &sockets.address("server"));
    let why = call(&client, 1).unwrap_err();
    assert!(why.contains("nothing listens there"), "{why}");
    assert_eq!(client.last_failure(), Some(why));

    // It listens, and refuses clients without its key.
    let any_port = "127.0.0.1:0".parse().unwrap();
    let locked = Space::builder("locked").host().key(Key::random()).listen_tcp(any_port);
    let locked = locked.build().unwrap();
    client.set_address(Address::tcp(locked.address().tcp.unwrap()));
    assert_eq!(client.last_failure(), None, "that address was not tried yet");
    let why = call(&client, 1).unwrap_err();
    assert!(why.contains("needs a key"), "{why}");

    // It replies, but not as it should.
    let server = sockets.serve("server");
    let stranger: Client =
        ReconnectingClient::new(options(NEVER), Hello(5), Some(sockets.address("server")));
    assert_eq!(call(&stranger, 1).unwrap_err(), "its first reply is 6");
    assert_eq!(stranger.last_failure().unwrap(), "its first reply is 6");
    assert_eq!(server.requests(), 1, "no request follows");
    assert!(stranger.current().is_none());

    client.set_address(sockets.address("server"));
    assert_eq!(call(&client, 1).unwrap(), 2);
    assert_eq!(client.last_failure(), None);
}

#[test]
fn a_changed_address_counts_for_the_next_connection() {
    let sockets = Sockets::new();
    let (first, second) = (sockets.serve("first"), sockets.serve("second"));
    let client = client(NEVER, &sockets.address("nowhere"));
    assert!(call(&client, 1).is_err());
    client.set_address(sockets.address("nowhere"));
    assert!(client.last_failure().is_some(), "the address is the same");
    // The pause belongs to the other address.
    client.set_address(sockets.address("first"));
    assert_eq!(call(&client, 1).unwrap(), 2);
    client.set_address(sockets.address("second"));
    assert_eq!(call(&client, 1).unwrap(), 2);
    assert_eq!((first.hellos(), second.hellos()), (1, 0), "the connection is still open");
    first.space.close();
    until("the loss is noticed", || client.current().is_none());
    assert_eq!(call(&client, 1).unwrap(), 2);
    assert_eq!((second.hellos(), client.epoch()), (1, 2));

    let unknown: Client = ReconnectingClient::new(options(NEVER), Hello(HELLO), None);
    assert_eq!(call(&unknown, 1).unwrap_err(), "its address is not known");
    unknown.set_address(sockets.address("second"));
    assert_eq!(call(&unknown, 1).unwrap(), 2);
}

#[test]
fn threads_that_open_at_once_share_one_connection() {
    let sockets = Sockets::new();
    let server = sockets.serve("server");
    let client = client(NEVER, &sockets.address("server"));
    let all = Barrier::new(8);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (client, all) = (&client, &all);
            scope.spawn(move || {
                all.wait();
                assert_eq!(call(client, number).unwrap(), number + 1);
            });
        }
    });
    assert_eq!((server.hellos(), client.epoch()), (1, 1));
}

#[test]
fn an_attempt_that_takes_long_blocks_only_threads_that_need_it() {
    let sockets = Sockets::new();
    let server = sockets.serve("server");
    server.counts.holds_hellos.store(true, Ordering::SeqCst);
    let client = client(NEVER, &sockets.address("server"));
    std::thread::scope(|scope| {
        let openers = [scope.spawn(|| call(&client, 1)), scope.spawn(|| call(&client, 2))];
        until("the server has the first request", || server.hellos() == 1);
        // This thread waits for the attempt no longer than it wants to.
        let why = client.connection(Instant::now()).err().unwrap();
        assert_eq!(why, "no connection could be opened in time");
        client.notify(3);
        assert!(client.current().is_none() && client.last_failure().is_none());
        client.set_address(sockets.address("server"));
        server.release();
        let replies = openers.map(|opener| opener.join().unwrap().unwrap());
        assert_eq!(replies, [2, 3]);
    });
    assert_eq!((server.hellos(), server.requests(), client.epoch()), (1, 3, 1));
}

#[test]
fn after_a_failure_there_is_no_attempt_during_the_pause() {
    let sockets = Sockets::new();
    for pause in [NEVER, Duration::ZERO] {
        let client = client(pause, &sockets.address("server"));
        let why = call(&client, 1).unwrap_err();
        let server = sockets.serve("server");
        if pause.is_zero() {
            assert_eq!(call(&client, 1).unwrap(), 2);
        } else {
            assert_eq!(call(&client, 1).unwrap_err(), why);
            assert_eq!(server.hellos(), 0);
            let (send, receive) = mpsc::channel();
            client.call_then(SOON, || 1, move |reply| send.send(reply).unwrap());
            assert_eq!(receive.recv().unwrap().unwrap_err(), why);
        }
        server.space.close();
    }
}

#[test]
fn a_late_reply_is_dropped() {
    let sockets = Sockets::new();
    let server = sockets.serve("server");
    let client = client(NEVER, &sockets.address("server"));
    let (send, receive) = mpsc::channel();
    let began = Instant::now();
    for (time_limit, number) in [(SOON, HELD), (NEVER, HELD), (SOON, 1)] {
        let send = send.clone();
        client.call_then(time_limit, move || number, move |reply| send.send(reply).unwrap());
    }
    drop(send);
    assert_eq!(receive.recv().unwrap(), Ok(2), "one reply comes in time");
    client.expire(began);
    assert!(receive.try_recv().is_err(), "the others may still come");
    client.expire(Instant::now() + SOON);
    let why = receive.recv().unwrap().unwrap_err();
    assert!(why.contains("too long"), "{why}");
    assert!(receive.try_recv().is_err(), "one has a longer time limit");
    // Both replies come, and one callback has run already.
    server.release();
    assert_eq!(receive.recv().unwrap(), Ok(HELD + 1));
    assert!(receive.recv().is_err(), "each callback ran once");
    client.expire(Instant::now() + 2 * NEVER);
    assert_eq!(call(&client, 3).unwrap(), 4);
}

#[test]
fn the_loss_of_the_server_ends_calls_with_callbacks() {
    let sockets = Sockets::new();
    let server = sockets.serve("server");
    let client = client(NEVER, &sockets.address("server"));
    let (send, receive) = mpsc::channel();
    client.call_then(NEVER, || HELD, move |reply| send.send(reply).unwrap());
    until("the server has the request", || server.requests() == 2);
    server.space.close();
    let why = receive.recv().unwrap().unwrap_err();
    assert_eq!(why, "the connection to it was lost");
}

#[test]
fn a_server_of_another_version_is_reported() {
    let sockets = Sockets::new();
    let space = Space::builder("server").host().listen_unix(sockets.path("server"));
    let space = space.build().unwrap();
    let _port =
        RpcServer::<Test<u64, u64, 2>>::new(&space, "numbers", PortOptions::default()).unwrap();
    let client = client(NEVER, &sockets.address("server"));
    assert_eq!(call(&client, 1).unwrap_err(), "it is of another version");
}

#[test]
fn a_server_that_does_not_reply_is_given_up_at_the_time_limit() {
    let sockets = Sockets::new();
    let server = sockets.serve("server");
    server.counts.holds_hellos.store(true, Ordering::SeqCst);
    // One server replies to nothing, the other one has no port.
    let portless = Space::builder("portless").host().listen_unix(sockets.path("portless"));
    let _portless = portless.build().unwrap();
    for name in ["server", "portless"] {
        let mut options = options(Duration::ZERO);
        options.near.total = Duration::from_millis(100);
        let client: Client =
            ReconnectingClient::new(options, Hello(HELLO), Some(sockets.address(name)));
        assert_eq!(call(&client, 1).unwrap_err(), "it does not answer");
    }
}

#[test]
fn a_notification_needs_an_open_connection() {
    let sockets = Sockets::new();
    let server = sockets.serve("server");
    let client = client(NEVER, &sockets.address("server"));
    client.notify(1);
    assert_eq!((client.epoch(), server.hellos()), (0, 0));
    call(&client, 1).unwrap();
    client.notify(1);
    until("the server has it", || server.requests() == 3);
}

#[test]
fn memory_of_the_caller_is_sent_from_where_it_is() {
    const LEN: usize = 100_000;
    let sockets = Sockets::new();
    let space = Space::builder("server").host().listen_unix(sockets.path("server"));
    let space = space.build().unwrap();
    let port = RpcServer::<Test<Vec<Bulk>, u64>>::new(&space, "numbers", PortOptions::default());
    let port = port.unwrap();
    let server = std::thread::spawn(move || {
        loop {
            let incoming = match port.recv() {
                Ok(incoming) => incoming,
                Err(RecvError::Lost { .. }) => continue,
                Err(_) => break,
            };
            let sum =
                incoming.request.iter().flat_map(|bulk| bulk.iter()).map(|byte| u64::from(*byte));
            incoming.responder.send(sum.sum());
        }
    });
    let hello: Bulk = vec![1; 1_001].into();
    let (ones, twos) = (vec![1; LEN], vec![2; LEN]);
    // Over a socket the memory is borrowed; within a process the server would keep it.
    for (address, is_borrowed) in [(sockets.address("server"), true), (space.address(), false)] {
        let client: ReconnectingClient<Test<Vec<Bulk>, u64>, _> =
            ReconnectingClient::new(options(NEVER), Hello(vec![hello.clone()]), Some(address));
        // SAFETY: both vectors live longer than the request.
        let started = unsafe { client.start_borrowed(soon(), &[&ones, &twos], |bulk| bulk) };
        let started = started.unwrap();
        assert_eq!(started.borrowed.is_some(), is_borrowed);
        assert_eq!(started.pending.wait().unwrap(), 3 * LEN as u64);
    }
    space.close();
    server.join().unwrap();
}
