//! Floods a node with connections and requests for a set time, and checks that it keeps serving in
//! bounded memory.
//!
//! The node runs in its own process, with its own data directory and Unix sockets. Each flood is a
//! process too, under the user `nobody` if root starts this program, so that the limits per user
//! apply. An honest client uses the node through the library at the same time. All processes end by
//! themselves.

#![forbid(unsafe_code)]

mod checks;
mod flood;
mod honest;
mod node;
mod resource_usage;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;

use checks::Findings;
use flood::{FLOODS, FloodProcess};
use honest::HonestClient;
use node::NodeProcess;
use resource_usage::ResourceUsage;

/// The interval between two samples of the node's memory.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// The time limit for the node to release memory and descriptors after the floods.
const RELEASE_LIMIT: Duration = Duration::from_secs(15);

/// The command line.
#[derive(Parser, Debug)]
#[command(
    name = "pario-stress",
    about = "Floods a node and checks that it keeps serving in bounded memory",
    after_help = "Example:\n  pario-stress --seconds 60\n\nIt exits with 1 if a check fails."
)]
struct Arguments {
    /// Duration of the floods, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run only these floods, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Run as the flooded node, with its data in this directory
    #[arg(long, hide = true)]
    node: Option<PathBuf>,
    /// Run as one flood
    #[arg(long, hide = true)]
    flood: Option<String>,
    /// Socket of the node to flood
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
    ensure!(findings.are_good(), "a check has failed: see the lines that end with FAILED");
    Ok(())
}

/// Starts a node, floods it, and returns the measurements.
fn stress(time: Duration, only: &[String]) -> Result<Findings> {
    let chosen: Vec<&str> = FLOODS
        .iter()
        .map(|flood| flood.name)
        .filter(|name| only.is_empty() || only.iter().any(|wanted| wanted == name))
        .collect();
    let wanted = only.join(", ");
    ensure!(!chosen.is_empty(), "no flood is called {wanted}; the floods are: {}", flood::names());
    let mut node = NodeProcess::start()?;
    let mut honest = HonestClient::connect(node.socket())?;
    honest.work()?;
    let before = ResourceUsage::of(node.pid())?;
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
            peak = peak.most(ResourceUsage::of(node.pid())?);
            next_sample += SAMPLE_INTERVAL;
        }
    }
    let reports = floods.into_iter().map(FloodProcess::finish).collect();
    let release_deadline = Instant::now() + RELEASE_LIMIT;
    let mut after = ResourceUsage::of(node.pid()).unwrap_or_default();
    while node.is_alive() && !after.is_back_at(before) && Instant::now() < release_deadline {
        honest.try_work();
        after = ResourceUsage::of(node.pid())?;
    }
    let is_alive = node.is_alive() && honest.work().is_ok();
    Ok(Findings { before, peak, after, reports, latencies: honest.into_latencies(), is_alive })
}
