//! One suite for every kind of link: two spaces, and what can be relied on between them.

#![allow(clippy::cast_possible_truncation, reason = "patterns are meant to wrap")]

use std::time::{Duration, Instant};

use pario_net::{
    Bulk, BulkBuffer, Credit, InputPort, LinkChoice, LinkCounters, OpenError, Options, OutputPort,
    PortOptions, RecvError, SendError, Simulation, Space,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde::{Deserialize, Serialize};

const SOON: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Memory,
    Unix,
    Tcp,
    Simulated,
}

/// Two spaces with a way between them.
struct Pair {
    kind: Kind,
    a: Space,
    b: Space,
    simulation: Option<Simulation>,
}

impl Pair {
    fn new(kind: Kind) -> Self {
        Self::with(kind, Options::default())
    }

    fn with(kind: Kind, options: Options) -> Self {
        if kind == Kind::Simulated {
            let simulation = Simulation::new(7);
            let a = simulation.space_with("a", options.clone()).unwrap();
            let b = simulation.space_with("b", options).unwrap();
            return Self { kind, a, b, simulation: Some(simulation) };
        }
        let links = match kind {
            Kind::Memory => LinkChoice::Nearest,
            Kind::Unix => LinkChoice::Unix,
            _ => LinkChoice::Tcp,
        };
        let builder = |name| {
            Space::builder(name)
                .listen_tcp("127.0.0.1:0".parse().unwrap())
                .links(links)
                .options(options.clone())
        };
        let a = builder("a").host().build().unwrap();
        let b = builder("b").join(&a.address()).build().unwrap();
        Self { kind, a, b, simulation: None }
    }

    /// A port in `a`, opened from `b`.
    fn port<T: pario_net::Token>(&self, name: &str) -> (InputPort<T>, OutputPort<T>) {
        let input = self.a.input(name).unwrap();
        (input, self.b.output(name, SOON).unwrap())
    }

    /// What `b` knows about its link to `a`.
    fn counters(&self) -> LinkCounters {
        self.b.counters().links.into_iter().find(|link| link.is_alive).unwrap()
    }
}

fn order_is_kept(kind: Kind) {
    let pair = Pair::new(kind);
    let (input, output) = pair.port::<u64>("numbers");
    assert!(!output.is_local() && output.peer() == "a" && output.name() == "numbers");
    for number in 0..100_000 {
        output.send(number).unwrap();
        if number % 10_000 == 7 {
            output.flush();
        }
        if number % 1_000 == 999 {
            for expected in number - 999..=number {
                assert_eq!(input.recv_timeout(SOON).unwrap(), expected);
            }
        }
    }
    assert!(matches!(input.try_recv(), Err(RecvError::Empty { .. })));
}

/// A head, a short segment and a long one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Mixed {
    number: u64,
    text: String,
    parts: Vec<Bulk>,
}

fn pattern(seed: u64, len: usize) -> Bulk {
    let mut buffer = BulkBuffer::new(len);
    for (i, byte) in buffer.iter_mut().enumerate() {
        *byte = (seed.wrapping_mul(31) + i as u64 * 7) as u8;
    }
    buffer.freeze()
}

