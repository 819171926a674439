//! Requests and replies, over every kind of link and within one space.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use pario_net::{
    Bulk, IncomingRequest, LinkChoice, OpenError, Options, PortOptions, RecvError, Responder,
    RpcClient, RpcError, RpcServer, SendError, Simulation, Space, User,
};

use crate::protocols::Test;

type Server<Q, R> = RpcServer<Test<Q, R>>;
type Client<Q, R> = RpcClient<Test<Q, R>>;

const SOON: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Here,
    Memory,
    Unix,
    Tcp,
    Simulated,
}

/// A server space and a client space; for `Here` they are the same.
struct Pair {
    server: Space,
    client: Space,
    simulation: Option<Simulation>,
}

impl Pair {
    fn new(kind: Kind) -> Self {
        let links = match kind {
            Kind::Here => {
                let space = Space::alone("server");
                return Self { server: space.clone(), client: space, simulation: None };
            }
            Kind::Simulated => {
                let simulation = Simulation::new(7);
                let server = simulation.space("server").unwrap();
                let client = simulation.space("client").unwrap();
                return Self { server, client, simulation: Some(simulation) };
            }
            Kind::Memory => LinkChoice::Nearest,
            Kind::Unix => LinkChoice::Unix,
            Kind::Tcp => LinkChoice::Tcp,
        };
        let builder =
            |name| Space::builder(name).listen_tcp("127.0.0.1:0".parse().unwrap()).links(links);
        let server = builder("server").host().build().unwrap();
        let client = builder("client").join(&server.address()).build().unwrap();
        Self { server, client, simulation: None }
    }

    fn port<Q: pario_net::Token, A: pario_net::Token>(
        &self,
        name: &str,
    ) -> (Server<Q, A>, Client<Q, A>) {
        let port = RpcServer::new(&self.server, name, PortOptions::default()).unwrap();
        let client = RpcClient::open(&self.client, name, SOON).unwrap();
        assert!(client.is_alive() && client.name() == name && client.peer() == "server");
        (port, client)
    }

    fn end(&self, space: &Space) {
        match &self.simulation {
            Some(simulation) => simulation.kill(space),
            None => space.close(),
        }
    }
}

/// Replies to everything in a thread, until the port is closed.
fn serve<Q: pario_net::Token, A: pario_net::Token>(
    port: RpcServer<Test<Q, A>>,
    mut answer: impl FnMut(IncomingRequest<Test<Q, A>>) + Send + 'static,
) -> std::thread::JoinHandle<RpcServer<Test<Q, A>>> {
    std::thread::spawn(move || {
        loop {
            match port.recv_timeout(SOON) {
                Ok(asked) => answer(asked),
                Err(RecvError::Closed { .. } | RecvError::Lost { .. }) => return port,
                Err(error) => panic!("{error}"),
            }
        }
    })
}

fn replies_come_in_any_order(kind: Kind) {
    let pair = Pair::new(kind);
    let (port, client) = pair.port::<u64, u64>("numbers");
    let pending: Vec<_> = (0..100).map(|number| client.start(number).unwrap()).collect();
    let mut asked: Vec<_> = (0..100)
        .map(|number| {
            // No thread waits for the replies yet, so the requests leave by themselves.
            let asked = port.recv_timeout(SOON).unwrap();
            assert_eq!(asked.request, number);
            // Over a link, the receiver knows the client by an id of its own making.
            assert_eq!(asked.sender.space == pair.client.id(), kind == Kind::Here);
            assert_eq!(asked.sender.is_local, kind == Kind::Here);
            if kind == Kind::Unix {
                assert_eq!(asked.sender.user, Some(User::own()));
            }
            asked
        })
        .collect();
    assert!(!pending[3].is_done());
    fastrand::Rng::with_seed(11).shuffle(&mut asked);
    let server = std::thread::spawn(move || {
        asked.into_iter().for_each(|asked| asked.responder.send(asked.request * asked.request));
    });
    for (number, pending) in (0..).zip(pending) {
        assert_eq!(pending.wait().unwrap(), number * number);
    }
    server.join().unwrap();
}

