//! A real node in this process, and a peer that speaks its protocol byte by byte.
#![allow(dead_code, reason = "not every target needs all of it")]

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use pario::Cluster;
use pario_net::wire::{CONTROL_CHANNEL, Frame, WireLimits, PACKET_HEADER_BYTES, PacketHeader};
use pario_net::{Address, Assembler, SpaceId};
use pario_server::Node;
use pario_server::config::Config;
use serde::{Deserialize, Serialize};

/// The time limit of a reply, far longer than any takes.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The fuzzed node, which is started once.
pub struct FuzzedNode {
    pub socket: PathBuf,
    _node: Node,
}

impl FuzzedNode {
    /// The node of this process, with its data in a directory for temporary files.
    pub fn node(target: &str) -> &'static Self {
        static NODE: OnceLock<FuzzedNode> = OnceLock::new();
        NODE.get_or_init(|| {
            let dir = std::env::temp_dir().join(format!("pario-fuzz-{target}"));
            // Removes the data of an earlier run.
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(&dir).expect("the directory can be made");
            let mut config = Config::alone(&dir.join("data"));
            let socket = dir.join("socket");
            config.nodes[0].socket.clone_from(&socket);
            let node = Node::start(&config, "local").expect("the node starts");
            Self { socket, _node: node }
        })
    }

    /// Checks that the node serves a fresh client.
    pub fn check_serves(&self) {
        let address = format!("unix={}", self.socket.display());
        let cluster = Cluster::connect(&address).expect("the node takes a client");
        cluster.list("/").expect("the node answers").count();
    }
}

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
    Reply { request: u64, reply: ControlReply },
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
pub enum ControlReply {
    Done,
    Taken { owner: String },
    Found { port: PortInfo, space: SpaceId, space_name: String, address: Address },
    Opened { channel: u32, credit: i64 },
    NoPort,
    OtherKind { kind: String },
}

/// A peer that has completed the handshake and has a channel for requests.
pub struct Peer {
    pub stream: UnixStream,
    pub channel: u32,
    assembler: Assembler,
}

/// The channel on which the peer expects replies.
pub const REPLY_CHANNEL: u32 = 7;

/// The hello of a space without a key.
pub fn hello() -> Vec<u8> {
    let mut hello = b"PARIONET\x02\x00\x00\x01".to_vec();
    hello.resize(60, 0);
    hello.push(b'x');
    hello
}

/// The proof that a peer without a key has read both hellos.
pub fn proof(own: &[u8], host: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(&[0; 32]);
    hasher.update(b"caller").update(own).update(host);
    *hasher.finalize().as_bytes()
}

impl Peer {
    /// Connects, finishes the handshake and opens the port for requests.
    pub fn connect(node: &FuzzedNode) -> Self {
        let mut stream = UnixStream::connect(&node.socket).expect("the node listens");
        stream.set_read_timeout(Some(TIME_LIMIT)).expect("a socket takes a timeout");
        let own = hello();
        stream.write_all(&own).expect("the node reads");
        let mut head = [0; 61];
        stream.read_exact(&mut head).expect("the node says hello");
        let mut name = vec![0; usize::from(head[12])];
        stream.read_exact(&mut name).expect("the node says its name");
        let host = [&head[1..], &name].concat();
        stream.write_all(&proof(&own, &host)).expect("the node reads");
        stream.read_exact(&mut [0; 33]).expect("the node proves");
        let mut peer = Self { stream, channel: 0, assembler: Assembler::new(WireLimits::default()) };
        peer.send_control(&Control::Find { request: 1, port: "requests".to_owned() });
        let ControlReply::Found { port, .. } = peer.receive_reply(1) else {
            panic!("no port for requests")
        };
        let PortInfo { number, fingerprint, .. } = port;
        peer.send_control(&Control::Open { request: 2, number, fingerprint });
        let ControlReply::Opened { channel, .. } = peer.receive_reply(2) else {
            panic!("it cannot be opened")
        };
        peer.channel = channel;
        peer
    }

    /// Sends a control message. The node may have closed the link before.
    pub fn send_control(&mut self, message: &Control) {
        let head = postcard::to_allocvec(message).expect("messages can be encoded");
        self.send(&packet(&[(CONTROL_CHANNEL, 0, &head, &[])]));
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    fn receive_reply(&mut self, wanted: u64) -> ControlReply {
        loop {
            let mut bytes = [0; 4096];
            let count = match self.stream.read(&mut bytes) {
                // The fuzzer's own timer.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.expect("the node answers"),
            };
            assert_ne!(count, 0, "cut off before anything was done");
            let packets = self.assembler.feed(&bytes[..count]).expect("the node sends packets");
            for packet in packets {
                let mut at = 0;
                for _ in 0..packet.frame_count {
                    let frame = Frame::read(&packet.inline, at, &WireLimits::default()).expect("read");
                    let head = &packet.inline[frame.head_start..frame.head_end];
                    at = frame.end;
                    if let Ok(Control::Reply { request, reply }) = postcard::from_bytes(head)
                        && request == wanted
                    {
                        return reply;
                    }
                }
            }
        }
    }
}

/// A frame: channel, kind, head and segments.
pub type RawFrame<'a> = (u32, u8, &'a [u8], &'a [usize]);

/// A packet of frames, with zeros as segments.
pub fn packet(frames: &[RawFrame<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; PACKET_HEADER_BYTES];
    let mut bulk = 0;
    for (channel, kind, head, segments) in frames {
        bytes.extend_from_slice(&channel.to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(head.len()).unwrap_or(0).to_le_bytes());
        bytes.extend_from_slice(&u16::try_from(segments.len()).unwrap_or(0).to_le_bytes());
        bytes.extend_from_slice(&[*kind, 0]);
        bytes.extend_from_slice(head);
        for len in *segments {
            bytes.extend_from_slice(&u32::try_from(*len).unwrap_or(0).to_le_bytes());
        }
        let short: usize = segments.iter().filter(|len| **len < 4096).sum();
        bulk += segments.iter().filter(|len| **len >= 4096).sum::<usize>();
        bytes.resize(bytes.len() + short, 0);
    }
    if bulk > 0 && bytes.len() < 512 {
        bytes.resize(512, 0);
    }
    let header = PacketHeader {
        inline_len: bytes.len() - PACKET_HEADER_BYTES,
        frame_count: u32::try_from(frames.len()).unwrap_or(0),
        bulk_len: bulk as u64,
    };
    header.write(&mut bytes[..PACKET_HEADER_BYTES]);
    bytes.resize(bytes.len() + bulk, 0);
    bytes
}
