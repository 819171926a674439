//! `pario serve`

mod check;

use std::io::{Write, stderr};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use pario::{Cluster, ClusterOptions, Finding, FindingKind};
use pario_server::config::Config;
use pario_server::{MissingNamespace, Node, NodeBuilder};
use rustix::fs::Mode;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing_subscriber::filter::LevelFilter;

use crate::arguments::Global;
use crate::exit::Usage;
use crate::metrics::{DEFAULT_PORT, MetricsServer};
use crate::{amounts, reach, service_manager, terminal};

/// Lines for the help.
pub const EXAMPLES: &str = "pario serve\n  pario serve --data /mnt/ssd/pario\n  \
                            pario serve --config cluster.toml --node a\n  \
                            pario serve --config cluster.toml --check\n  \
                            pario serve --data /mnt/ssd/pario --rebuild\n  \
                            pario serve --metrics 127.0.0.1:7412\n  \
                            PARIO_LOG=debug pario serve";

/// Where a node without a configuration keeps everything.
pub const DEFAULT_DATA: &str = "./pario-data";

/// Why a configuration and a directory do not go together.
const TWO_PLACES: &str = "--data and --config cannot be used together: the configuration says where \
                          each node keeps its data";

/// How long a node has to hear that it should stop.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// What it takes.
#[derive(Args, Debug)]
pub struct Options {
    /// The configuration of the cluster
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Which node of the configuration this is
    #[arg(long, value_name = "NAME", requires = "config")]
    node: Option<String>,

    /// Check the configuration, the directories of --node included, and start nothing
    #[arg(long, conflicts_with_all = ["rebuild", "new"])]
    check: bool,

    /// Threads that serve the disks, at most one for each; disks that share one wait for each other
    #[arg(long, value_name = "NUMBER", conflicts_with = "config")]
    storage_threads: Option<NonZeroUsize>,

    /// Make the names from what the disks of all nodes say, before clients see them
    #[arg(long)]
    rebuild: bool,

    /// Start without files though the namespace is missing; what is on the disks stays there
    #[arg(long, conflicts_with = "rebuild")]
    new: bool,

    /// Serve /metrics for Prometheus and /health there; the port is 7412 unless it is given. Beyond
    /// loopback addresses a token is required
    #[arg(long, value_name = "ADDRESS", value_parser = parse_metrics_address)]
    metrics: Option<SocketAddr>,

    /// The file with the token that readers of the metrics must send; other users must not be able
    /// to read it. Without this option the variable PARIO_METRICS_TOKEN is used
    #[arg(long, value_name = "FILE", requires = "metrics")]
    metrics_token_file: Option<PathBuf>,
}

impl Options {
    fn missing_namespace(&self) -> MissingNamespace {
        match (self.rebuild, self.new) {
            (true, _) => MissingNamespace::Rebuild,
            (_, true) => MissingNamespace::New,
            _ => MissingNamespace::Refuse,
        }
    }
}

/// Runs a node until somebody wants it to end.
pub fn run(global: &Global, options: &Options) -> anyhow::Result<()> {
    log()?;
    // What the node creates is private by explicit modes; this is for files of libraries.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    if global.cluster.is_some() {
        let text = "--cluster is for commands that use a node; say with --data where this one \
                    keeps its disks, or use --config and --node";
        return Err(Usage(text.to_owned()).into());
    }
    if options.check {
        return match (&options.config, &global.data) {
            (Some(_), Some(_)) => Err(Usage(TWO_PLACES.to_owned()).into()),
            (Some(path), None) => {
                let source = path.display().to_string();
                check::run(global, &source, Config::load(path), options.node.as_deref())
            }
            (None, data) => {
                let data = data.as_deref().unwrap_or(Path::new(DEFAULT_DATA));
                let source = data.display().to_string();
                check::run(global, &source, Ok(Config::alone(data)), Some("local"))
            }
        };
    }
    let (config, name) = match (&options.config, &options.node) {
        (Some(_), None) => {
            let text = "--config needs --node NAME, which says which of its nodes this is";
            return Err(Usage(text.to_owned()).into());
        }
        (Some(_), Some(_)) if global.data.is_some() => {
            return Err(Usage(TWO_PLACES.to_owned()).into());
        }
        (Some(config), Some(name)) => {
            let config = Config::load(config)?;
            config.node(name).map_err(|error| Usage(error.to_string()))?;
            (config, name.clone())
        }
        _ => {
            let data = global.data.as_deref().unwrap_or(Path::new(DEFAULT_DATA));
            let mut config = Config::alone(data);
            let node = &mut config.nodes[0];
            if let Some(threads) = options.storage_threads {
                node.storage_threads = threads.get().min(node.disks.len());
            }
            let name = config.nodes[0].name.clone();
            (config, name)
        }
    };
    // Signals that come from now on wait until somebody looks at them.
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot watch for signals")?;
    let token_file = options.metrics_token_file.as_deref();
    let metrics = options.metrics.map(|address| MetricsServer::start(address, token_file));
    let metrics = metrics.transpose()?;
    let node = node().missing_namespace(options.missing_namespace()).start(&config, &name)?;
    if let Some(metrics) = &metrics {
        metrics.show(node.monitor());
    }
    announce(global, &config, &name, &node, metrics.as_ref())?;
    let disks = amounts::count(config.node(&name)?.disks.len() as u64, "disk");
    service_manager::notify(service_manager::READY, &format!("node {name}, {disks}"));

    let (address, key_file) = (node.address(), config.key_file.clone());
    let asked = name.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut pending = signals.forever();
        if pending.next().is_some() {
            // The first signal asks the node as `pario stop` does, which ends the wait below; a
            // second one does not wait for that.
            let handle = thread::spawn(move || ask_to_stop(&address, key_file, &asked));
            let _ = pending.next();
            drop(handle);
            std::process::exit(i32::from(crate::exit::INTERRUPTED));
        }
    })?;
    node.wait();
    service_manager::notify(service_manager::STOPPING, "finishing what is under way");
    node.stop();
    drop(metrics);
    if !global.json {
        let mut out = terminal::output();
        // Where nobody reads it, nobody misses it: the node has stopped all the same.
        let _ = writeln!(out, "pario: node {name:?} has stopped");
        let _ = out.flush();
    }
    Ok(())
}

