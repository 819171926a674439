//! What all threads of a node share.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pario_net::SpaceId;
use pario_proto::{
    ClusterMap, Failure, FileRecord, Grant, Identity, REMOVED_RIGHTS_VERSION, Revocation,
};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::audit::Audit;
use crate::config::{Config, NodeConfig};
use crate::disks::NodeDisks;
use crate::event_log::EventLog;
use crate::grant::GrantKey;
use crate::grant_epochs::GrantEpochs;
use crate::grant_window::{GrantRefusal, GrantWindow};
use crate::job_memory::JobMemories;
use crate::lease::Leases;
use crate::limits::Quotas;
use crate::namespace::Namespace;
use crate::node::describer::Describer;
use crate::node::janitor::Janitor;
use crate::node::missing_namespace::Rebuild;
use crate::open_files::OpenFiles;
use crate::operation::OperationRegistry;
use crate::peers::Peers;
use crate::processing::Calls;
use crate::record_locks::RecordLocks;
use crate::request_meter::RequestMeter;
use crate::sessions::Sessions;
use crate::short_cut_traffic::ShortCutTraffic;
use crate::strangers::Strangers;

/// What all threads of a node share.
pub struct Shared {
    /// The cluster as configured.
    pub config: Config,
    /// Which node of it this is.
    pub me: usize,
    /// The user that runs the node.
    pub administrator: Identity,
    pub disks: NodeDisks,
    pub grants: GrantKey,
    pub leases: Leases,
    /// What clients read and write by themselves.
    pub short_cut_traffic: ShortCutTraffic,
    pub sessions: Sessions,
    /// What users have taken of this node.
    pub quotas: Arc<Quotas>,
    /// The name of this node.
    pub label: Arc<str>,
    /// Requests that this node has answered.
    pub requests: RequestMeter,
    pub job_memories: JobMemories,
    /// What can be done with extents here.
    pub operations: Arc<OperationRegistry>,
    /// What is being done with extents here.
    pub calls: Calls,
    pub peers: Peers,
    pub strangers: Strangers,
    pub audit: Arc<Audit>,
    pub events: Arc<EventLog>,
    /// The cluster as it is.
    pub map: RwLock<ClusterMap>,
    /// Held while the map is written to its file. Never taken while `map` is locked.
    pub map_file: Mutex<()>,
    /// Which grants are valid.
    pub grant_window: RwLock<GrantWindow>,
    /// Only at the interface node.
    pub names: Option<Names>,
    /// The rebuild of the namespace, if the node was started with one.
    pub rebuild: Rebuild,
    pub started: Instant,
    pub stopping: Stopping,
}

/// What only the interface node has.
pub struct Names {
    pub namespace: Namespace,
    pub open_files: OpenFiles,
    pub locks: RecordLocks,
    pub janitor: Janitor,
    pub describer: Describer,
    pub grant_epochs: Mutex<GrantEpochs>,
    /// Nodes that have not acknowledged a revocation, and must load all again.
    pub untold: Mutex<BTreeSet<usize>>,
    /// Where the next file begins.
    pub next_first_disk: AtomicU64,
}

impl Names {
    /// A client has closed a file. What it had locked is free, unless it has opened it once more;
    /// and if it was deleted and nobody else has it open, its subfiles go.
    pub fn close(&self, handle: u64, space: SpaceId) {
        let Some((file, _)) = self.open_files.find(handle, space) else { return };
        if let Some(record) = self.open_files.close(handle, space) {
            self.janitor.remove(record);
        }
        self.locks.close(&self.open_files, file, space);
    }

    /// A client is gone, with all that it had open.
    pub fn lose(&self, space: SpaceId) {
        for record in self.open_files.leave(space) {
            self.janitor.remove(record);
        }
        self.locks.lose(space);
    }
}

/// Whether the node is stopping, and how many requests are under way.
#[derive(Default)]
pub struct Stopping {
    is_asked: AtomicBool,
    state: Mutex<UnderWay>,
    changed: Condvar,
}

#[derive(Default)]
struct UnderWay {
    requests: HashMap<u64, Instant>,
    next: u64,
}

/// A request that is under way; it is over when this is dropped.
pub struct Ticket {
    shared: Arc<Shared>,
    number: u64,
}

impl Shared {
    /// The configuration of this node.
    pub fn node(&self) -> &NodeConfig {
        &self.config.nodes[self.me]
    }

    /// The name of this node.
    pub fn name(&self) -> &str {
        &self.node().name
    }

