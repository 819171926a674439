//! `pario serve`: runs a node.

mod check;

use std::io::{Write, stderr};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use pario::status::{Finding, FindingKind};
use pario::{Cluster, ClusterOptions};
use pario_server::config::{CONCURRENT_REQUESTS_LIMIT, Config};
use pario_server::{MissingNamespace, Node, NodeBuilder};
use rustix::fs::Mode;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing_subscriber::filter::LevelFilter;

use crate::arguments::GlobalOptions;
use crate::exit::UsageError;
use crate::metrics::{DEFAULT_PORT, MetricsServer};
use crate::{amounts, reach, service_manager, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario serve\n  pario serve --data /mnt/ssd/pario\n  \
                            pario serve --listen\n  \
                            pario serve --config cluster.toml --node a\n  \
                            pario serve --config cluster.toml --check\n  \
                            pario serve --data /mnt/ssd/pario --rebuild\n  \
                            pario serve --metrics 127.0.0.1:7412\n  \
                            PARIO_LOG=debug pario serve";

/// Data directory of a node without a configuration.
pub const DEFAULT_DATA: &str = "./pario-data";

/// The error for `--data` together with `--config`.
const TWO_PLACES: &str = "--data and --config cannot be used together: the configuration names the \
 data directory of each node";

/// Time that a node has to receive a request to stop.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// The configuration of the cluster
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The node of the configuration to run
    #[arg(long, value_name = "NAME", requires = "config")]
    node: Option<String>,

    /// Check the configuration, and the directories of --node, without starting a node
    #[arg(long, conflicts_with_all = ["rebuild", "new"])]
    check: bool,

    /// Threads that drive the disks, at most one per disk [default: one for every four processors]
    #[arg(long, value_name = "NUMBER", conflicts_with = "config")]
    storage_threads: Option<NonZeroUsize>,

    /// Requests that each disk has under way at once [default: 16]
    #[arg(long, value_name = "NUMBER", conflicts_with = "config", value_parser = concurrent_requests())]
    concurrent_requests: Option<u16>,

    /// Let other machines use the cluster: listen at this TCP address too [default: 0.0.0.0:7411].
    /// Clients need the key that --key or PARIO_KEY names, otherwise the one in ~/.config/pario/key;
    /// the first start makes it
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        default_missing_value = "0.0.0.0",
        value_parser = parse_listen_address,
        conflicts_with = "config"
    )]
    listen: Option<SocketAddr>,

    /// Build the namespace from the descriptions on the disks of all nodes before serving clients
    #[arg(long)]
    rebuild: bool,

    /// Start with an empty namespace if it is missing; data on the disks stays there
    #[arg(long, conflicts_with = "rebuild")]
    new: bool,

    /// Serve /metrics for Prometheus and /health at this address; the default port is 7412.
    /// Addresses other than loopback require a token
    #[arg(long, value_name = "ADDRESS", value_parser = parse_metrics_address)]
    metrics: Option<SocketAddr>,

    /// The file with the token that readers of the metrics must send; no other user may be able to
    /// read it [default: the variable PARIO_METRICS_TOKEN]
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

/// Runs a node until a signal or `pario stop` ends it.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    log()?;
    // The node creates files with explicit private modes; the umask covers files that libraries
    // create.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    if global.cluster.is_some() {
        let text = "--cluster is for commands that use a node; name the directory of this one with \
         --data, or use --config and --node";
        return Err(UsageError(text.to_owned()).into());
    }
    if options.check {
        return match (&options.config, &global.data) {
            (Some(_), Some(_)) => Err(UsageError(TWO_PLACES.to_owned()).into()),
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
            let text = "--config needs --node NAME: the node of the configuration to run";
            return Err(UsageError(text.to_owned()).into());
        }
        (Some(_), Some(_)) if global.data.is_some() => {
            return Err(UsageError(TWO_PLACES.to_owned()).into());
        }
        (Some(config), Some(name)) => {
            let config = Config::load(config)?;
            config.node(name).map_err(|error| UsageError(error.to_string()))?;
            (config, name.clone())
        }
        _ => {
            let data = global.data.as_deref().unwrap_or(Path::new(DEFAULT_DATA));
            let mut config = Config::alone(data);
            let node = &mut config.nodes[0];
            if let Some(threads) = options.storage_threads {
                node.storage_threads = threads.get().min(node.disks.len());
            }
            if let Some(requests) = options.concurrent_requests {
                node.concurrent_requests = requests.into();
            }
            node.listen = options.listen;
            config.key_file = options.listen.map(|_| key_file(global)).transpose()?;
            let name = config.nodes[0].name.clone();
            (config, name)
        }
    };
    // Signals from now on are queued for the listener.
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
            // The first signal sends the same request as `pario stop`, which ends the wait below; a
            // second one ends the process at once.
            let handle = thread::spawn(move || ask_to_stop(&address, key_file, &asked));
            let _ = pending.next();
            drop(handle);
            std::process::exit(i32::from(crate::exit::INTERRUPTED));
        }
    })?;
    node.wait();
    service_manager::notify(service_manager::STOPPING, "finishing requests under way");
    node.stop();
    drop(metrics);
    if !global.json {
        let mut out = terminal::output();
        // The node has stopped even if this line cannot be printed.
        let _ = writeln!(out, "pario: node {name:?} has stopped");
        let _ = out.flush();
    }
    Ok(())
}

