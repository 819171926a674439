//! A callback at the machine of another rank, against a round trip of the same bytes to another
//! process over a bare TCP socket.
//!
//! Both ranks run on this machine and are configured to be on different ones, so that all bytes go
//! over TCP on loopback. The function returns its argument.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pario::Job;
use pario::memory::Callback;

use super::remote_pair::{RemotePair, SecondRank};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::net::bare_socket::BareSocket;
use crate::net::sockets::Transport;
use crate::partner::PartnerRole;
use crate::report::Report;
use crate::turns::alternate;

/// A rank.
pub const ROLE: PartnerRole = PartnerRole { name: "memory-callback", run: serve };

/// At most 1.3 times as long.
const GOAL: f64 = 1.0 / 1.3;
const BYTES: usize = 64;
/// Calls before the measurement, which wake a sleeping core.
const BEFORE: u64 = 20;

/// Measures `callback-round-trip`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let name = "callback-round-trip";
    let dir = setting.subdir(name)?;
    let count = setting.choose(500, 200);
    let turns = setting.choose(201, 61);
    let mut other = RemotePair::start(ROLE.name, &[])?;
    let ours = register(&other.meet()?)?;
    let mut theirs = BareSocket::start(Transport::Tcp, &dir)?;
    let comparison = alternate(turns, &mut || round_trips(&ours, count), &mut || {
        theirs.round_trips(BYTES, count, BEFORE)
    })?;
    report.measured(name, comparison, Quantity::Operations(count as f64), GOAL);
    other.part()
}

fn register(job: &Job) -> Result<Callback> {
    Ok(job.callback(|call| Ok(call.data.to_vec()))?)
}

fn round_trips(callback: &Callback, count: u64) -> Result<Duration> {
    let data = [7; BYTES];
    let mut start = Instant::now();
    for number in 0..BEFORE + count {
        if number == BEFORE {
            start = Instant::now();
        }
        let answer = callback.call(b"", &data, 1)?;
        ensure!(answer == data, "the callback returned other bytes");
    }
    Ok(start.elapsed())
}

fn serve(words: &[String]) -> Result<()> {
    let (second, _) = SecondRank::take(words)?;
    let _callback = register(second.job())?;
    second.stay()
}
