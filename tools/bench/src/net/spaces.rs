//! Our side: two processes that are spaces, connected by TCP or by a Unix socket.
//!
//! The first one sends to a port of the second one for the kind of token; the second one replies on
//! a port of the first, to each token or only to the last.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pario_net::{Address, Bulk, BulkBuffer, InputPort, OutputPort, Space, Token};
use serde::{Deserialize, Serialize};

use super::sockets::Transport;
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole, next_word};

/// The process at the other end.
pub const ROLE: PartnerRole = PartnerRole { name: "space", run: serve };

/// The time limit for a port to appear.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// A token of 64 bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct SmallToken {
    values: [f64; 8],
}

const SMALL: SmallToken = SmallToken { values: [1.5; 8] };

/// A token of any number of bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LargeToken {
    bytes: Bulk,
}

/// The first space, connected to the second one.
pub struct Spaces {
    partner: PartnerProcess,
    small: OutputPort<SmallToken>,
    large: OutputPort<LargeToken>,
    back: InputPort<SmallToken>,
    /// Dropped last.
    _space: Space,
}

impl Spaces {
    /// Starts the second process and connects to it.
    pub fn start(transport: Transport, dir: &Path) -> Result<Self> {
        let space = listening("near", transport, dir)?.host().build()?;
        let back = space.input("back")?;
        let dir_word = dir.to_str().context("the directory has a readable name")?;
        let address = space.address().to_string();
        let mut partner =
            PartnerProcess::start(ROLE.name, &[transport.name(), dir_word, &address])?;
        let said = partner.receive_line()?;
        ensure!(said == "open", "the second space sent the line {said:?}");
        let small = space.output("small", TIME_LIMIT)?;
        let large = space.output("large", TIME_LIMIT)?;
        ensure!(!small.is_local() && !large.is_local(), "the far space is not far");
        Ok(Self { partner, small, large, back, _space: space })
    }

    /// The time of `count` round trips of 64 bytes, after some that do not count.
    pub fn round_trips(&mut self, count: u64, before: u64) -> Result<Duration> {
        self.start_turn("echo", before + count)?;
        let mut token = SMALL;
        let mut start = Instant::now();
        for number in 0..before + count {
            if number == before {
                start = Instant::now();
            }
            self.small.send(token)?;
            token = self.back.recv()?;
        }
        Ok(start.elapsed())
    }

    /// The time to send `count` tokens of 64 bytes and to receive the acknowledgement of the last
    /// one.
    pub fn stream_small(&mut self, count: u64) -> Result<Duration> {
        self.start_turn("small", count)?;
        let start = Instant::now();
        for _ in 0..count {
            self.small.send(SMALL)?;
        }
        self.small.flush();
        self.back.recv()?;
        Ok(start.elapsed())
    }

    /// The same with tokens of `bytes`.
    pub fn stream_large(&mut self, bytes: usize, count: u64) -> Result<Duration> {
        self.start_turn("large", count)?;
        let mut buffer = BulkBuffer::new(bytes);
        buffer.fill(7);
        let token = LargeToken { bytes: buffer.freeze() };
        let start = Instant::now();
        for _ in 0..count {
            self.large.send(token.clone())?;
        }
        self.large.flush();
        self.back.recv()?;
        Ok(start.elapsed())
    }

    /// Lets the second process begin.
    fn start_turn(&mut self, what: &str, count: u64) -> Result<()> {
        self.partner.send_line(format!("{what} {count}"))?;
        let answer = self.partner.receive_line()?;
        ensure!(answer == "ready", "the second space sent the line {answer:?}");
        Ok(())
    }
}

/// A space that listens on one transport only.
fn listening(name: &str, transport: Transport, dir: &Path) -> Result<pario_net::SpaceBuilder> {
    let builder = Space::builder(name);
    Ok(match transport {
        Transport::Tcp => {
            builder.listen_tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).prefer_tcp(true)
        }
        Transport::Unix => builder.listen_unix(dir.join(format!("{name}.socket"))),
    })
}

/// Runs the second space until its parent ends it.
fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [transport, dir, address] = words else {
        bail!("needs a transport, a directory and an address");
    };
    let address: Address = address.parse()?;
    let transport = Transport::of_name(transport)?;
    let space = listening("far", transport, Path::new(dir))?.join(&address).build()?;
    let small: InputPort<SmallToken> = space.input("small")?;
    let large: InputPort<LargeToken> = space.input("large")?;
    let back: OutputPort<SmallToken> = space.output("back", TIME_LIMIT)?;
    parent.send_line("open")?;
    loop {
        let order = parent.receive_line()?;
        let mut words = order.split_whitespace();
        let what: String = next_word(&mut words)?;
        let count: u64 = next_word(&mut words)?;
        parent.send_line("ready")?;
        match what.as_str() {
            "echo" => {
                for _ in 0..count {
                    back.send(small.recv()?)?;
                }
            }
            "small" => take(&small, count)?,
            "large" => take(&large, count)?,
            _ => bail!("cannot {what}"),
        }
        if what != "echo" {
            back.send(SMALL)?;
            back.flush();
        }
    }
}

/// Receives `count` tokens and discards them.
fn take<T: Token>(port: &InputPort<T>, count: u64) -> Result<()> {
    for _ in 0..count {
        drop(port.recv()?);
    }
    Ok(())
}
