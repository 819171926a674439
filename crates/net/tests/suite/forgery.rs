//! Peers that forge: replies to requests of another peer, channels to ports that are not theirs,
//! credit that was never used. The space cuts each off or gives it nothing, and honest peers notice
//! nothing.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::protocols::Test;
use crate::stranger::peer::{Answer, Control, PortInfo, RawPeer, packet};
use crate::stranger::{SOON, builder, host, knock, refused};
use pario_net::{
    Address, InputError, OpenError, PortOptions, RecvError, RpcClient, RpcServer, Space, SpaceId,
};

/// The fingerprint of a type, as docs/wire-format.md says.
fn fingerprint(name: &str) -> u64 {
    u64::from_le_bytes(*blake3::hash(name.as_bytes()).as_bytes().first_chunk().unwrap())
}

/// A host that serves numbers, and a client of it that listens, as few clients do.
struct Conversation {
    host: Space,
    port: RpcServer<Test<u64, u64>>,
    client: Space,
    rpc_client: RpcClient<Test<u64, u64>>,
}

impl Conversation {
    fn new() -> Self {
        let host = host();
        let port = RpcServer::new(&host, "numbers", PortOptions::default()).unwrap();
        let client = builder("client").join(&host.address()).build().unwrap();
        let rpc_client = RpcClient::open(&client, "numbers", SOON).unwrap();
        Self { host, port, client, rpc_client }
    }

    fn goes_on(&self) {
        for number in 0..10 {
            let pending = self.rpc_client.start(number).unwrap();
            let asked = self.port.recv_timeout(SOON).unwrap();
            assert_eq!(asked.request, number);
            asked.responder.send_now(number + 1);
            assert_eq!(pending.wait().unwrap(), number + 1);
        }
    }
}

/// Replies to the client come in at a port of its space; no peer opens it by number.
#[test]
fn a_port_for_answers_cannot_be_opened_by_number() {
    let conversation = Conversation::new();
    let mut forger = RawPeer::come_in(knock(&conversation.client));
    let own = conversation.client.input::<u64>("of all").unwrap();
    let mut opened = 0;
    for number in 0..64 {
        for kind in ["reply of test/1", "u64"] {
            match forger.open_number(number, fingerprint(kind)) {
                Answer::NoPort => {}
                Answer::Opened { .. } if kind == "u64" => opened += 1,
                Answer::OtherKind { kind } if kind == "u64" => {}
                other => panic!("port {number}, {kind}: {other:?}"),
            }
        }
    }
    assert_eq!(opened, 1, "a port that is announced can be opened");
    drop(own);
    conversation.goes_on();
}

/// Nor by its name, which is easy to guess, from the same process or another one.
#[test]
fn a_port_for_answers_cannot_be_found_by_name() {
    let conversation = Conversation::new();
    for number in 0..8 {
        let name = format!("answers {number} of numbers");
        let soon = Duration::from_millis(1);
        for space in [&conversation.client, &conversation.host] {
            let error = space.output::<u64>(&name, soon).unwrap_err();
            assert!(matches!(error, OpenError::Timeout { .. }), "{error}");
        }
    }
    conversation.goes_on();
}

/// Replies that come over another link than the request left on do not count.
#[test]
fn an_answer_over_another_link_ends_that_link() {
    let conversation = Conversation::new();
    // The client asks the directory for a port that is not there yet.
    let client = conversation.client.clone();
    let finding = std::thread::spawn(move || client.output::<u64>("later", SOON));
    while conversation.host.counters().links.iter().all(|link| link.received_frames < 4) {
        std::thread::yield_now();
    }
    for request in 1..12 {
        let mut forger = RawPeer::come_in(knock(&conversation.client));
        let port = PortInfo { name: "later".into(), number: 1, kind: "u64".into(), fingerprint: 1 };
        let answer = Answer::Found {
            port,
            space: SpaceId::random(),
            space_name: "forger".into(),
            address: Address::tcp("127.0.0.1:1".parse().unwrap()),
        };
        forger.tell(&Control::Answer { request, answer });
        if request > 4 {
            // Whatever number the request has: one that was never sent ends the link as well.
            forger.sees_the_end();
        }
    }
    refused(&conversation.client, "which another peer was asked");
    refused(&conversation.client, "which was never sent");
    let later = conversation.host.input::<u64>("later").unwrap();
    let output = finding.join().unwrap().unwrap();
    output.send(7).unwrap();
    output.flush();
    assert_eq!(later.recv_timeout(SOON).unwrap(), 7);
    conversation.goes_on();
}

/// The head of a request for a number.
fn question(number: u64, answer_channel: u32, asked: u64) -> Vec<u8> {
    let mut head = number.to_le_bytes().to_vec();
    head.extend_from_slice(&answer_channel.to_le_bytes());
    head.extend_from_slice(&postcard::to_allocvec(&asked).unwrap());
    head
}

fn ask(peer: &mut RawPeer<TcpStream>, channel: u32, head: &[u8]) {
    peer.stream.write_all(&packet(channel, &[head])).unwrap();
}

