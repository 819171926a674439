//! Floods a node from all sides for a set time, and checks that it keeps serving in bounded memory.
//!
//! The node runs in a process of its own, on a data directory and Unix sockets of its own. Each flood
//! is a process too, as the user `nobody` where this program may do that, so that the limits of a
//! user apply. Beside them an honest client works through the library. Everything ends by itself.

#![forbid(unsafe_code)]

mod checks;
mod flood;
mod honest;
mod node;
mod vitals;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;

use checks::Findings;
use flood::{FLOODS, FloodProcess};
use honest::HonestClient;
use node::NodeProcess;
use vitals::Vitals;

/// How often the memory of the node is looked at.
const SAMPLE: Duration = Duration::from_millis(100);

/// How long the node may take to give memory and descriptors back after the floods.
const CALM: Duration = Duration::from_secs(15);

/// What was typed.
#[derive(Parser, Debug)]
#[command(
    name = "pario-stress",
    about = "Floods a node from all sides and checks that it keeps serving in bounded memory",
    after_help = "Example:\n  pario-stress --seconds 60\n\nIt exits with 1 if a check fails."
)]
struct Arguments {
    /// How long the floods last
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Only these floods, with commas between them [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Be the node that is flooded, with everything in this directory
    #[arg(long, hide = true)]
    node: Option<PathBuf>,
    /// Be one flood
    #[arg(long, hide = true)]
    flood: Option<String>,
    /// The socket of the node to flood
    #[arg(long, hide = true, requires = "flood")]
    socket: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let time = Duration::from_secs(arguments.seconds);
    if let Some(dir) = &arguments.node {
        return node::serve(dir);
    }
    if let (Some(name), Some(socket)) = (&arguments.flood, &arguments.socket) {
        return flood::run(name, socket, Instant::now() + time);
    }
    let findings = stress(time, &arguments.only)?;
    for line in findings.lines() {
        println!("{line}");
    }
    ensure!(findings.are_good(), "a check has failed");
    Ok(())
}

/// Floods a new node; what was found.
fn stress(time: Duration, only: &[String]) -> Result<Findings> {
    let chosen: Vec<&str> = FLOODS
        .iter()
        .map(|flood| flood.name)
        .filter(|name| only.is_empty() || only.iter().any(|wanted| wanted == name))
        .collect();
    ensure!(!chosen.is_empty(), "there are no such floods: {}", flood::names());
    let mut node = NodeProcess::start()?;
    let mut honest = HonestClient::connect(node.socket())?;
    honest.work()?;
    let before = Vitals::of(node.pid())?;
    let mut peak = before;
    let floods: Vec<FloodProcess> = chosen
        .iter()
        .map(|name| FloodProcess::start(name, node.socket(), time))
        .collect::<Result<_>>()?;
    let end = Instant::now() + time;
    let mut next_sample = Instant::now();
    while Instant::now() < end && node.is_alive() {
        honest.try_work();
        if Instant::now() >= next_sample {
            peak = peak.most(Vitals::of(node.pid())?);
            next_sample += SAMPLE;
        }
    }
    let reports = floods.into_iter().map(FloodProcess::finish).collect();
    let calm = Instant::now() + CALM;
    let mut after = Vitals::of(node.pid()).unwrap_or_default();
    while node.is_alive() && !after.is_back_at(before) && Instant::now() < calm {
        honest.try_work();
        after = Vitals::of(node.pid())?;
    }
    let is_alive = node.is_alive() && honest.work().is_ok();
    Ok(Findings { before, peak, after, reports, latencies: honest.into_latencies(), is_alive })
}