fn many_threads_send_requests_at_once(kind: Kind) {
    let pair = Pair::new(kind);
    let (port, client) = pair.port::<(u64, u64), (u64, u64)>("echo");
    // Answers are kept back now and then, so that they come in another order.
    let mut kept: Vec<IncomingRequest<_>> = Vec::new();
    let server = serve(port, move |asked| {
        kept.push(asked);
        if kept.len() >= 3 {
            kept.drain(..).rev().for_each(|asked| asked.responder.send(asked.request));
        }
    });
    // Two more keep the kept ones moving, whatever the others do.
    let is_over = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (client, is_over) = (client.clone(), &is_over);
            scope.spawn(move || {
                for number in 0..500 {
                    let question = (thread, number);
                    assert_eq!(client.start(question).unwrap().wait().unwrap(), question);
                }
                is_over.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        while is_over.load(std::sync::atomic::Ordering::SeqCst) < 8 {
            let two = [client.start((9, 0)).unwrap(), client.start((9, 1)).unwrap()];
            for (number, pending) in (0..).zip(two) {
                let deadline = Instant::now() + Duration::from_millis(20);
                if let Ok(answer) = pending.wait_until(deadline) {
                    assert_eq!(answer.unwrap(), (9, number));
                }
            }
        }
    });
    pair.end(&pair.client);
    server.join().unwrap();
}

fn bulk_goes_both_ways(kind: Kind) {
    let pair = Pair::new(kind);
    let (port, client) = pair.port::<(u8, Bulk), Vec<Bulk>>("bulk");
    let server = serve(port, |asked| {
        let (byte, bulk) = asked.request;
        asked.responder.send(vec![bulk, vec![byte; 70_000].into(), Bulk::from(vec![byte; 3])]);
    });
    for (byte, len) in [(1, 0), (2, 10), (3, 4_096), (4, 1 << 20), (5, 6 << 20)] {
        let bulk = Bulk::from(vec![byte; len]);
        let place = bulk.as_ptr();
        let parts = client.start((byte, bulk.clone())).unwrap().wait().unwrap();
        assert_eq!(parts[0], bulk);
        assert_eq!((&parts[1][..], &parts[2][..]), (&[byte; 70_000][..], &[byte; 3][..]));
        if matches!(kind, Kind::Here | Kind::Memory) && len >= 4_096 {
            assert_eq!(parts[0].as_ptr(), place, "the same memory");
        }
    }
    for link in pair.client.counters().links.iter().chain(&pair.server.counters().links) {
        assert_eq!(link.bytes_copied, 0);
    }
    pair.end(&pair.client);
    server.join().unwrap();
}

fn the_loss_of_the_server_fails_all_requests(kind: Kind) {
    let pair = Pair::new(kind);
    let (port, client) = pair.port::<u64, u64>("numbers");
    let pending: Vec<_> = (0..100).map(|number| client.start(number).unwrap()).collect();
    let (called, calls) = mpsc::channel();
    client.call_then(100, move |answer| called.send(answer).unwrap());
    // Some are received, and the first one gets a reply.
    let mut asked: Vec<_> = (0..50).map(|_| port.recv_timeout(SOON).unwrap()).collect();
    asked.remove(0).responder.send_now(7);
    let mut pending = pending.into_iter();
    assert_eq!(pending.next().unwrap().wait().unwrap(), 7);
    let lost = RpcError::Lost { peer: "server".into() };
    std::thread::scope(|scope| {
        let waiting = pending.next().unwrap();
        let waiter = scope.spawn(move || waiting.wait());
        pair.end(&pair.server);
        assert_eq!(waiter.join().unwrap().unwrap_err(), lost);
    });
    for pending in pending {
        assert_eq!(pending.wait().unwrap_err(), lost);
    }
    assert_eq!(calls.recv_timeout(SOON).unwrap().unwrap_err(), lost);
    assert!(!client.is_alive());
    assert_eq!(client.start(1).unwrap_err(), lost);
    let (called, calls) = mpsc::channel();
    client.call_then(1, move |answer| called.send(answer).unwrap());
    assert_eq!(calls.recv_timeout(SOON).unwrap().unwrap_err(), lost);
    // The missing replies go nowhere.
    drop(asked);
}

