//! A peer that speaks bytes, not tokens, and two spaces that it must not disturb.

#![allow(dead_code, reason = "not every suite needs all of it")]

pub mod peer;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pario_net::Space;

pub const SOON: Duration = Duration::from_secs(10);
/// `PARIONET`, version 2, no key, a name of one letter, id and nonce of zeros.
pub const HELLO: [u8; 61] = {
    let mut hello = [0; 61];
    let start = *b"PARIONET\x02\x00\x00\x01";
    let mut i = 0;
    while i < start.len() {
        hello[i] = start[i];
        i += 1;
    }
    hello[60] = b'x';
    hello
};

pub fn host() -> Space {
    builder("host").host().build().unwrap()
}

pub fn builder(name: &str) -> pario_net::SpaceBuilder {
    Space::builder(name).listen_tcp("127.0.0.1:0".parse().unwrap()).prefer_tcp(true)
}

pub fn knock(space: &Space) -> TcpStream {
    let stream = TcpStream::connect(space.address().tcp.unwrap()).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// Two other spaces that go on talking while something happens.
pub struct Talk {
    input: pario_net::InputPort<u64>,
    output: pario_net::OutputPort<u64>,
    _spaces: (Space, Space),
}

impl Talk {
    pub fn through(host: &Space) -> Self {
        let a = builder("talker a").join(&host.address()).build().unwrap();
        let b = builder("talker b").join(&host.address()).build().unwrap();
        let input = a.input("talk").unwrap();
        let output = b.output("talk", SOON).unwrap();
        Self { input, output, _spaces: (a, b) }
    }

    pub fn goes_on(&self) {
        for number in 0..100 {
            self.output.send(number).unwrap();
            assert_eq!(self.input.recv_timeout(SOON).unwrap(), number);
        }
    }
}

/// Waits for a refusal with these words.
pub fn refused(space: &Space, words: &str) {
    let began = Instant::now();
    while !space.refusals().iter().any(|refusal| refusal.reason.contains(words)) {
        assert!(began.elapsed() < SOON, "no refusal says {words:?}: {:?}", space.refusals());
        std::thread::yield_now();
    }
}

/// What is read until the other side closes.
pub fn answer(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    // Being cut off is an answer too.
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// Finishes the handshake as a space without a key.
pub fn come_in(stream: &mut (impl Read + Write)) {
    come_in_with(stream, &HELLO);
}

/// The same with another hello.
pub fn come_in_with(stream: &mut (impl Read + Write), hello: &[u8]) {
    stream.write_all(hello).unwrap();
    let mut head = [0; 61];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[0], 0);
    let mut name = vec![0; usize::from(head[12])];
    stream.read_exact(&mut name).unwrap();
    let mut hasher = blake3::Hasher::new_keyed(&[0; 32]);
    hasher.update(b"caller").update(hello).update(&head[1..]).update(&name);
    stream.write_all(hasher.finalize().as_bytes()).unwrap();
    let mut proof = [0; 33];
    stream.read_exact(&mut proof).unwrap();
    assert_eq!(proof[0], 0);
}
