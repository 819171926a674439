//! Peers that know the protocol and send more than they may: cut off, with a reason that is kept,
//! while everybody else goes on.

mod stranger;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use pario_net::wire::{
    CONTROL_CHANNEL, Frame, FrameKind, Limits, PACKET_HEADER_BYTES, PacketHeader, begin_frame,
    end_frame,
};
use pario_net::{
    Address, Assembler, Credit, InputPort, PortOptions, RecvError, Refusal, Space, SpaceId,
};
use serde::{Deserialize, Serialize};
use stranger::{SOON, Talk, builder, come_in, host, knock};

/// What may be outstanding at the port of these tests.
const CREDIT: i64 = 1_000;
/// A token that counts for a hundred bytes: with its header and the length of its contents.
const TOKEN: [u8; 87] = [7; 87];
/// Such tokens that may be under way: each is sent while less than the credit is outstanding.
const ALLOWED: usize = 10;
/// The name that the stranger gives itself.
const PEER: &str = "x";

/// The control messages as docs/wire-format.md lists them: their order is their number.
#[derive(Debug, Serialize, Deserialize)]
enum Control {
    Join { request: u64, name: String, address: Address },
    Announce { request: u64, port: PortInfo },
    Withdraw { port: String },
    Find { request: u64, port: String },
    Forget { request: u64 },
    Open { request: u64, number: u32, fingerprint: u64 },
    Leave { channel: u32 },
    Gone { channel: u32 },
    Credit { channel: u32, bytes: u64, urgent: u32 },
    Answer { request: u64, answer: Answer },
    Ping,
}

#[derive(Debug, Serialize, Deserialize)]
struct PortInfo {
    name: String,
    number: u32,
    kind: String,
    fingerprint: u64,
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Done,
    Taken { owner: String },
    Found { port: PortInfo, space: SpaceId, space_name: String, address: Address },
    Opened { channel: u32, credit: i64 },
}

/// A peer that was let in and has a channel to the port, and that counts no credit.
struct Spendthrift {
    stream: TcpStream,
    assembler: Assembler,
    channel: u32,
}

impl Spendthrift {
    fn new(host: &Space) -> Self {
        let mut stream = knock(host);
        come_in(&mut stream);
        let mut peer = Self { stream, assembler: Assembler::new(Limits::default()), channel: 0 };
        let PortInfo { number, fingerprint, .. } = peer.find();
        peer.tell(&Control::Open { request: 2, number, fingerprint });
        match peer.answer(2) {
            Answer::Opened { channel, credit: CREDIT } => peer.channel = channel,
            other => panic!("{other:?}"),
        }
        peer
    }

    /// Asks for the port. When the answer is there, all that was sent before has been looked at.
    fn find(&mut self) -> PortInfo {
        self.tell(&Control::Find { request: 1, port: "narrow".to_owned() });
        match self.answer(1) {
            Answer::Found { port, .. } => port,
            other => panic!("{other:?}"),
        }
    }

    fn tell(&mut self, message: &Control) {
        let head = postcard::to_allocvec(message).unwrap();
        self.stream.write_all(&packet(CONTROL_CHANNEL, FrameKind::Token, &[&head])).unwrap();
    }

    /// Reads on until a request is answered.
    fn answer(&mut self, wanted: u64) -> Answer {
        loop {
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).unwrap();
            assert_ne!(count, 0, "cut off before request {wanted} was answered");
            for packet in self.assembler.feed(&bytes[..count]).unwrap() {
                let mut at = 0;
                for _ in 0..packet.frame_count {
                    let frame = Frame::read(&packet.inline, at, &Limits::default()).unwrap();
                    let head = &packet.inline[frame.head_start..frame.head_end];
                    if let Control::Answer { request, answer } = postcard::from_bytes(head).unwrap()
                        && request == wanted
                    {
                        return answer;
                    }
                    at = frame.end;
                }
            }
        }
    }

    /// Sends tokens in one packet. Who is cut off meanwhile has sent enough.
    fn send(&mut self, kind: FrameKind, token: &[u8], count: usize) {
        let head = postcard::to_allocvec(token).unwrap();
        let _ = self.stream.write_all(&packet(self.channel, kind, &vec![head.as_slice(); count]));
    }

    /// Reads until the other side ends the connection; a host that does not would ping for ever.
    fn sees_the_end(mut self) {
        let began = Instant::now();
        // An end is an end whether or not something was still unread.
        while self.stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
            assert!(began.elapsed() < SOON, "the peer was not cut off");
        }
        assert!(began.elapsed() < SOON, "the peer was not cut off");
    }
}