/// Random tokens, random flushes, random sides: each side receives the tokens of the other one.
fn random_tokens_arrive_once_in_order(kind: Kind) {
    let lengths = prop_oneof![
        0usize..200,
        4_000usize..4_200,
        Just(4_095usize),
        Just(4_096usize),
        10_000usize..70_000,
    ];
    let token = (".{0,40}", prop::collection::vec(lengths, 0..4), 0..10u8);
    let mut runner = TestRunner::new(ProptestConfig { cases: 24, ..ProptestConfig::default() });
    let pair = Pair::new(kind);
    let (forth, to_a) = pair.port::<Mixed>("forth");
    let back = pair.b.input::<Mixed>("back").unwrap();
    let to_b = pair.a.output::<Mixed>("back", SOON).unwrap();
    runner
        .run(&prop::collection::vec(token, 1..40), |tokens| {
            let (mut sent, mut returned) = (Vec::new(), Vec::new());
            for (number, (text, lengths, what)) in tokens.into_iter().enumerate() {
                let number = number as u64;
                let parts = lengths.into_iter().map(|len| pattern(number, len)).collect();
                let token = Mixed { number, text, parts };
                to_a.send(token.clone()).unwrap();
                sent.push(token);
                match what {
                    0 => to_a.flush(),
                    1 => {
                        let token = forth.recv_timeout(SOON).unwrap();
                        to_b.send(token.clone()).unwrap();
                        returned.push(token);
                    }
                    _ => {}
                }
            }
            while returned.len() < sent.len() {
                let token = forth.recv_timeout(SOON).unwrap();
                to_b.send(token.clone()).unwrap();
                returned.push(token);
            }
            prop_assert_eq!(&returned, &sent);
            for token in &sent {
                prop_assert_eq!(&back.recv_timeout(SOON).unwrap(), token);
            }
            assert!(matches!(back.try_recv(), Err(RecvError::Empty { .. })));
            Ok(())
        })
        .unwrap();
}

fn many_senders_share_a_port(kind: Kind) {
    const EACH: u32 = 3_000;
    let pair = Pair::new(kind);
    let input = pair.a.input::<(u32, u32)>("all").unwrap();
    let clone = pair.b.output::<(u32, u32)>("all", SOON).unwrap();
    let mut next = [0; 9];
    std::thread::scope(|scope| {
        for sender in 0..9 {
            let output = match sender {
                0..3 => clone.clone(),
                3..6 => pair.b.output("all", SOON).unwrap(),
                _ => input.output(),
            };
            scope.spawn(move || {
                for number in 0..EACH {
                    output.send((sender, number)).unwrap();
                }
            });
        }
        for _ in 0..9 * EACH {
            let (sender, number) = input.recv_timeout(SOON).unwrap();
            assert_eq!(number, next[sender as usize], "each sender's order is kept");
            next[sender as usize] += 1;
        }
    });
    assert_eq!(next, [EACH; 9]);
}

fn several_threads_receive_from_one_port(kind: Kind) {
    let pair = Pair::new(kind);
    let (input, output) = pair.port::<u32>("work");
    let mut all: Vec<u32> = std::thread::scope(|scope| {
        let receive = || {
            let mut got = Vec::new();
            loop {
                match input.recv_timeout(SOON).unwrap() {
                    u32::MAX => return got,
                    number => got.push(number),
                }
            }
        };
        let receivers = [scope.spawn(receive), scope.spawn(receive), scope.spawn(receive)];
        for number in 0..5_000 {
            output.send(number).unwrap();
        }
        for _ in 0..3 {
            output.send(u32::MAX).unwrap();
        }
        output.flush();
        receivers.into_iter().flat_map(|receiver| receiver.join().unwrap()).collect()
    });
    all.sort_unstable();
    assert_eq!(all, (0..5_000).collect::<Vec<_>>());
}

fn bulk_is_not_copied(kind: Kind) {
    let pair = Pair::new(kind);
    let (input, output) = pair.port::<(u64, Bulk)>("bulk");
    for len in [4_096, 4_097, 65_536, 1 << 20, 8 << 20] {
        for number in 0..5 {
            let bulk = pattern(number, len);
            let place = bulk.as_ptr();
            std::thread::scope(|scope| {
                scope.spawn(|| output.send((number, bulk.clone())).unwrap());
                let (got, received) = input.recv_timeout(SOON).unwrap();
                assert_eq!((got, &received), (number, &bulk));
                if matches!(pair.kind, Kind::Memory | Kind::Simulated) {
                    assert_eq!(received.as_ptr(), place, "the same memory");
                } else {
                    assert!(received.as_ptr().addr().is_multiple_of(4096), "memory of its own");
                }
            });
        }
    }
    for link in pair.a.counters().links.iter().chain(&pair.b.counters().links) {
        assert_eq!(link.bytes_copied, 0);
    }
}

