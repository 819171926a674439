//! A node whose namespace is missing although its disks hold files.
//!
//! Such a node refuses to start, because it would serve an empty cluster over full disks. The
//! administrator chooses: the node rebuilds the namespace from the descriptions on the disks, or it
//! starts without files.
//!
//! Invariant: clients see no name before a rebuild has finished. A marker file beside the namespace
//! survives a crash; the node removes it after it has read the disks of all nodes.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pario_net::write_private_file;
use pario_proto::{CheckDepth, CheckReport, CheckRequest, Failure};
use parking_lot::Mutex;

use crate::check;
use crate::config::{Config, NodeConfig};
use crate::disks::NodeDisks;
use crate::error::NodeError;
use crate::node_state::NodeState;

/// The period at which the node checks whether all others have joined.
const CHECK_PERIOD: Duration = Duration::from_millis(100);

/// What a node does if its namespace is missing and its disks hold files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingNamespace {
    /// It does not start.
    #[default]
    Refuse,
    /// It rebuilds the namespace from the descriptions on the disks of all nodes.
    Rebuild,
    /// It starts without files. Subfiles stay on the disks, and `pario fsck` shows them.
    New,
}

/// The rebuild that a node was started with.
#[derive(Debug, Default)]
pub struct Rebuild {
    is_pending: AtomicBool,
    /// The nodes that have joined since the start of this one.
    joined: Mutex<HashSet<usize>>,
    report: Mutex<Option<CheckReport>>,
}

/// Decides whether the interface node may start, and whether it rebuilds the namespace.
pub fn decide(
    own: &NodeConfig,
    disks: &NodeDisks,
    choice: MissingNamespace,
) -> Result<Rebuild, NodeError> {
    let (path, marker) = (own.data.join("namespace.redb"), marker(&own.data));
    let is_missing = !path.exists();
    let was_interrupted = marker.exists();
    if choice == MissingNamespace::New && !is_missing {
        let path = path.display();
        return Err(NodeError::Other(format!(
            "{path} exists, so --new would hide its files: start the node without --new, or move \
             the file away first"
        )));
    }
    if choice == MissingNamespace::Refuse {
        let evidence = if was_interrupted {
            Some("the rebuild of its namespace was not finished".to_owned())
        } else if is_missing {
            evidence(own, disks)?
        } else {
            None
        };
        if let Some(evidence) = evidence {
            return Err(NodeError::NamespaceMissing {
                node: own.name.clone(),
                path: path.display().to_string(),
                evidence,
            });
        }
    }
    let is_rebuild = choice == MissingNamespace::Rebuild;
    let marked = match (is_rebuild, was_interrupted) {
        (true, _) => write_private_file(&marker, "").and_then(|()| sync_directory(&own.data)),
        (false, true) => fs::remove_file(&marker),
        (false, false) => Ok(()),
    };
    marked.map_err(|error| NodeError::io(&marker, error))?;
    Ok(Rebuild { is_pending: AtomicBool::new(is_rebuild), ..Rebuild::default() })
}

/// Refuses a choice about the namespace on a node that keeps none.
pub fn check_role(config: &Config, me: usize, choice: MissingNamespace) -> Result<(), NodeError> {
    if choice == MissingNamespace::Refuse || me == config.interface {
        return Ok(());
    }
    let (own, interface) = (&config.nodes[me].name, &config.nodes[config.interface].name);
    Err(NodeError::Other(format!(
        "node {own:?} keeps no namespace: --rebuild and --new are for the interface node, \
         {interface:?}"
    )))
}

/// Returns a sign that the cluster had files or existed.
fn evidence(own: &NodeConfig, disks: &NodeDisks) -> Result<Option<String>, NodeError> {
    let subfiles = disks.count_subfiles().map_err(NodeError::Disk)?;
    let map = own.data.join("cluster.map");
    Ok(match subfiles {
        0 if map.exists() => Some(format!("{} shows that the cluster existed", map.display())),
        0 => None,
        1 => Some("its disks hold a subfile".to_owned()),
        count => Some(format!("its disks hold {count} subfiles")),
    })
}

impl Rebuild {
    /// Returns whether the rebuild has not finished.
    pub fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Acquire)
    }

    /// Notes that a node has joined.
    pub fn note_join(&self, node: usize) {
        self.joined.lock().insert(node);
    }

    /// Returns the report of a finished rebuild.
    pub fn report(&self) -> Option<CheckReport> {
        self.report.lock().clone()
    }

    /// Returns the refusal of a namespace request during the rebuild.
    pub fn refusal(&self, config: &Config, me: usize) -> Option<Failure> {
        if !self.is_pending() {
            return None;
        }
        let joined = self.joined.lock();
        let missing =
            |(number, _): &(usize, &NodeConfig)| *number != me && !joined.contains(number);
        let missing: Vec<_> = config.nodes.iter().enumerate().filter(missing).collect();
        let names: Vec<_> = missing.iter().map(|(_, node)| node.name.as_str()).collect();
        let waits = match names.len() {
            0 => "ask again when it is done".to_owned(),
            _ => format!("it waits for the disks of {}: start these nodes", names.join(", ")),
        };
        let why = format!("its namespace is being rebuilt from the disks; {waits}");
        Some(Failure::Refused { node: config.nodes[me].name.clone(), why })
    }
}

/// Rebuilds the namespace if all nodes have joined. Returns whether no rebuild is pending any more.
pub fn try_rebuild(shared: &Arc<NodeState>) -> Result<bool, Failure> {
    let rebuild = &shared.rebuild;
    if !rebuild.is_pending() {
        return Ok(true);
    }
    if rebuild.joined.lock().len() + 1 < shared.config.nodes.len() {
        return Ok(false);
    }
    let what = CheckRequest { depth: CheckDepth::Names, is_repair: false, is_rebuild: true };
    let report = check::check(shared, what)?;
    if !report.silent_nodes.is_empty() {
        return Ok(false);
    }
    let marker = marker(&shared.node().data);
    if let Err(error) = fs::remove_file(&marker).and_then(|()| sync_directory(&shared.node().data))
    {
        tracing::warn!("{} cannot be removed: {error}", marker.display());
    }
    tracing::info!(findings = report.findings.len(), "the namespace was rebuilt from the disks");
    *rebuild.report.lock() = Some(report);
    rebuild.is_pending.store(false, Ordering::Release);
    Ok(true)
}

/// The thread that rebuilds the namespace of several nodes; returns when it is done or the node
/// stops.
pub fn rebuild_when_joined(shared: &Arc<NodeState>) {
    while !shared.shutdown.is_requested() {
        match try_rebuild(shared) {
            Ok(true) => return,
            Ok(false) => {}
            Err(failure) => {
                tracing::warn!(%failure, "the rebuild of the namespace failed, and will be tried again")
            }
        }
        shared.shutdown.pause(CHECK_PERIOD);
    }
}

fn marker(data: &Path) -> PathBuf {
    data.join("namespace.rebuilding")
}

fn sync_directory(dir: &Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()
}
