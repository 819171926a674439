//! The peer of most figures: a bare socket between two processes, with plain loops of `write` and
//! `read`, one of each per token. Neither process is bound to a core.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::sockets::{SocketListener, SocketStream, Transport};
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole, next_word};

/// The process at the other end.
pub const ROLE: PartnerRole = PartnerRole { name: "bare-socket", run: serve };

/// A connection to a second process that reads, or replies.
#[derive(Debug)]
pub struct BareSocket {
    partner: PartnerProcess,
    wire: SocketStream,
}

impl BareSocket {
    /// Starts the second process and connects to it.
    pub fn start(transport: Transport, dir: &Path) -> Result<Self> {
        let path = dir.join("bare.socket");
        let path_word = path.to_str().context("the directory has a readable name")?;
        let mut partner = PartnerProcess::start(ROLE.name, &[transport.name(), path_word])?;
        let address = partner.receive_line()?;
        let wire = SocketStream::connect(transport, &address, &path)?;
        Ok(Self { partner, wire })
    }

    /// The time of `count` round trips of `bytes`, after some that do not count.
    pub fn round_trips(&mut self, bytes: usize, count: u64, before: u64) -> Result<Duration> {
        self.start_turn("echo", bytes, before + count)?;
        let mut token = vec![7; bytes];
        let mut start = Instant::now();
        for number in 0..before + count {
            if number == before {
                start = Instant::now();
            }
            self.wire.write_all(&token)?;
            self.wire.read_exact(&mut token)?;
        }
        Ok(start.elapsed())
    }

    /// The time to send `count` tokens of `bytes` and to receive the acknowledgement of the last
    /// one.
    pub fn stream(&mut self, bytes: usize, count: u64) -> Result<Duration> {
        self.start_turn("sink", bytes, count)?;
        let token = vec![7; bytes];
        let start = Instant::now();
        for _ in 0..count {
            self.wire.write_all(&token)?;
        }
        self.wire.read_exact(&mut [0])?;
        Ok(start.elapsed())
    }

    /// The time to request and read `count` tokens of `bytes`.
    pub fn fetch(&mut self, bytes: usize, count: u64) -> Result<Duration> {
        self.start_turn("source", bytes, count)?;
        let mut token = vec![7; bytes];
        let start = Instant::now();
        self.wire.write_all(&[1])?;
        for _ in 0..count {
            self.wire.read_exact(&mut token)?;
        }
        Ok(start.elapsed())
    }

    /// Lets the second process begin.
    fn start_turn(&mut self, what: &str, bytes: usize, count: u64) -> Result<()> {
        self.partner.send_line(format!("{what} {bytes} {count}"))?;
        let answer = self.partner.receive_line()?;
        ensure!(answer == "ready", "the bare socket's second process sent the line {answer:?}");
        Ok(())
    }
}

/// Runs the other end until its parent ends it.
fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [transport, path] = words else {
        bail!("needs a transport and a path");
    };
    let listener = SocketListener::open(Transport::of_name(transport)?, &PathBuf::from(path))?;
    parent.send_line(listener.address()?)?;
    let mut wire = listener.accept()?;
    loop {
        let order = parent.receive_line()?;
        let mut words = order.split_whitespace();
        let what: String = next_word(&mut words)?;
        let mut token = vec![0; next_word(&mut words)?];
        let count: u64 = next_word(&mut words)?;
        parent.send_line("ready")?;
        if what == "source" {
            wire.read_exact(&mut [0])?;
            for _ in 0..count {
                wire.write_all(&token)?;
            }
            continue;
        }
        for _ in 0..count {
            wire.read_exact(&mut token)?;
            if what == "echo" {
                wire.write_all(&token)?;
            }
        }
        if what == "sink" {
            wire.write_all(&[1])?;
        }
    }
}