fn tokens_leave_together(kind: Kind) {
    // In virtual time there is nothing to wait for, and nothing is saved.
    if kind == Kind::Simulated {
        return;
    }
    let pair = Pair::new(kind);
    let (input, output) = pair.port::<(u64, [u64; 4])>("many");
    let before = pair.counters();
    for number in 0..20_000 {
        output.send((number, [number; 4])).unwrap();
    }
    output.flush();
    for _ in 0..20_000 {
        input.recv_timeout(SOON).unwrap();
    }
    let after = pair.counters();
    let frames = after.sent_frames - before.sent_frames;
    let packets = after.sent_packets - before.sent_packets;
    assert!(frames >= 20_000 && packets < frames / 20, "{frames} frames in {packets} packets");
    assert!(after.writes - before.writes <= 2 * packets + 10);
}

/// A token that was gathered leaves by itself, although its sender does nothing more.
fn what_is_gathered_does_not_wait_long(kind: Kind) {
    let pair = Pair::new(kind);
    let (input, output) = pair.port::<u32>("late");
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            for expected in 0..200u32 {
                assert_eq!(input.recv_timeout(SOON).unwrap(), expected);
            }
        });
        for number in 0..100 {
            output.send(2 * number).unwrap();
            output.send(2 * number + 1).unwrap();
            // Neither waits in a port nor flushes, so that only the I/O thread can send.
            let began = Instant::now();
            while input.depth() > 0 && began.elapsed() < SOON {
                std::hint::spin_loop();
            }
        }
        receiver.join().unwrap();
    });
}

fn credits_bound_what_waits(kind: Kind) {
    const CREDIT: usize = 100_000;
    let options = Options { send_wait: Some(Duration::from_millis(100)), ..Options::default() };
    let pair = Pair::with(kind, options);
    let port = PortOptions { credit_bytes: Credit::Bytes(CREDIT) };
    let input = pair.a.input_with::<(u32, Bulk)>("slow", port).unwrap();
    let output = pair.b.output::<(u32, Bulk)>("slow", SOON).unwrap();
    let mut sent = 0;
    let refused = loop {
        match output.send((sent, pattern(0, 5_000))) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!((sent as usize) * 5_000 < CREDIT + 10_000, "{sent} tokens went");
    };
    assert!((sent as usize) * 5_000 >= CREDIT - 10_000, "{sent} tokens went");
    let SendError::Full { port, token, .. } = refused else { panic!("{refused}") };
    assert_eq!((port.as_str(), token.unwrap().0), ("slow", sent));
    assert!(pair.counters().queued_bytes <= CREDIT as u64 + 10_000);

    for expected in 0..sent {
        assert_eq!(input.recv_timeout(SOON).unwrap().0, expected);
    }

    // Credit came back, and a token that is larger than all credit passes alone.
    output.send((7, pattern(1, 3 * CREDIT))).unwrap();
    assert_eq!(input.recv_timeout(SOON).unwrap().1.len(), 3 * CREDIT);
    output.send((8, pattern(1, 10))).unwrap();
    assert_eq!(input.recv_timeout(SOON).unwrap().0, 8);
}

/// A sender that waits for credit goes on when the receiver receives.
fn a_full_port_makes_the_sender_wait(kind: Kind) {
    let pair = Pair::new(kind);
    let port = PortOptions { credit_bytes: Credit::Bytes(2_000) };
    let input = pair.a.input_with::<[u64; 8]>("small", port).unwrap();
    let output = pair.b.output::<[u64; 8]>("small", SOON).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..5_000).for_each(|number| output.send([number; 8]).unwrap()));
        for number in 0..5_000 {
            assert_eq!(input.recv_timeout(SOON).unwrap(), [number; 8]);
            assert!(input.depth() < 300);
        }
    });
}

