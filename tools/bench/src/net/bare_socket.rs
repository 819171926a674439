//! The peer of most figures: a bare socket between two processes, with plain loops of `write` and
//! `read`, one of each per token. Neither process is bound to a core.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::wire::{Door, Transport, Wire};
use crate::partner::{Partner, Role, Starter, next_word};

/// The process at the far end.
pub const ROLE: Role = Role { name: "bare-socket", run: serve };

/// A connection to a second process that reads, or answers.
#[derive(Debug)]
pub struct Bare {
    partner: Partner,
    wire: Wire,
}

impl Bare {
    /// Starts the second process and connects to it.
    pub fn start(transport: Transport, dir: &Path) -> Result<Self> {
        let path = dir.join("bare.socket");
        let path_word = path.to_str().context("the directory has a readable name")?;
        let mut partner = Partner::start(ROLE.name, &[transport.name(), path_word])?;
        let address = partner.hear()?;
        let wire = Wire::connect(transport, &address, &path)?;
        Ok(Self { partner, wire })
    }

    /// The time of so many round trips of so many bytes, after a few that do not count.
    pub fn round_trips(&mut self, bytes: usize, count: u64, before: u64) -> Result<Duration> {
        self.order("echo", bytes, before + count)?;
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

    /// The time to send so many tokens of so many bytes and to hear that all have come.
    pub fn stream(&mut self, bytes: usize, count: u64) -> Result<Duration> {
        self.order("sink", bytes, count)?;
        let token = vec![7; bytes];
        let start = Instant::now();
        for _ in 0..count {
            self.wire.write_all(&token)?;
        }
        self.wire.read_exact(&mut [0])?;
        Ok(start.elapsed())
    }

    /// The time to have so many tokens of so many bytes sent, and to read them.
    pub fn fetch(&mut self, bytes: usize, count: u64) -> Result<Duration> {
        self.order("source", bytes, count)?;
        let mut token = vec![7; bytes];
        let start = Instant::now();
        self.wire.write_all(&[1])?;
        for _ in 0..count {
            self.wire.read_exact(&mut token)?;
        }
        Ok(start.elapsed())
    }

    /// Has the second process begin.
    fn order(&mut self, what: &str, bytes: usize, count: u64) -> Result<()> {
        self.partner.tell(format!("{what} {bytes} {count}"))?;
        let answer = self.partner.hear()?;
        ensure!(answer == "ready", "the bare socket's second process said {answer:?}");
        Ok(())
    }
}

/// The far end: does as it is told until it is ended.
fn serve(words: &[String]) -> Result<()> {
    let starter = Starter::listen();
    let [transport, path] = words else {
        bail!("needs a transport and a path");
    };
    let door = Door::open(Transport::of_name(transport)?, &PathBuf::from(path))?;
    starter.say(door.address()?)?;
    let mut wire = door.accept()?;
    loop {
        let order = starter.hear()?;
        let mut words = order.split_whitespace();
        let what: String = next_word(&mut words)?;
        let mut token = vec![0; next_word(&mut words)?];
        let count: u64 = next_word(&mut words)?;
        starter.say("ready")?;
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