/// Credit for a channel without a limit would overflow it, and the replying thread would wait for
/// ever.
#[test]
fn credit_that_was_not_used_ends_the_link() {
    let conversation = Conversation::new();
    for (bytes, answers) in [(1, 1), (u64::MAX, 1), (1 << 62, 0)] {
        let mut peer = RawPeer::come_in(knock(&conversation.host));
        let (channel, _) = peer.open("numbers");
        let answer_channel = 9;
        ask(&mut peer, channel, &question(1, answer_channel, 5));
        let asked = conversation.port.recv_timeout(SOON).unwrap();
        if answers > 0 {
            asked.responder.send_now(6);
            let head = peer.next_on(answer_channel);
            assert_eq!(head, [&1_u64.to_le_bytes()[..], &[0, 6]].concat());
        } else {
            drop(asked);
        }
        peer.tell(&Control::Credit { channel: answer_channel, bytes });
        peer.sees_the_end();
        let lost = conversation.port.recv_timeout(SOON).unwrap_err();
        assert!(matches!(lost, RecvError::Lost { .. }), "{lost}");
    }
    refused(&conversation.host, "more credit than was used");
    conversation.goes_on();
}

/// A channel that the peer itself has left is closed: what it sends there afterwards is a breach.
#[test]
fn a_channel_that_was_left_cannot_be_used() {
    let conversation = Conversation::new();
    let mut peer = RawPeer::come_in(knock(&conversation.host));
    let (channel, _) = peer.open("numbers");
    peer.tell(&Control::Leave { channel });
    ask(&mut peer, channel, &question(1, 9, 5));
    peer.sees_the_end();
    refused(&conversation.host, "which is not open");
    let lost = conversation.port.recv_timeout(SOON).unwrap_err();
    assert!(matches!(lost, RecvError::Lost { .. }), "{lost}");
    conversation.goes_on();
}

/// The id that a space announces is public. A peer that announces it too gets nothing that is meant for
/// the other one, and takes nothing from it.
#[test]
fn an_announced_id_gives_no_rights() {
    let conversation = Conversation::new();
    let numbers = conversation.client.input::<u64>("numbers of the client").unwrap();
    // With the id of the client: its ports stay its own, and its name is not free.
    let mut squatter = RawPeer::come_in_as(knock(&conversation.host), conversation.client.id());
    squatter.tell(&Control::Withdraw { port: "numbers of the client".into() });
    let found = squatter.find("numbers of the client");
    assert_eq!(found.name, "numbers of the client", "it is still there");
    let (channel, _) = squatter.open("numbers");
    ask(&mut squatter, channel, &question(1, 9, 5));
    let theirs = conversation.port.recv_timeout(SOON).unwrap().sender.space;
    let _pending = conversation.rpc_client.start(3).unwrap();
    let own = conversation.port.recv_timeout(SOON).unwrap().sender.space;
    assert_ne!(theirs, own, "the host tells them apart");
    drop(squatter);
    let lost = conversation.port.recv_timeout(SOON).unwrap_err();
    assert!(matches!(lost, RecvError::Lost { space, .. } if space == theirs), "{lost}");
    let output = conversation.host.output::<u64>("numbers of the client", SOON).unwrap();
    output.send(1).unwrap();
    assert_eq!(numbers.recv_timeout(SOON).unwrap(), 1);
    conversation.goes_on();
}

/// A link can open a bounded number of channels, announce and wait for a bounded number of names.
#[test]
fn channels_and_names_are_bounded_per_link() {
    let options = pario_net::Options {
        routes_per_link: 3,
        names_per_link: 3,
        ..pario_net::Options::default()
    };
    let host = builder("host").options(options).host().build().unwrap();
    let _port = host.input::<u64>("port").unwrap();
    let mut peer = RawPeer::come_in(knock(&host));
    let PortInfo { number, fingerprint, .. } = peer.find("port");
    for _ in 0..3 {
        assert!(matches!(peer.open_number(number, fingerprint), Answer::Opened { .. }));
    }
    peer.tell(&Control::Leave { channel: 2 });
    assert!(matches!(peer.open_number(number, fingerprint), Answer::Opened { .. }));
    peer.tell(&Control::Open { request: 99, number, fingerprint });
    peer.sees_the_end();
    refused(&host, "it opened more than 3 channels");

    let mut peer = RawPeer::come_in(knock(&host));
    for request in 0..4 {
        peer.tell(&Control::Find { request, port: format!("missing {request}") });
    }
    peer.sees_the_end();
    refused(&host, "it waits for more than 3 ports");

    let guest = builder("guest").join(&host.address()).build().unwrap();
    let _ports: Vec<_> = (0..3).map(|n| guest.input::<u64>(&format!("p{n}")).unwrap()).collect();
    let error = guest.input::<u64>("one more").unwrap_err();
    assert!(matches!(error, InputError::DirectoryLost { .. }), "{error}");
    refused(&host, "it announced more than 3 ports");
}