fn names_are_waited_for(kind: Kind) {
    let pair = Pair::new(kind);
    let wait = Duration::from_millis(30);
    let error = pair.b.output::<u8>("never", wait).unwrap_err();
    assert!(matches!(&error, OpenError::Timeout { port, .. } if port == "never"), "{error}");
    assert!(error.to_string().contains("30ms"), "{error}");
    assert!(pair.a.output::<u8>("never", wait).is_err());
    let rounds = [(&pair.a, &pair.b), (&pair.b, &pair.a), (&pair.a, &pair.a), (&pair.b, &pair.b)];
    for (round, (owner, other)) in rounds.into_iter().enumerate() {
        let name = format!("later {round}");
        std::thread::scope(|scope| {
            let opened = scope.spawn(|| other.output::<u8>(&name, SOON).unwrap());
            let input = owner.input::<u8>(&name).unwrap();
            opened.join().unwrap().send(3).unwrap();
            assert_eq!(input.recv_timeout(SOON).unwrap(), 3);
        });
    }
}

fn names_are_unique_and_kinds_are_checked(kind: Kind) {
    let pair = Pair::new(kind);
    let (input, _output) = pair.port::<u8>("taken");
    for space in [&pair.a, &pair.b] {
        let error = space.input::<u16>("taken").unwrap_err().to_string();
        assert!(error.contains("\"taken\"") && error.contains("\"a\""), "{error}");
        let error = space.output::<u16>("taken", SOON).unwrap_err();
        assert!(matches!(error, OpenError::KindMismatch { .. }), "{error}");
        assert!(error.to_string().contains("u8") && error.to_string().contains("u16"));
    }
    drop(input);
    pair.b.input::<u16>("taken").unwrap();
}

fn ports_come_and_go(kind: Kind) {
    let pair = Pair::new(kind);
    for round in 0..50u32 {
        let (input, output) = pair.port::<u32>("again");
        output.send(round).unwrap();
        assert_eq!(input.recv_timeout(SOON).unwrap(), round);
        if round % 2 == 0 {
            drop(input);
            // The news may still be on its way.
            let error = (0..).find_map(|_| output.send(1).err()).unwrap();
            assert!(matches!(error, SendError::Closed { .. }), "{error}");
            assert_eq!(error.into_token(), Some(1));
        }
    }
    assert!(pair.a.counters().ports.is_empty() && pair.b.counters().ports.is_empty());
}

fn a_dropped_port_frees_a_waiting_sender(kind: Kind) {
    let pair = Pair::new(kind);
    let port = PortOptions { credit_bytes: Credit::Bytes(100) };
    let input = pair.a.input_with::<u64>("full", port).unwrap();
    let output = pair.b.output::<u64>("full", SOON).unwrap();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| (0..).find_map(|number| output.send(number).err()).unwrap());
        assert_eq!(input.recv_timeout(SOON).unwrap(), 0);
        drop(input);
        assert!(matches!(sender.join().unwrap(), SendError::Closed { .. }));
    });
}

/// All that was sent is received, then each port learns of the loss, once; senders too.
fn loss_reaches_all_ports_concerned(kind: Kind) {
    let Pair { a, b, simulation, .. } = Pair::new(kind);
    let inputs: Vec<InputPort<u32>> =
        (0..4).map(|i| a.input(&format!("in {i}")).unwrap()).collect();
    let outputs: Vec<_> = (0..3)
        .map(|i| b.output::<u32>(&format!("in {i}"), SOON).unwrap())
        .chain([b.output::<u32>("in 0", SOON).unwrap()])
        .collect();
    let in_b = b.input::<u32>("in b").unwrap();
    let to_b = a.output::<u32>("in b", SOON).unwrap();
    to_b.send(1).unwrap();
    assert_eq!(in_b.recv_timeout(SOON).unwrap(), 1);
    for output in &outputs[..3] {
        (0..1_000).for_each(|number| output.send(number).unwrap());
    }
    match &simulation {
        Some(simulation) => simulation.kill(&b),
        None => b.close(),
    }
    for input in &inputs[..3] {
        for number in 0..1_000 {
            assert_eq!(input.recv_timeout(SOON).unwrap(), number);
        }
        let event = input.recv_timeout(SOON).unwrap_err();
        assert!(matches!(&event, RecvError::Lost { peer, .. } if peer == "b"), "{event}");
        assert!(matches!(input.try_recv(), Err(RecvError::Empty { .. })), "one event");
        // The port goes on.
        input.output().send(5).unwrap();
        assert_eq!(input.recv_timeout(SOON).unwrap(), 5);
    }
    assert!(matches!(inputs[3].try_recv(), Err(RecvError::Empty { .. })), "not concerned");
    let error = to_b.send(9).unwrap_err();
    assert!(matches!(&error, SendError::Lost { peer, .. } if peer == "b"), "{error}");
    assert_eq!(error.into_token(), Some(9));
    assert!(matches!(outputs[0].send(1), Err(SendError::Closed { .. } | SendError::Lost { .. })));
    assert!(matches!(in_b.recv(), Err(RecvError::Closed { .. })));
    // Its names are free.
    a.input::<u8>("in b").unwrap();
}