    /// What the interface node has; others refuse.
    pub fn names(&self) -> Result<&Names, Failure> {
        self.names.as_ref().ok_or_else(|| Failure::NotInterface {
            node: self.name().to_owned(),
            interface: self.config.nodes[self.config.interface].name.clone(),
        })
    }

    /// Whether a user may administer the cluster.
    pub fn is_administrator(&self, who: &Identity) -> bool {
        who.is_root() || who.uid == self.administrator.uid
    }

    /// Whether a grant allows this, here and now.
    pub fn check_grant(&self, grant: &Grant, read: bool, write: bool) -> Result<(), Failure> {
        let bad = |why: &str| Failure::BadGrant { file: grant.file, why: why.to_owned() };
        if !self.grants.is_genuine(grant) {
            return Err(bad("it was not given by this cluster"));
        }
        if read && !grant.access.read {
            return Err(bad("the file was not opened for reading"));
        }
        if write && !grant.access.write {
            return Err(bad("the file was not opened for writing"));
        }
        self.grant_window.read().check(grant).map_err(|refusal| match refusal {
            GrantRefusal::Expired => Failure::GrantExpired { file: grant.file },
            GrantRefusal::Revoked => Failure::Revoked { file: grant.file },
            GrantRefusal::Deleted => Failure::Deleted { file: grant.file },
            GrantRefusal::Uninformed => Failure::Uninformed {
                node: self.name().to_owned(),
                interface: self.config.nodes[self.config.interface].name.clone(),
            },
        })
    }

    /// From now on grants of older versions of a file's rights are not valid here.
    pub fn revoke(&self, revocation: Revocation) {
        let is_news = self.grant_window.write().revoke(revocation);
        let (file, is_removed) =
            (revocation.file, revocation.first_valid == REMOVED_RIGHTS_VERSION);
        if is_news
            && !is_removed
            && let Err(error) = self.leases.raise(file)
        {
            tracing::error!(%file, %error, "clients cannot be told that rights have changed");
        }
    }

    /// No grant of these files is valid here any more: their subfiles are removed.
    pub fn bury(&self, files: &[FileRecord], epoch: u64) {
        let mut window = self.grant_window.write();
        for record in files {
            let first_valid = REMOVED_RIGHTS_VERSION;
            window.revoke(Revocation { file: record.id, first_valid, epoch });
        }
    }

    /// The grant epoch as this node knows it.
    pub fn known_grant_epoch(&self) -> u64 {
        self.grant_window.read().epoch().unwrap_or(0)
    }

    /// A grant with which this node goes on to work for a client whose own may have expired since it
    /// was checked.
    pub fn reissue(&self, grant: &Grant) -> Grant {
        self.grants.reissue(grant, self.known_grant_epoch())
    }

    /// Notes a request; none once the node is stopping.
    pub fn begin(self: &Arc<Self>) -> Result<Ticket, Failure> {
        let mut state = self.stopping.state.lock();
        if self.stopping.is_asked() {
            return Err(Failure::Stopping { node: self.name().to_owned() });
        }
        let number = state.next;
        state.next += 1;
        state.requests.insert(number, Instant::now());
        Ok(Ticket { shared: self.clone(), number })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let stopping = &self.shared.stopping;
        let mut state = stopping.state.lock();
        state.requests.remove(&self.number);
        if state.requests.is_empty() && stopping.is_asked() {
            stopping.changed.notify_all();
        }
    }
}

impl Stopping {
    /// New requests are refused from now on.
    pub fn ask(&self) {
        let _state = self.state.lock();
        self.is_asked.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Whether the node is stopping.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }

    /// Waits until the node is asked to stop.
    pub fn wait_until_asked(&self) {
        let mut state = self.state.lock();
        while !self.is_asked() {
            self.changed.wait(&mut state);
        }
    }

    /// Waits for a while, or until the node is asked to stop.
    pub fn pause(&self, time: Duration) {
        let mut state = self.state.lock();
        if !self.is_asked() {
            self.changed.wait_for(&mut state, time);
        }
    }

    /// Waits until nothing is under way, but not after the deadline; whether that is so.
    pub fn wait_until_idle(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while !state.requests.is_empty() {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return state.requests.is_empty();
            }
        }
        true
    }

    /// How many requests are under way, and since when the oldest is, in milliseconds.
    pub fn under_way(&self) -> (u64, u64) {
        let state = self.state.lock();
        let oldest = state
            .requests
            .values()
            .min()
            .map_or(0, |since| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX));
        (state.requests.len() as u64, oldest)
    }
}