/// Returns the file with the key of a node that listens for other machines. Makes the key if there is
/// none.
fn key_file(global: &GlobalOptions) -> anyhow::Result<PathBuf> {
    let variable = || std::env::var_os("PARIO_KEY").filter(|value| !value.is_empty());
    let named = global.key.clone().or_else(|| variable().map(PathBuf::from));
    if named.as_ref().is_some_and(|named| is_key(named)) {
        let text = "PARIO_KEY holds a key, but a node reads its key from a file: name the file with \
         --key FILE";
        return Err(UsageError(text.to_owned()).into());
    }
    let Some(file) = named.or_else(pario::user_key_file) else {
        let text = "--listen needs a key, and there is no home directory to keep it in: name a file \
         with --key FILE; it is made if it does not exist";
        return Err(UsageError(text.to_owned()).into());
    };
    let file = std::path::absolute(&file)?;
    if pario::create_key_file(&file)? {
        eprintln!("pario: made a new key in {}", file.display());
    }
    Ok(file)
}

/// Returns whether a text is a key, and not the name of a file.
fn is_key(text: &Path) -> bool {
    text.to_str().is_some_and(|text| pario::memory::Key::from_hex(text).is_ok())
}

/// Returns a node with all operations that Pario's own programs use.
pub fn node() -> NodeBuilder {
    Node::new().operations(pario_image::operations())
}

fn announce(
    global: &GlobalOptions,
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
            "key_file": config.key_file,
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
    if let (Some(listen), Some(key), None) = (node.listen, &config.key_file, &config.source) {
        let (port, key) = (listen.port(), key.display());
        let who = match listen.ip().is_loopback() {
            true => format!("it admits holders of the key in {key} at port {port}"),
            false => format!(
                "other machines reach it by the name of this host (port {port}), with a copy of the \
                 key in {key} as their ~/.config/pario/key"
            ),
        };
        writeln!(out, "pario: {who}")?;
    }
    if let Some(metrics) = metrics {
        let url = metrics.url();
        match metrics.token_source() {
            Some(place) => writeln!(out, "pario: metrics at {url} (the token is in {place})")?,
            None => writeln!(out, "pario: metrics at {url}")?,
        }
    }
    if let Some(report) = running.rebuilt() {
        let is_rebuilt = |finding: &&Finding| finding.kind == FindingKind::Rebuilt;
        let files = report.findings.iter().filter(is_rebuilt).count() as u64;
        let files = amounts::count(files, "file");
        writeln!(
            out,
            "pario: {files} rebuilt from the disks; `pario fsck` lists remaining problems"
        )?;
    }
    Ok(out.flush()?)
}

/// Asks the node of this process to stop. If it does not receive the request, ends the process as
/// if it had been killed, which a node survives.
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
        eprintln!(
            "pario: node {name:?} does not stop by request, so the process ends at once: {error}"
        );
        std::process::exit(i32::from(crate::exit::FAILED));
    }
}

/// Starts logging to stderr if `PARIO_LOG` is set.
pub fn log() -> anyhow::Result<()> {
    let Some(level) = std::env::var_os("PARIO_LOG") else { return Ok(()) };
    let level: LevelFilter =
        level.to_str().and_then(|level| level.parse().ok()).ok_or_else(|| {
            let known = "off, error, warn, info, debug or trace";
            UsageError(format!("PARIO_LOG is {}, but must be {known}", level.display()))
        })?;
    // Targets (module paths) help only to debug Pario itself.
    let has_targets = level > LevelFilter::INFO;
    let log = tracing_subscriber::fmt().with_max_level(level).with_target(has_targets);
    log.with_writer(stderr).init();
    Ok(())
}

/// Parses an address; the default port is that of metrics.
pub fn parse_metrics_address(text: &str) -> Result<SocketAddr, String> {
    parse_address(text, DEFAULT_PORT)
}

/// Parses an address for clients on other machines; the default port is the one that they try.
fn parse_listen_address(text: &str) -> Result<SocketAddr, String> {
    parse_address(text, pario::DEFAULT_PORT)
}

fn parse_address(text: &str, port: u16) -> Result<SocketAddr, String> {
    let without_port = || text.parse().map(|ip: IpAddr| SocketAddr::from((ip, port)));
    text.parse().or_else(|_| without_port()).map_err(|_| {
        format!("it must be an address, such as 127.0.0.1:{port}, [::1]:{port} or 10.0.0.7")
    })
}

/// Parses the number of requests that are served at once.
fn concurrent_requests() -> clap::builder::RangedI64ValueParser<u16> {
    let limit = i64::try_from(CONCURRENT_REQUESTS_LIMIT).unwrap_or(i64::MAX);
    clap::value_parser!(u16).range(1..=limit)
}