/// A peer that has left a port has done with it: the port does not learn of the end of its link.
fn a_port_that_the_peer_has_left_is_not_concerned_by_its_loss(kind: Kind) {
    let Pair { a, b, simulation, .. } = Pair::new(kind);
    let (left, open) = (a.input::<u32>("left").unwrap(), a.input::<u32>("open").unwrap());
    let to_left = b.output::<u32>("left", SOON).unwrap();
    let _to_open = b.output::<u32>("open", SOON).unwrap();
    to_left.send(1).unwrap();
    drop(to_left);
    assert_eq!(left.recv_timeout(SOON).unwrap(), 1);
    // Messages of a link come in order: the port is left when this channel is opened.
    let _again = b.output::<u32>("open", SOON).unwrap();
    match &simulation {
        Some(simulation) => simulation.kill(&b),
        None => b.close(),
    }
    let event = open.recv_timeout(SOON).unwrap_err();
    assert!(matches!(&event, RecvError::Lost { peer, .. } if peer == "b"), "{event}");
    assert!(matches!(left.try_recv(), Err(RecvError::Empty { .. })));
}

fn the_loss_of_the_directory_is_reported(kind: Kind) {
    let Pair { a, b, simulation, .. } = Pair::new(kind);
    let input = b.input::<u8>("mine").unwrap();
    match &simulation {
        Some(simulation) => simulation.kill(&a),
        None => a.close(),
    }
    let error = (0..).find_map(|i| b.input::<u8>(&format!("another {i}")).err()).unwrap();
    assert!(error.to_string().contains("directory"), "{error}");
    let error = b.output::<u8>("elsewhere", SOON).unwrap_err();
    assert!(matches!(error, OpenError::DirectoryLost { .. }), "{error}");
    // What is at hand still works.
    b.output::<u8>("mine", SOON).unwrap().send(1).unwrap();
    assert_eq!(input.recv().unwrap(), 1);
}

fn what_cannot_be_decoded_is_skipped(kind: Kind) {
    /// A token that lies about its kind.
    struct Wrong(Vec<u8>);
    impl pario_net::Token for Wrong {
        fn kind() -> pario_net::TokenKind {
            <String as pario_net::Token>::kind()
        }
        fn encode(self, out: &mut pario_net::Outgoing<'_>) -> Result<(), pario_net::EncodeError> {
            if self.0.is_empty() {
                return Err(pario_net::EncodeError::Other("nothing in it".to_owned()));
            }
            out.head().extend_from_slice(&self.0);
            Ok(())
        }
        fn decode(_: pario_net::Incoming<'_>) -> Result<Self, pario_net::DecodeError> {
            Err(pario_net::DecodeError::Other("never".to_owned()))
        }
    }
    let pair = Pair::new(kind);
    let (input, output) = pair.port::<String>("text");
    let wrong = pair.b.output::<Wrong>("text", SOON).unwrap();
    output.send("one".to_owned()).unwrap();
    wrong.send(Wrong(vec![200, 1, 0xff])).unwrap();
    assert!(matches!(wrong.send(Wrong(vec![])), Err(SendError::Encode { .. })));
    output.send("two".to_owned()).unwrap();
    assert_eq!(input.recv_timeout(SOON).unwrap(), "one");
    let error = input.recv_timeout(SOON).unwrap_err();
    assert!(matches!(&error, RecvError::Undecodable { peer, .. } if peer == "b"), "{error}");
    assert_eq!(input.recv_timeout(SOON).unwrap(), "two");
}

