//! The wire format: golden bytes, and the assembler against bytes cut anywhere.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use pario_net::wire::{
    LEAD_BYTES, PACKET_HEADER_BYTES, PacketHeader, WireError, WireLimits, begin_frame, end_frame,
};
use pario_net::{Assembler, Packet};
use proptest::prelude::*;

/// Channel, head and segments.
type Frame = (u32, Vec<u8>, Vec<Vec<u8>>);

/// A packet as a sender makes it.
fn packet(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = vec![0; PACKET_HEADER_BYTES];
    let mut bulk = Vec::new();
    for (channel, head, segments) in frames {
        let at = begin_frame(&mut bytes);
        bytes.extend_from_slice(head);
        let slices = segments.iter().map(Vec::as_slice);
        end_frame(&mut bytes, at, *channel, slices, &WireLimits::default()).unwrap();
        segments.iter().filter(|s| s.len() >= 4096).for_each(|s| bulk.extend_from_slice(s));
    }
    if !bulk.is_empty() && bytes.len() < LEAD_BYTES {
        bytes.resize(LEAD_BYTES, 0);
    }
    let header = PacketHeader {
        inline_len: bytes.len() - PACKET_HEADER_BYTES,
        frame_count: u32::try_from(frames.len()).unwrap(),
        bulk_len: bulk.len() as u64,
    };
    header.write(&mut bytes[..PACKET_HEADER_BYTES]);
    bytes.extend_from_slice(&bulk);
    bytes
}

#[test]
fn golden_packets() {
    let plain = packet(&[(3, b"ab".to_vec(), vec![]), (4, vec![], vec![b"xyz".to_vec()])]);
    #[rustfmt::skip]
    let expected = [
        33, 0, 0, 0,  2, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
        3, 0, 0, 0,  2, 0, 0, 0,  0, 0,  0,  0,  b'a', b'b',
        4, 0, 0, 0,  0, 0, 0, 0,  1, 0,  0,  0,  3, 0, 0, 0,  b'x', b'y', b'z',
    ];
    assert_eq!(plain, expected);

    let bulky = packet(&[(258, b"h".to_vec(), vec![vec![7; 5000], vec![8; 2]])]);
    #[rustfmt::skip]
    let expected = [
        240, 1, 0, 0,  1, 0, 0, 0,  136, 19, 0, 0, 0, 0, 0, 0,
        2, 1, 0, 0,  1, 0, 0, 0,  2, 0,  0,  0,  b'h',  136, 19, 0, 0,  2, 0, 0, 0,  8, 8,
    ];
    assert_eq!(bulky[..expected.len()], expected);
    assert!(bulky[expected.len()..512].iter().all(|&byte| byte == 0), "padding");
    assert!(bulky[512..].iter().all(|&byte| byte == 7) && bulky.len() == 5512);
}

/// The first bytes of a space, seen by a peer that only listens.
#[test]
fn golden_hello() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = pario_net::Address::tcp(listener.local_addr().unwrap());
    let caller = std::thread::spawn(move || {
        pario_net::Space::builder("me").join(&address).build().unwrap_err().to_string()
    });
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut hello = [0; 62];
    stream.read_exact(&mut hello).unwrap();
    assert_eq!(hello[..12], *b"PARIONET\x02\x00\x00\x02");
    assert!(hello[12..60].iter().any(|&byte| byte != 0), "id and nonce");
    assert_eq!(hello[60..], *b"me");
    stream.write_all(b"\x01\x04\x00nope").unwrap();
    let error = caller.join().unwrap();
    assert!(error.contains("refused: nope"), "{error}");
}

/// Heads and segments of all frames.
fn content(packets: &[Packet]) -> Vec<(u32, Vec<u8>)> {
    let mut all = Vec::new();
    for packet in packets {
        for group in &packet.groups {
            all.push((group.channel, packet.inline[group.start..group.end].to_vec()));
        }
        all.extend(packet.bulk.iter().map(|bulk| (u32::MAX, bulk.to_vec())));
    }
    all
}

fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let segment = prop_oneof![0usize..100, 4090usize..4100, 5_000usize..9_000]
        .prop_map(|len| vec![u8::try_from(len % 251).unwrap(); len]);
    let head = prop::collection::vec(any::<u8>(), 0..700);
    prop::collection::vec((1u32..4, head, prop::collection::vec(segment, 0..3)), 0..6)
}

proptest! {
    #[test]
    fn packets_are_the_same_however_they_are_cut(
        packets in prop::collection::vec(frames(), 1..6),
        cuts in prop::collection::vec(1usize..3_000, 1..40),
    ) {
        let bytes: Vec<u8> = packets.iter().flat_map(|frames| packet(frames)).collect();
        let whole = Assembler::new(WireLimits::default()).feed(&bytes).unwrap();
        prop_assert_eq!(whole.len(), packets.len());
        let mut assembler = Assembler::new(WireLimits::default());
        let (mut rest, mut pieces) = (bytes.as_slice(), Vec::new());
        for cut in cuts.iter().cycle() {
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            pieces.extend(assembler.feed(piece).unwrap());
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(content(&pieces), content(&whole));
    }

    #[test]
    fn changed_bytes_are_an_error_or_a_packet(
        frames in frames(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = packet(&frames);
        for (at, byte) in changes {
            let at = at.index(bytes.len().min(200));
            bytes[at] = byte;
        }
        let limits = WireLimits { inline_bytes: 1 << 20, segment_bytes: 1 << 20, bulk_bytes: 1 << 20, segments: 8 };
        let _ = Assembler::new(limits).feed(&bytes);
    }
}

#[test]
fn limits_hold() {
    let limits =
        WireLimits { inline_bytes: 100, segment_bytes: 5_000, bulk_bytes: 6_000, segments: 2 };
    let too_long = |bytes: Vec<u8>| {
        let error = Assembler::new(limits).feed(&bytes).unwrap_err();
        matches!(error, WireError::TooLong { .. })
    };
    assert!(too_long(packet(&[(1, vec![0; 200], vec![])])));
    assert!(too_long(packet(&[(1, vec![], vec![vec![0; 7_000]])])));
    let limits = WireLimits { inline_bytes: 1_000, ..limits };
    let error =
        |frames: &[Frame]| Assembler::new(limits).feed(&packet(frames)).unwrap_err().to_string();
    assert!(error(&[(1, vec![], vec![vec![0; 5_001]])]).starts_with("a segment of 5001"));
    assert!(error(&[(1, vec![], vec![vec![0; 1]; 3])]).starts_with("a list of segments of 3"));
}