fn the_loss_of_the_client_is_reported(kind: Kind) {
    let pair = Pair::new(kind);
    let (port, client) = pair.port::<u64, u64>("numbers");
    let _other = RpcClient::<Test<u64, u64>>::open(&pair.client, "numbers", SOON).unwrap();
    let pending = client.start(1).unwrap();
    let asked = port.recv_timeout(SOON).unwrap();
    pair.end(&pair.client);
    match port.recv_timeout(SOON).unwrap_err() {
        RecvError::Lost { space, peer } => {
            assert_eq!((space, peer.as_str()), (asked.sender.space, "client"));
        }
        error => panic!("{error}"),
    }
    asked.responder.send(1);
    assert!(matches!(pending.wait(), Err(RpcError::Closed { .. } | RpcError::Lost { .. })));
    // The port goes on.
    let here = RpcClient::<Test<u64, u64>>::open(&pair.server, "numbers", SOON).unwrap();
    let pending = here.start(2).unwrap();
    port.recv_timeout(SOON).unwrap().responder.send(4);
    assert_eq!(pending.wait().unwrap(), 4);
}

/// A server keeps sessions by the space of the client: it learns of the loss of the space also if all
/// clients in it have left the port before; once, and not before.
fn the_loss_of_a_client_that_has_left_is_reported(kind: Kind) {
    let pair = Pair::new(kind);
    let (port, client) = pair.port::<u64, u64>("numbers");
    let other = RpcClient::<Test<u64, u64>>::open(&pair.client, "numbers", SOON).unwrap();
    for client in [client, other] {
        let pending = client.start(1).unwrap();
        port.recv_timeout(SOON).unwrap().responder.send_now(2);
        assert_eq!(pending.wait().unwrap(), 2);
        drop(client);
    }
    // A second port, so that the server has received everything before.
    let (second, client) = pair.port::<u64, u64>("others");
    let pending = client.start(3).unwrap();
    let asked = second.recv_timeout(SOON).unwrap();
    asked.responder.send_now(4);
    assert_eq!(pending.wait().unwrap(), 4);
    let nothing = port.recv_timeout(Duration::ZERO).unwrap_err();
    assert!(matches!(nothing, RecvError::Timeout { .. }), "{nothing}");
    pair.end(&pair.client);
    for port in [&port, &second] {
        match port.recv_timeout(SOON).unwrap_err() {
            RecvError::Lost { space, .. } => assert_eq!(space, asked.sender.space),
            error => panic!("{error}"),
        }
        let nothing = port.recv_timeout(Duration::ZERO).unwrap_err();
        assert!(matches!(nothing, RecvError::Timeout { .. }), "one event: {nothing}");
    }
}

fn a_request_without_a_reply_fails(kind: Kind) {
    let pair = Pair::new(kind);
    let (port, client) = pair.port::<u64, u64>("numbers");
    let pending = client.start(1).unwrap();
    drop(port.recv_timeout(SOON).unwrap());
    let dropped = RpcError::Dropped { peer: "server".into() };
    assert_eq!(pending.wait().unwrap_err(), dropped);

    // With the port go the requests that wait in it, and those that come later.
    let received = client.start(2).unwrap();
    let kept = port.recv_timeout(SOON).unwrap();
    let waiting = client.start(3).unwrap();
    drop(port);
    let closed = RpcError::Closed { port: "numbers".into() };
    let error = waiting.wait().unwrap_err();
    assert!(error == closed || kind == Kind::Here && error == dropped, "{error}");
    let error = (0..).find_map(|_| client.start(4).err()).unwrap();
    assert_eq!(error, closed);
    assert!(!client.is_alive());
    if kind == Kind::Here {
        kept.responder.send(5);
        assert_eq!(received.wait().unwrap(), 5);
    } else {
        assert_eq!(received.wait().unwrap_err(), closed);
    }
}

