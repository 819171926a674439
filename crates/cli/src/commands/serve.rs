//! `pario serve`

use std::io::{Write, stderr};
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
use crate::{amounts, reach, terminal};

/// Lines for the help.
pub const EXAMPLES: &str = "pario serve\n  pario serve --data /mnt/ssd/pario\n  \
                            pario serve --config cluster.toml --node a\n  \
                            pario serve --data /mnt/ssd/pario --rebuild\n  \
                            PARIO_LOG=debug pario serve";

/// Where a node without a configuration keeps everything.
pub const DEFAULT_DATA: &str = "./pario-data";

/// How long a node has to hear that it should stop.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// What it takes.
#[derive(Args, Debug)]
pub struct Options {
    /// The configuration of the cluster
    #[arg(long, value_name = "FILE", requires = "node")]
    config: Option<PathBuf>,

    /// Which node of the configuration this is
    #[arg(long, value_name = "NAME", requires = "config")]
    node: Option<String>,

    /// Threads that serve the disks, at most one for each; disks that share one wait for each other
    #[arg(long, value_name = "NUMBER", conflicts_with = "config")]
    storage_threads: Option<NonZeroUsize>,

    /// Make the names from what the disks of all nodes say, before clients see them
    #[arg(long)]
    rebuild: bool,

    /// Start without files though the namespace is missing; what is on the disks stays there
    #[arg(long, conflicts_with = "rebuild")]
    new: bool,
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
    let (config, name) = match (&options.config, &options.node) {
        (Some(_), Some(_)) if global.data.is_some() => {
            let text = "--data and --config cannot be used together: the configuration says where \
                        each node keeps its data";
            return Err(Usage(text.to_owned()).into());
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
    let node = node().missing_namespace(options.missing_namespace()).start(&config, &name)?;
    announce(global, &config, &name, &node)?;

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
    node.stop();
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

fn announce(global: &Global, config: &Config, name: &str, running: &Node) -> anyhow::Result<()> {
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
    tracing_subscriber::fmt().with_max_level(level).with_writer(stderr).init();
    Ok(())
}