fn counters_count(kind: Kind) {
    let pair = Pair::new(kind);
    let (input, output) = pair.port::<u32>("counted");
    for number in 0..100 {
        output.send(number).unwrap();
    }
    output.flush();
    for _ in 0..60 {
        input.recv_timeout(SOON).unwrap();
    }
    let began = Instant::now();
    while input.depth() < 40 && began.elapsed() < SOON {
        std::thread::yield_now();
    }
    let counters = pair.a.counters();
    let port = counters.ports.iter().find(|port| port.name == "counted").unwrap();
    assert_eq!((port.received_tokens, port.depth), (60, 40));
    let receiver = counters.links.iter().find(|link| link.peer == "b").unwrap();
    let sender = pair.counters();
    assert!(receiver.received_frames >= 100 && sender.sent_frames >= receiver.received_frames);
    assert!(receiver.received_bytes > 1_200 && receiver.reads > 0 && sender.writes > 0);
    assert_eq!(sender.queued_bytes, 0);
}

fn a_closed_space_writes_everything_first(kind: Kind) {
    let pair = Pair::new(kind);
    let port = PortOptions { credit_bytes: Credit::Unlimited };
    let input = pair.a.input_with::<(u32, Bulk)>("last", port).unwrap();
    let output = pair.b.output::<(u32, Bulk)>("last", SOON).unwrap();
    for number in 0..100 {
        output.send((number, pattern(u64::from(number), 100_000))).unwrap();
    }
    drop((output, pair.b));
    for number in 0..100 {
        let (got, bulk) = input.recv_timeout(SOON).unwrap();
        assert_eq!((got, bulk), (number, pattern(u64::from(number), 100_000)));
    }
}

fn tokens_too_large_are_refused(kind: Kind) {
    let mut options = Options::default();
    options.limits.inline_bytes = 1 << 20;
    options.limits.segment_bytes = 1 << 20;
    let pair = Pair::with(kind, options);
    let (input, output) = pair.port::<(Vec<u8>, Bulk)>("large");
    for token in [(vec![0; 1 << 20], Bulk::new()), (vec![], vec![0; (1 << 20) + 1].into())] {
        assert!(matches!(output.send(token), Err(SendError::TooLarge { .. })));
    }
    output.send((vec![1; 100_000], vec![2; 1 << 20].into())).unwrap();
    assert_eq!(input.recv_timeout(SOON).unwrap().0.len(), 100_000);
}

/// One test of the suite for each kind of link.
macro_rules! contract {
    ($($test:ident),* $(,)?) => {
        mod memory { $(#[test] fn $test() { super::$test(super::Kind::Memory); })* }
        mod unix { $(#[test] fn $test() { super::$test(super::Kind::Unix); })* }
        mod tcp { $(#[test] fn $test() { super::$test(super::Kind::Tcp); })* }
        mod simulated { $(#[test] fn $test() { super::$test(super::Kind::Simulated); })* }
    };
}

contract!(
    order_is_kept,
    random_tokens_arrive_once_in_order,
    many_senders_share_a_port,
    several_threads_receive_from_one_port,
    bulk_is_not_copied,
    tokens_leave_together,
    what_is_gathered_does_not_wait_long,
    credits_bound_what_waits,
    a_full_port_makes_the_sender_wait,
    names_are_waited_for,
    names_are_unique_and_kinds_are_checked,
    ports_come_and_go,
    a_dropped_port_frees_a_waiting_sender,
    loss_reaches_all_ports_concerned,
    a_port_that_the_peer_has_left_is_not_concerned_by_its_loss,
    the_loss_of_the_directory_is_reported,
    what_cannot_be_decoded_is_skipped,
    counters_count,
    a_closed_space_writes_everything_first,
    tokens_too_large_are_refused,
);
