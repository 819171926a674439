//! Peers that know the protocol and send more than they may: the space cuts them off and records
//! the reason, and all others go on.

use std::io::Write;
use std::net::TcpStream;

use crate::stranger::peer::{RawPeer, packet};
use crate::stranger::{SOON, Talk, builder, host, knock};
use pario_net::{Credit, InputPort, PortOptions, RecvError, Refusal, Space};

/// What may be outstanding at the port of these tests.
const CREDIT: i64 = 1_000;
/// A token that counts for a hundred bytes: with its header and the length of its contents.
const TOKEN: [u8; 87] = [7; 87];
/// Such tokens that may be under way: each is sent while less than the credit is outstanding.
const ALLOWED: usize = 10;
/// The name that the stranger gives itself.
const PEER: &str = "x";

/// A peer that was let in and has a channel to the port, and that counts no credit.
struct Spendthrift {
    peer: RawPeer<TcpStream>,
    channel: u32,
}

impl Spendthrift {
    fn new(host: &Space) -> Self {
        let mut peer = RawPeer::come_in(knock(host));
        let (channel, credit) = peer.open("narrow");
        assert_eq!(credit, CREDIT);
        Self { peer, channel }
    }

    /// Opens the port. When the reply is there, all bytes sent before were handled.
    fn find(&mut self) {
        self.peer.find("narrow");
    }

    /// Sends tokens in one packet. A peer that is cut off in between has sent enough.
    fn send(&mut self, token: &[u8], count: usize) {
        let head = postcard::to_allocvec(token).unwrap();
        let heads = vec![head.as_slice(); count];
        let _ = self.peer.stream.write_all(&packet(self.channel, &heads));
    }

    fn sees_the_end(self) {
        self.peer.sees_the_end();
    }
}

/// A host with a port of little credit.
fn narrow_host() -> (Space, InputPort<Vec<u8>>) {
    let host = host();
    let credit_bytes = Credit::Bytes(usize::try_from(CREDIT).unwrap());
    let input = host.input_with("narrow", PortOptions { credit_bytes }).unwrap();
    (host, input)
}

/// Lets a peer exceed its credit. The host delivers `admitted` tokens of it at most, and cuts it off
/// for `reason`; the other peers notice nothing.
fn cut_off(exceed: impl FnOnce(&mut Spendthrift), admitted: usize, reason: &str) {
    let (host, input) = narrow_host();
    let talk = Talk::through(&host);
    let honest = builder("honest").join(&host.address()).build().unwrap();
    let output = honest.output::<Vec<u8>>("narrow", SOON).unwrap();
    let mut peer = Spendthrift::new(&host);
    exceed(&mut peer);
    // Nothing is received before, since that would give credit back.
    peer.sees_the_end();

    // The event comes after the rightly sent tokens, and its reason is recorded before it.
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

    // Senders to the same port and senders to other ports notice nothing.
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
            peer.send(&TOKEN, 1);
        }
        // So much is right, and the link works.
        peer.find();
        peer.send(&TOKEN, 1);
    };
    cut_off(sin, ALLOWED, "it sent more to \"narrow\" than it had credit for");
}

#[test]
fn too_many_tokens_in_one_packet_are_not_delivered() {
    let sin = |peer: &mut Spendthrift| peer.send(&TOKEN, ALLOWED + 1);
    cut_off(sin, 0, "it sent more to \"narrow\" than it had credit for");
}

/// Credit that was given back may be spent again, and no more than that.
#[test]
fn credit_comes_back_when_tokens_are_received() {
    let (host, input) = narrow_host();
    let mut peer = Spendthrift::new(&host);
    for _ in 0..50 {
        peer.send(&TOKEN, ALLOWED);
        for _ in 0..ALLOWED {
            assert_eq!(input.recv_timeout(SOON).unwrap(), TOKEN);
        }
    }
    peer.find();
    assert_eq!(host.refusals(), []);
    peer.send(&TOKEN, ALLOWED);
    peer.find();
    peer.send(&TOKEN, 1);
    peer.sees_the_end();
    assert!(host.refusals()[0].reason.contains("than it had credit for"));
}