/// A node that can do all that Pario's own programs ask of nodes.
pub fn node() -> NodeBuilder {
    Node::new().operations(pario_image::operations())
}

fn announce(
    global: &Global,
    config: &Config,
    name: &str,
    running: &Node,
    metrics: Option<&MetricsServer>,
) -> anyhow::Result<()> {
    let node = config.node(name)?;
    let address = &running.address();
    let disks = node.disks.len();
    if global.json {
        return terminal::print_json(&json!({
            "node": name,
            "cluster": config.name,
            "address": address,
            "data": node.data,
            "disks": node.disks.iter().map(|disk| &disk.path).collect::<Vec<_>>(),
            "pid": std::process::id(),
            "metrics": metrics.map(MetricsServer::url),
        }));
    }
    let mut out = terminal::output();
    writeln!(
        out,
        "pario: node {name:?}, {} in {}, listening on {}",
        amounts::count(disks as u64, "disk"),
        node.data.display(),
        reach::shown_address(address)
    )?;
    writeln!(out, "pario: try   pario cp FILE /   |   pario top   |   pario stop")?;
    if let Some(metrics) = metrics {
        let url = metrics.url();
        match metrics.token_place() {
            Some(place) => writeln!(out, "pario: metrics at {url} (the token is in {place})")?,
            None => writeln!(out, "pario: metrics at {url}")?,
        }
    }
    if let Some(report) = running.rebuilt() {
        let is_rebuilt = |finding: &&Finding| finding.kind == FindingKind::Rebuilt;
        let files = report.findings.iter().filter(is_rebuilt).count() as u64;
        let files = amounts::count(files, "file");
        writeln!(out, "pario: {files} rebuilt from the disks; `pario fsck` shows what is wrong")?;
    }
    Ok(out.flush()?)
}

/// Asks the node of this process to stop. If it cannot even hear that, the process ends as if it
/// had been killed, which a node survives.
fn ask_to_stop(address: &str, key_file: Option<PathBuf>, name: &str) {
    let options = ClusterOptions {
        short_cut: Some(false),
        key_file,
        timeout: Some(STOP_LIMIT),
        client: Some("pario serve".to_owned()),
    };
    let stopped =
        Cluster::connect_with(address, options).and_then(|cluster| cluster.stop(Some(name)));
    if let Err(error) = stopped {
        eprintln!("pario: node {name:?} cannot be stopped in order, so it ends at once: {error}");
        std::process::exit(i32::from(crate::exit::FAILED));
    }
}

/// What the node says of its work goes to stderr if somebody wants to know.
pub fn log() -> anyhow::Result<()> {
    let Some(level) = std::env::var_os("PARIO_LOG") else { return Ok(()) };
    let level: LevelFilter =
        level.to_str().and_then(|level| level.parse().ok()).ok_or_else(|| {
            let known = "off, error, warn, info, debug or trace";
            Usage(format!("PARIO_LOG is {}, but must be {known}", level.display()))
        })?;
    // Where in the program something was told is for those who look for mistakes in it.
    let has_targets = level > LevelFilter::INFO;
    let log = tracing_subscriber::fmt().with_max_level(level).with_target(has_targets);
    log.with_writer(stderr).init();
    Ok(())
}

/// An address, with the port of metrics unless it has one.
pub fn parse_metrics_address(text: &str) -> Result<SocketAddr, String> {
    let without_port = || text.parse().map(|ip: IpAddr| SocketAddr::from((ip, DEFAULT_PORT)));
    text.parse().or_else(|_| without_port()).map_err(|_| {
        "it is not an address, such as 127.0.0.1:7412, [::1]:7412 or 10.0.0.7".to_owned()
    })
}
