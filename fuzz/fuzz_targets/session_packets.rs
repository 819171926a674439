//! Sends packets as a peer that has completed the handshake: frames on any channel with any head
//! and segments, control messages with any numbers, requests, and bytes that are no packets.
//! Afterwards the node serves a fresh client.
#![no_main]

mod peer;

use std::io::Read;
use std::net::Shutdown;
use std::sync::atomic::{AtomicU32, Ordering};

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use pario_proto::{Identity, PROTOCOL_VERSION, PeerKind, Request, RequestMessage};
use peer::{Control, ControlReply, FuzzedNode, Peer, PortInfo, REPLY_CHANNEL, packet};

/// Runs between two checks that the node serves a fresh client.
const CHECK_EVERY: u32 = 32;
/// Steps of one peer.
const STEPS: usize = 24;

static RUNS: AtomicU32 = AtomicU32::new(0);

fuzz_target!(|bytes: &[u8]| {
    let node = FuzzedNode::node("session");
    let mut peer = Peer::connect(node);
    let identity = Identity { uid: 0, gids: vec![0] };
    let hello = Request::Hello {
        version: PROTOCOL_VERSION,
        identity,
        client: "fuzz".to_owned(),
        peer: PeerKind::Client,
    };
    let channel = peer.channel;
    let message = RequestMessage { request: hello, data: Vec::<Vec<u8>>::new() };
    let body = postcard::to_allocvec(&message).expect("a hello can be encoded");
    peer.send(&packet(&[(channel, 0, &request_head(1, REPLY_CHANNEL, &body), &[])]));
    let mut choices = Unstructured::new(bytes);
    for _ in 0..STEPS {
        if choices.is_empty() || step(&mut peer, &mut choices).is_err() {
            break;
        }
    }
    let _ = peer.stream.shutdown(Shutdown::Write);
    // Replies, or the end of the link: the node does not keep a partial packet for ever.
    let _ = peer.stream.read_to_end(&mut Vec::new());
    if RUNS.fetch_add(1, Ordering::Relaxed) % CHECK_EVERY == 0 {
        node.check_serves();
    }
});

/// Makes one step.
fn step(peer: &mut Peer, choices: &mut Unstructured<'_>) -> Result<()> {
    let channel = match choices.int_in_range(0..=5_u8)? {
        0..=3 => peer.channel,
        4 => choices.int_in_range(0..=9)?,
        _ => choices.arbitrary()?,
    };
    match choices.int_in_range(0..=5_u8)? {
        0 => {
            let len = choices.int_in_range(0..=40)?;
            let bytes = choices.bytes(len.min(choices.len()))?.to_vec();
            peer.send(&bytes);
        }
        1 => {
            let message = control(channel, choices)?;
            peer.send_control(&message);
        }
        2 => {
            let count = choices.int_in_range(0..=4)?;
            let mut segments = Vec::new();
            for _ in 0..count {
                segments.push(choices.int_in_range(0..=20_000_usize)?);
            }
            let kind = choices.int_in_range(0..=2)?;
            let head = some_bytes(choices)?;
            if may_stop(&head) {
                return Ok(());
            }
            peer.send(&packet(&[(channel, kind, &head, &segments)]));
        }
        _ => {
            let body = some_bytes(choices)?;
            let reply_channel =
                if choices.ratio(7, 8)? { REPLY_CHANNEL } else { choices.arbitrary()? };
            let head = request_head(choices.arbitrary()?, reply_channel, &body);
            if may_stop(&head) {
                return Ok(());
            }
            let segments = vec![choices.int_in_range(0..=9_000)?; choices.int_in_range(0..=2)?];
            peer.send(&packet(&[(channel, 0, &head, &segments)]));
        }
    }
    Ok(())
}

/// Whether a head may request that the node stops: this user is an administrator, who may.
fn may_stop(head: &[u8]) -> bool {
    let stop = postcard::to_allocvec(&Request::Stop).expect("it can be encoded");
    // A number has several encodings.
    let variant = |bytes: &[u8]| postcard::from_bytes::<u32>(bytes).ok();
    let body = head.get(request_head(0, 0, &[]).len()..);
    body.is_some_and(|body| variant(body) == variant(&stop))
}

fn some_bytes(choices: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let len = choices.int_in_range(0..=60)?;
    Ok(choices.bytes(len.min(choices.len()))?.to_vec())
}

fn request_head(number: u64, reply_channel: u32, body: &[u8]) -> Vec<u8> {
    [&number.to_le_bytes()[..], &reply_channel.to_le_bytes(), body].concat()
}

fn control(channel: u32, choices: &mut Unstructured<'_>) -> Result<Control> {
    let request = choices.int_in_range(0..=9)?;
    let number = choices.int_in_range(0..=9)?;
    let fingerprint = choices.arbitrary()?;
    let name: String = choices.arbitrary()?;
    let port = PortInfo { name: name.clone(), number, kind: name.clone(), fingerprint };
    Ok(match choices.int_in_range(0..=10_u8)? {
        0 => Control::Join { request, name, address: pario_net::Address::default() },
        1 => Control::Announce { request, port },
        2 => Control::Withdraw { port: name },
        3 => Control::Find { request, port: name },
        4 => Control::Forget { request },
        5 => Control::Open { request, number, fingerprint },
        6 => Control::Leave { channel },
        7 => Control::Gone { channel },
        8 => Control::Credit { channel, bytes: choices.arbitrary()? },
        9 => {
            let reply = match number % 4 {
                0 => ControlReply::Done,
                1 => ControlReply::NoPort,
                2 => ControlReply::Opened { channel, credit: choices.arbitrary()? },
                _ => ControlReply::Taken { owner: name },
            };
            Control::Reply { request, reply }
        }
        _ => Control::Ping,
    })
}
