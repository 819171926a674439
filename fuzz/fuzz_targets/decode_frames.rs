//! Decodes any bytes as the input of a link: an error or packets, the same however the bytes are
//! cut, and never more memory than the limits allow.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pario_net::wire::WireLimits;
use pario_net::{Assembler, Packet};

const LIMITS: WireLimits =
    WireLimits { inline_bytes: 1 << 16, segment_bytes: 1 << 16, bulk_bytes: 1 << 17, segments: 16 };

fn content(packets: &[Packet]) -> Vec<(&[u8], usize, usize)> {
    packets.iter().map(|p| (&p.inline[..], p.groups.len(), p.bulk.len())).collect()
}

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, bytes) = input;
    let whole = Assembler::new(LIMITS).feed(bytes);
    let mut assembler = Assembler::new(LIMITS);
    let mut pieces = Ok(Vec::new());
    for piece in bytes.chunks(usize::from(cut) + 1) {
        match (&mut pieces, assembler.feed(piece)) {
            (Ok(packets), Ok(more)) => packets.extend(more),
            (_, Err(error)) => {
                pieces = Err(error);
                break;
            }
            (Err(_), _) => break,
        }
    }
    match (&whole, &pieces) {
        (Ok(whole), Ok(pieces)) => assert_eq!(content(whole), content(pieces)),
        (whole, pieces) => assert_eq!(whole.as_ref().err(), pieces.as_ref().err()),
    }
    for packet in whole.iter().flatten() {
        let mut at = 0;
        for group in &packet.groups {
            assert!(group.start == at && group.end > at && group.end <= packet.inline.len());
            at = group.end;
        }
        let bulk: usize = packet.groups.iter().map(|group| group.bulk_count).sum();
        assert_eq!(bulk, packet.bulk.len());
    }
});