/// The smallest executor.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn replies_are_awaited(kind: Kind) {
    let pair = Pair::new(kind);
    let (port, client) = pair.port::<u64, u64>("numbers");
    let server = serve(port, |asked| match asked.request {
        13 => drop(asked.responder),
        number => asked.responder.send(number + 1),
    });
    let sum = block_on(async {
        let mut sum = 0;
        for number in 0..200 {
            sum += match client.start(number).unwrap().await {
                Ok(answer) => answer,
                Err(error) => {
                    assert!(number == 13 && matches!(error, RpcError::Dropped { .. }), "{error}");
                    0
                }
            };
        }
        // Several under way, in threads that wait and in futures.
        let pending: Vec<_> = (0..50).map(|number| client.start(number * 100).unwrap()).collect();
        let blocking = std::thread::scope(|scope| {
            let thread = scope.spawn(|| client.start(1).unwrap().wait().unwrap());
            thread.join().unwrap()
        });
        assert_eq!(blocking, 2);
        for (number, pending) in (0..).zip(pending) {
            assert_eq!(pending.await.unwrap(), number * 100 + 1);
        }
        sum
    });
    assert_eq!(sum, (1..=200).sum::<u64>() - 14);
    // A future that is dropped while it waits leaves nothing behind, and one that was polled can
    // be waited for.
    let mut dropped = client.start(5).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let _ = std::pin::Pin::new(&mut dropped).poll(&mut context);
    drop(dropped);
    let mut polled = client.start(6).unwrap();
    if std::pin::Pin::new(&mut polled).poll(&mut context).is_pending() {
        assert_eq!(polled.wait().unwrap(), 7);
    }
    // It outlives its client.
    let last = client.start(7).unwrap();
    drop(client);
    assert_eq!(block_on(last).unwrap(), 8);
    pair.end(&pair.client);
    drop(pair);
    // The client left before, so that the server hears of no loss.
    drop(server);
}

fn replies_are_passed_on(kind: Kind) {
    let pair = Pair::new(kind);
    let (port, client) = pair.port::<u64, u64>("numbers");
    let server = serve(port, |asked| asked.responder.send(asked.request + 1));
    let (to, called) = mpsc::channel();
    for number in 0..1_000 {
        let to = to.clone();
        client.call_then(number, move |answer| to.send((number, answer.unwrap())).unwrap());
        if number % 100 == 0 {
            assert_eq!(client.start(number).unwrap().wait().unwrap(), number + 1);
        }
    }
    // One asks the next, and one panics.
    let (inner, chained) = (client.clone(), to.clone());
    client.call_then(1_000, move |answer| {
        inner.call_then(answer.unwrap(), move |answer| {
            chained.send((1_000, answer.unwrap() - 1)).unwrap();
        });
        drop(inner);
        panic!("it was to be so");
    });
    drop((client, to));
    let numbers: BTreeSet<_> = called
        .iter()
        .map(|(number, answer)| {
            assert_eq!(answer, number + 1);
            number
        })
        .collect();
    assert_eq!(numbers.len(), 1_001);
    pair.end(&pair.client);
    drop((pair, server));
}

fn deadlines_return_pending_replies(kind: Kind) {
    let pair = Pair::new(kind);
    let (port, client) = pair.port::<u64, u64>("numbers");
    let pending = client.start(1).unwrap();
    let other = client.start(2).unwrap();
    let pending = pending.wait_until(Instant::now() + Duration::from_millis(5)).unwrap_err();
    let pending = pending.wait_until(Instant::now()).unwrap_err();
    drop(other);
    for _ in 0..2 {
        let asked = port.recv_timeout(SOON).unwrap();
        asked.responder.send(asked.request);
    }
    let began = Instant::now();
    while !pending.is_done() {
        assert!(began.elapsed() < SOON, "the space looks at what came");
        std::thread::yield_now();
    }
    assert_eq!(pending.wait_until(Instant::now()).unwrap().unwrap(), 1);
    assert_eq!(port.depth(), 0);
}