/// A packet of frames on one channel.
fn packet(channel: u32, kind: FrameKind, heads: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0; PACKET_HEADER_BYTES];
    for head in heads {
        let at = begin_frame(&mut bytes);
        bytes.extend_from_slice(head);
        let none = std::iter::empty::<&[u8]>();
        end_frame(&mut bytes, at, channel, kind, none, &Limits::default()).unwrap();
    }
    let header = PacketHeader {
        inline_len: bytes.len() - PACKET_HEADER_BYTES,
        frame_count: u32::try_from(heads.len()).unwrap(),
        bulk_len: 0,
    };
    header.write(&mut bytes[..PACKET_HEADER_BYTES]);
    bytes
}

/// A host with a port of little credit.
fn narrow_host() -> (Space, InputPort<Vec<u8>>) {
    let host = host();
    let credit_bytes = Credit::Bytes(usize::try_from(CREDIT).unwrap());
    let input = host.input_with("narrow", PortOptions { credit_bytes }).unwrap();
    (host, input)
}

/// Lets a peer sin, and sees what becomes of it and of the others: it may have `admitted` tokens
/// delivered before, and is cut off for `reason`.
fn cut_off(sin: impl FnOnce(&mut Spendthrift), admitted: usize, reason: &str) {
    let (host, input) = narrow_host();
    let talk = Talk::through(&host);
    let honest = builder("honest").join(&host.address()).build().unwrap();
    let output = honest.output::<Vec<u8>>("narrow", SOON).unwrap();
    let mut peer = Spendthrift::new(&host);
    sin(&mut peer);
    // Nothing is received before, since that would give credit back.
    peer.sees_the_end();

    // The event comes behind what was sent rightly, and whoever sees it finds the reason.
    for _ in 0..admitted {
        assert_eq!(input.recv_timeout(SOON).unwrap(), TOKEN);
    }
    let lost = input.recv_timeout(SOON).unwrap_err();
    assert!(matches!(&lost, RecvError::Lost { peer, .. } if peer == PEER), "{lost}");
    let refusals = host.refusals();
    let [Refusal { peer, reason: kept, .. }] = &refusals[..] else { panic!("{refusals:?}") };
    assert_eq!((peer.as_str(), kept.as_str()), (PEER, reason));
    let links = host.counters().links;
    assert!(links.iter().all(|link| link.is_alive != (link.peer == PEER)), "{links:?}");

    // Those who send to the same port and those who send elsewhere notice nothing.
    for number in 0..100 {
        output.send(vec![number; 50]).unwrap();
        assert_eq!(input.recv_timeout(SOON).unwrap(), [number; 50]);
    }
    talk.goes_on();
}

#[test]
fn one_token_beyond_the_credit_ends_the_link() {
    let sin = |peer: &mut Spendthrift| {
        for _ in 0..ALLOWED {
            peer.send(FrameKind::Token, &TOKEN, 1);
        }
        // So much is right, and the link works.
        peer.find();
        peer.send(FrameKind::Token, &TOKEN, 1);
    };
    cut_off(sin, ALLOWED, "it sent more to \"narrow\" than it had credit for");
}

#[test]
fn too_many_tokens_in_one_packet_are_not_delivered() {
    let sin = |peer: &mut Spendthrift| peer.send(FrameKind::Token, &TOKEN, ALLOWED + 1);
    cut_off(sin, 0, "it sent more to \"narrow\" than it had credit for");
}

#[test]
fn urgent_tokens_have_a_bound_of_their_own() {
    let reason = "it sent too many or too large urgent tokens to \"narrow\"";
    let sin = |peer: &mut Spendthrift| {
        peer.send(FrameKind::Urgent, &TOKEN, 1024);
        peer.find();
        peer.send(FrameKind::Urgent, &TOKEN, 1);
    };
    cut_off(sin, 1024, reason);
    cut_off(|peer| peer.send(FrameKind::Urgent, &[7; 200_000], 1), 0, reason);
}

/// Credit that was given back may be spent again, and no more than that.
#[test]
fn credit_comes_back_when_tokens_are_received() {
    let (host, input) = narrow_host();
    let mut peer = Spendthrift::new(&host);
    for _ in 0..50 {
        peer.send(FrameKind::Token, &TOKEN, ALLOWED);
        for _ in 0..ALLOWED {
            assert_eq!(input.recv_timeout(SOON).unwrap(), TOKEN);
        }
    }
    peer.find();
    assert_eq!(host.refusals(), []);
    peer.send(FrameKind::Token, &TOKEN, ALLOWED);
    peer.find();
    peer.send(FrameKind::Token, &TOKEN, 1);
    peer.sees_the_end();
    assert!(host.refusals()[0].reason.contains("than it had credit for"));
}
