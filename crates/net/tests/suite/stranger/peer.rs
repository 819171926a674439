//! A peer that speaks the protocol byte by byte, and keeps to none of its rules.

use std::io::{Read, Write};
use std::time::Instant;

use pario_net::wire::{
    CONTROL_CHANNEL, Frame, PACKET_HEADER_BYTES, PacketHeader, WireLimits, begin_frame, end_frame,
};
use pario_net::{Address, Assembler, SpaceId};
use serde::{Deserialize, Serialize};

use super::{HELLO, SOON, come_in, come_in_with};

/// The control messages as docs/wire-format.md lists them: their order is their number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Control {
    Join { request: u64, name: String, address: Address },
    Announce { request: u64, port: PortInfo },
    Withdraw { port: String },
    Find { request: u64, port: String },
    Forget { request: u64 },
    Open { request: u64, number: u32, fingerprint: u64 },
    Leave { channel: u32 },
    Gone { channel: u32 },
    Credit { channel: u32, bytes: u64 },
    Answer { request: u64, answer: Answer },
    Ping,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PortInfo {
    pub name: String,
    pub number: u32,
    pub kind: String,
    pub fingerprint: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    Done,
    Taken { owner: String },
    Found { port: PortInfo, space: SpaceId, space_name: String, address: Address },
    Opened { channel: u32, credit: i64 },
    NoPort,
    OtherKind { kind: String },
}

/// A peer that was let in. Its stream must have a read timeout.
pub struct RawPeer<S> {
    pub stream: S,
    assembler: Assembler,
    requests: u64,
    /// What came and was not asked for: channel and head of each frame.
    came: Vec<(u32, Vec<u8>)>,
}

impl<S: Read + Write> RawPeer<S> {
    /// Finishes the handshake as a space without a key.
    pub fn come_in(mut stream: S) -> Self {
        come_in(&mut stream);
        let assembler = Assembler::new(WireLimits::default());
        Self { stream, assembler, requests: 0, came: Vec::new() }
    }

    /// The same, with an id of its choice.
    pub fn come_in_as(mut stream: S, id: SpaceId) -> Self {
        let mut hello = HELLO;
        hello[12..28].copy_from_slice(id.as_bytes());
        come_in_with(&mut stream, &hello);
        let assembler = Assembler::new(WireLimits::default());
        Self { stream, assembler, requests: 0, came: Vec::new() }
    }

    pub fn tell(&mut self, message: &Control) {
        let head = postcard::to_allocvec(message).unwrap();
        self.stream.write_all(&packet(CONTROL_CHANNEL, &[&head])).unwrap();
    }

    /// Finds a port. When the reply is there, all bytes sent before were handled.
    pub fn find(&mut self, port: &str) -> PortInfo {
        self.requests += 1;
        let request = self.requests;
        self.tell(&Control::Find { request, port: port.to_owned() });
        match self.answer(request) {
            Answer::Found { port, .. } => port,
            other => panic!("{other:?}"),
        }
    }

    /// Opens a channel to a port by its number.
    pub fn open_number(&mut self, number: u32, fingerprint: u64) -> Answer {
        self.requests += 1;
        let request = self.requests;
        self.tell(&Control::Open { request, number, fingerprint });
        self.answer(request)
    }

    /// Opens a channel to a port: its number, and the credit.
    pub fn open(&mut self, port: &str) -> (u32, i64) {
        let PortInfo { number, fingerprint, .. } = self.find(port);
        match self.open_number(number, fingerprint) {
            Answer::Opened { channel, credit } => (channel, credit),
            other => panic!("{other:?}"),
        }
    }

    /// Reads until the reply to a request.
    fn answer(&mut self, wanted: u64) -> Answer {
        loop {
            let came = std::mem::take(&mut self.came);
            for (channel, head) in came {
                if channel == CONTROL_CHANNEL
                    && let Ok(Control::Answer { request, answer }) = postcard::from_bytes(&head)
                    && request == wanted
                {
                    return answer;
                }
            }
            self.read(&format!("request {wanted} was answered"));
        }
    }

    /// The head of the next frame on a channel.
    pub fn next_on(&mut self, wanted: u32) -> Vec<u8> {
        loop {
            if let Some(at) = self.came.iter().position(|(channel, _)| *channel == wanted) {
                return self.came.remove(at).1;
            }
            self.read(&format!("something came on channel {wanted}"));
        }
    }

    fn read(&mut self, wanted: &str) {
        let mut bytes = [0; 4096];
        let count = self.stream.read(&mut bytes).unwrap();
        assert_ne!(count, 0, "cut off before {wanted}");
        for packet in self.assembler.feed(&bytes[..count]).unwrap() {
            let mut at = 0;
            for _ in 0..packet.frame_count {
                let frame = Frame::read(&packet.inline, at, &WireLimits::default()).unwrap();
                let head = &packet.inline[frame.head_start..frame.head_end];
                self.came.push((frame.channel, head.to_vec()));
                at = frame.end;
            }
        }
    }

    /// Reads until the other side ends the connection; a host that does not would ping for ever.
    pub fn sees_the_end(mut self) {
        let began = Instant::now();
        // An end is an end whether or not something was still unread.
        while self.stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
            assert!(began.elapsed() < SOON, "the peer was not cut off");
        }
        assert!(began.elapsed() < SOON, "the peer was not cut off");
    }
}

/// A packet of frames on one channel.
pub fn packet(channel: u32, heads: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0; PACKET_HEADER_BYTES];
    for head in heads {
        let at = begin_frame(&mut bytes);
        bytes.extend_from_slice(head);
        let none = std::iter::empty::<&[u8]>();
        end_frame(&mut bytes, at, channel, none, &WireLimits::default()).unwrap();
    }
    let header = PacketHeader {
        inline_len: bytes.len() - PACKET_HEADER_BYTES,
        frame_count: u32::try_from(heads.len()).unwrap(),
        bulk_len: 0,
    };
    header.write(&mut bytes[..PACKET_HEADER_BYTES]);
    bytes
}

/// The header and the inline area of a packet whose frames, all on one channel, promise long
/// segments of these lengths; the bulk area is not there.
pub fn promise(channel: u32, frames: &[&[usize]]) -> Vec<u8> {
    let mut bytes = vec![0; PACKET_HEADER_BYTES];
    for lengths in frames {
        bytes.extend_from_slice(&channel.to_le_bytes());
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        bytes.extend_from_slice(&u16::try_from(lengths.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(&[0, 0]);
        for length in *lengths {
            bytes.extend_from_slice(&u32::try_from(*length).unwrap().to_le_bytes());
        }
    }
    if bytes.len() < 512 {
        bytes.resize(512, 0);
    }
    let header = PacketHeader {
        inline_len: bytes.len() - PACKET_HEADER_BYTES,
        frame_count: u32::try_from(frames.len()).unwrap(),
        bulk_len: frames.iter().flat_map(|lengths| lengths.iter()).sum::<usize>() as u64,
    };
    header.write(&mut bytes[..PACKET_HEADER_BYTES]);
    bytes
}