macro_rules! contract {
    (here: $($here:ident),*; all: $($test:ident),* $(,)?) => {
        mod here { $(#[test] fn $here() { super::$here(super::Kind::Here); })* }
        mod memory { $(#[test] fn $test() { super::$test(super::Kind::Memory); })* }
        mod unix { $(#[test] fn $test() { super::$test(super::Kind::Unix); })* }
        mod tcp { $(#[test] fn $test() { super::$test(super::Kind::Tcp); })* }
        mod simulated { $(#[test] fn $test() { super::$test(super::Kind::Simulated); })* }
    };
}

contract!(
    here: replies_come_in_any_order, many_threads_send_requests_at_once, bulk_goes_both_ways,
        a_request_without_a_reply_fails, replies_are_awaited, replies_are_passed_on,
        deadlines_return_pending_replies;
    all: replies_come_in_any_order, many_threads_send_requests_at_once, bulk_goes_both_ways,
        the_loss_of_the_server_fails_all_requests, the_loss_of_the_client_is_reported,
        the_loss_of_a_client_that_has_left_is_reported,
        a_request_without_a_reply_fails, replies_are_awaited, replies_are_passed_on,
        deadlines_return_pending_replies,
);

/// The threads of this process of a name.
fn threads_named(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|found| found.trim_end() == name).count()
}

#[test]
fn threads_that_wait_receive_their_replies_themselves() {
    let pair = Pair::new(Kind::Unix);
    let (port, client) = pair.port::<u64, u64>("lonely");
    let server = serve(port, |asked| asked.responder.send(asked.request));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..100 {
                    assert_eq!(client.start(number).unwrap().wait().unwrap(), number);
                }
            });
        }
    });
    assert_eq!(threads_named("rpc lonely"), 0);
    assert_eq!(block_on(client.start(1).unwrap()).unwrap(), 1);
    assert_eq!(threads_named("rpc lonely"), 1);
    // It goes with the client.
    drop(client);
    let began = Instant::now();
    while threads_named("rpc lonely") > 0 {
        assert!(began.elapsed() < SOON);
        std::thread::yield_now();
    }
    drop((pair, server));
}

/// Says less, or more, than its kind promises.
#[derive(Debug)]
struct Liar<const QUESTION: bool>(Vec<u8>);

impl<const QUESTION: bool> pario_net::Token for Liar<QUESTION> {
    fn kind() -> pario_net::TokenKind {
        pario_net::TokenKind::named(if QUESTION { "q" } else { "a" })
    }

    fn encode(self, out: &mut pario_net::Outgoing<'_>) -> Result<(), pario_net::EncodeError> {
        out.head().extend_from_slice(&self.0);
        Ok(())
    }

    fn decode(incoming: pario_net::Incoming<'_>) -> Result<Self, pario_net::DecodeError> {
        match incoming.head() {
            b"bad" => Err(pario_net::DecodeError::Other("it is bad".into())),
            head => Ok(Self(head.to_vec())),
        }
    }
}

#[test]
fn what_cannot_be_read_or_sent_is_refused() {
    let pair = Pair::new(Kind::Unix);
    let (port, client) = pair.port::<Liar<true>, Liar<false>>("lies");
    let pending = client.start(Liar(b"bad".to_vec())).unwrap();
    let error = port.recv_timeout(SOON).unwrap_err();
    assert!(matches!(&error, RecvError::Undecodable { peer, .. } if peer == "client"), "{error}");
    let error = pending.wait().unwrap_err();
    assert!(error.to_string().contains("it is bad"), "{error}");
    assert!(matches!(error, RpcError::Refused { .. }));

    let answer = |answer: Vec<u8>| {
        let pending = client.start(Liar(Vec::new())).unwrap();
        port.recv_timeout(SOON).unwrap().responder.send(Liar(answer));
        pending.wait()
    };
    assert!(matches!(answer(b"bad".to_vec()), Err(RpcError::Unreadable { .. })));
    let limit = Options::default().limits.inline_bytes;
    let error = answer(vec![0; limit + 1]).err().unwrap();
    assert!(matches!(error, RpcError::Refused { .. }), "{error}");
    let error = client.start(Liar(vec![0; limit + 1])).unwrap_err();
    assert!(matches!(error, RpcError::Unsent { .. }), "{error}");
    assert_eq!(answer(b"good".to_vec()).unwrap().0, b"good");
}

/// A request as a stranger sends it: 12 bytes and more.
struct Raw(Vec<u8>);

impl pario_net::Token for Raw {
    fn kind() -> pario_net::TokenKind {
        pario_net::TokenKind::named("request of test/1")
    }

    fn encode(self, out: &mut pario_net::Outgoing<'_>) -> Result<(), pario_net::EncodeError> {
        out.head().extend_from_slice(&self.0);
        Ok(())
    }

    fn decode(_: pario_net::Incoming<'_>) -> Result<Self, pario_net::DecodeError> {
        Ok(Self(Vec::new()))
    }
}

#[test]
fn strangers_with_bad_requests_harm_themselves_alone() {
    let question = |channel: u32| {
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(&channel.to_le_bytes());
        bytes.push(1);
        Raw(bytes)
    };
    // Too short; on a channel that was not made; on two; on one that leads to a port.
    for case in 0..4 {
        let pair = Pair::new(Kind::Unix);
        let (port, honest) = pair.port::<u64, u64>("numbers");
        let stranger = Space::builder("stranger").links(LinkChoice::Unix);
        let stranger = stranger.join(&pair.server.address()).build().unwrap();
        let _input = stranger.input::<u64>("victim").unwrap();
        let victim = pair.server.output::<u64>("victim", SOON).unwrap();
        let output = stranger.output::<Raw>("numbers", SOON).unwrap();
        match case {
            0 => output.send(Raw(vec![1; 11])).unwrap(),
            1 => output.send(question(77)).unwrap(),
            2 => [5, 6].into_iter().for_each(|channel| output.send(question(channel)).unwrap()),
            _ => output.send(question(1)).unwrap(),
        }
        output.flush();
        let (mut is_lost, mut unanswered) = (false, Vec::new());
        for _ in 0..if case == 0 { 1 } else { 3 } {
            match port.recv_timeout(SOON) {
                // A reply on a channel that was not opened makes the stranger cut the link.
                Ok(asked) if case == 1 => asked.responder.send_now(1),
                Ok(asked) => unanswered.push(asked),
                Err(RecvError::Undecodable { .. }) => assert_eq!(case, 0),
                Err(RecvError::Lost { peer, .. }) => {
                    assert_eq!(peer, "stranger");
                    is_lost = true;
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(is_lost, case != 0, "case {case}");
        if case != 0 {
            assert!(matches!(victim.send(1), Err(SendError::Lost { .. })));
        }
        let pending = honest.start(1).unwrap();
        port.recv_timeout(SOON).unwrap().responder.send(2);
        assert_eq!(pending.wait().unwrap(), 2);
    }
}

#[test]
fn names_of_protocols_are_checked() {
    let pair = Pair::new(Kind::Unix);
    let (_port, _asker) = pair.port::<u64, u64>("numbers");
    let error = RpcClient::<Test<u64, u64, 2>>::open(&pair.client, "numbers", SOON).unwrap_err();
    assert!(error.to_string().contains("request of test/1, not request of test/2"), "{error}");
    assert!(matches!(error, OpenError::KindMismatch { .. }), "{error}");
    let error = RpcClient::<Test<u64, u64, 0>>::open(&pair.client, "numbers", SOON).unwrap_err();
    assert!(matches!(error, OpenError::KindMismatch { .. }), "{error}");
    let soon = Duration::from_millis(5);
    let error = RpcClient::<Test<u64, u64>>::open(&pair.client, "none", soon).unwrap_err();
    assert!(matches!(error, OpenError::Timeout { .. }), "{error}");
}

/// A responder can go to any thread, and so can who asks.
#[test]
fn all_of_it_can_be_sent_to_other_threads() {
    fn check<T: Send + Sync>() {}
    check::<Responder<Test<u64, u64>>>();
    check::<RpcServer<Test<u64, u64>>>();
    check::<RpcClient<Test<u64, u64>>>();
    check::<pario_net::PendingReply<Test<u64, u64>>>();
}
