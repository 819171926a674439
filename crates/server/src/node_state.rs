//! The state that all threads of a node share.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pario_net::SpaceId;
use pario_proto::{
    ClusterMap, Failure, FileRecord, Grant, Identity, REMOVED_RIGHTS_VERSION, Revocation,
};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::atomic_files::AtomicFiles;
use crate::audit::AuditLog;
use crate::config::{Config, NodeConfig};
use crate::disks::NodeDisks;
use crate::event_log::EventLog;
use crate::grant::GrantKey;
use crate::grant_epochs::GrantEpochs;
use crate::grant_window::{GrantRefusal, GrantWindow};
use crate::job_memory::JobMemories;
use crate::lease::LeaseTable;
use crate::limits::Quotas;
use crate::map_waiters::MapWaiters;
use crate::modules::ModuleHost;
use crate::namespace::Namespace;
use crate::node::description_writer::DescriptionWriter;
use crate::node::missing_namespace::Rebuild;
use crate::node::subfile_reaper::SubfileReaper;
use crate::open_files::OpenFiles;
use crate::operation::OperationRegistry;
use crate::peers::Peers;
use crate::processing::RunningCalls;
use crate::record_locks::RecordLocks;
use crate::request_meter::RequestMeter;
use crate::sessions::Sessions;
use crate::short_cut_traffic::ShortCutTraffic;
use crate::storage_threads::StorageThreads;

/// The state that all threads of a node share.
pub struct NodeState {
    /// The configuration of the cluster.
    pub config: Config,
    /// The number of this node in it.
    pub me: usize,
    /// The user that runs the node.
    pub administrator: Identity,
    pub disks: NodeDisks,
    pub grants: GrantKey,
    /// The threads that serve the disks.
    pub storage_threads: Arc<StorageThreads>,
    pub leases: LeaseTable,
    /// The traffic of clients with the short cut.
    pub short_cut_traffic: ShortCutTraffic,
    pub sessions: Sessions,
    /// The use of limited resources by users.
    pub quotas: Arc<Quotas>,
    /// The name of this node.
    pub label: Arc<str>,
    /// The counters of answered requests.
    pub requests: RequestMeter,
    pub job_memories: JobMemories,
    /// The openers of the files whose home is this node.
    pub atomic_files: AtomicFiles,
    /// The operations on extents that this node can run.
    pub operations: Arc<OperationRegistry>,
    /// The operations that arrived as modules.
    pub modules: ModuleHost,
    /// The processing calls at this node.
    pub calls: RunningCalls,
    pub peers: Peers,
    pub map_waiters: MapWaiters,
    pub audit: Arc<AuditLog>,
    pub events: Arc<EventLog>,
    /// The current map of the cluster.
    pub map: RwLock<ClusterMap>,
    /// Held while the map is written to its file. Never taken while `map` is locked.
    pub map_file: Mutex<()>,
    /// Which grants are valid.
    pub grant_window: RwLock<GrantWindow>,
    /// Set on the interface node.
    pub interface: Option<InterfaceState>,
    /// The rebuild of the namespace, if the node was started with one.
    pub rebuild: Rebuild,
    pub started: Instant,
    pub shutdown: Shutdown,
}

/// The state of the interface node.
pub struct InterfaceState {
    pub namespace: Namespace,
    pub open_files: OpenFiles,
    pub locks: RecordLocks,
    pub subfile_reaper: SubfileReaper,
    pub description_writer: DescriptionWriter,
    pub grant_epochs: Mutex<GrantEpochs>,
    /// Nodes that have not acknowledged a revocation, and must load all of them again.
    pub uninformed_nodes: Mutex<BTreeSet<usize>>,
    /// The number of the disk on which the next file begins.
    pub next_first_disk: AtomicU64,
}

impl InterfaceState {
    /// Closes a file of a client. Releases its locks, unless the client has opened the file once
    /// more. Removes the subfiles if the file is deleted and no other client has it open.
    pub fn close(&self, handle: u64, space: SpaceId) {
        let Some((file, _)) = self.open_files.find(handle, space) else { return };
        if let Some(record) = self.open_files.close(handle, space) {
            self.subfile_reaper.remove(record);
        }
        self.locks.close(&self.open_files, file, space);
    }

    /// Closes all files of a lost client.
    pub fn remove_client(&self, space: SpaceId) {
        for record in self.open_files.close_all_of(space) {
            self.subfile_reaper.remove(record);
        }
        self.locks.lose(space);
    }
}

/// Whether the node stops, and the requests under way.
#[derive(Default)]
pub struct Shutdown {
    is_requested: AtomicBool,
    state: Mutex<RequestsUnderWay>,
    changed: Condvar,
}

#[derive(Default)]
struct RequestsUnderWay {
    requests: HashMap<u64, Instant>,
    next: u64,
}

/// A request under way; it ends when this is dropped.
pub struct RequestTicket {
    shared: Arc<NodeState>,
    number: u64,
}

impl NodeState {
    /// The time since the start of this node.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the configuration of this node.
    pub fn node(&self) -> &NodeConfig {
        &self.config.nodes[self.me]
    }

    /// Returns the name of this node.
    pub fn name(&self) -> &str {
        &self.node().name
    }

    /// Returns the state of the interface node; fails on other nodes.
    pub fn interface(&self) -> Result<&InterfaceState, Failure> {
        self.interface.as_ref().ok_or_else(|| Failure::NotInterface {
            node: self.name().to_owned(),
            interface: self.config.nodes[self.config.interface].name.clone(),
        })
    }

    /// Returns whether a user may administer the cluster.
    pub fn is_administrator(&self, who: &Identity) -> bool {
        who.is_root() || who.uid == self.administrator.uid
    }

    /// Checks that a grant is valid now, and allows reading or writing.
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

    /// Revokes grants of older versions of a file's rights on this node.
    pub fn revoke(&self, revocation: Revocation) {
        let is_news = self.grant_window.write().revoke(revocation);
        let (file, is_removed) =
            (revocation.file, revocation.first_valid == REMOVED_RIGHTS_VERSION);
        if is_news
            && !is_removed
            && let Err(error) = self.leases.raise(file)
        {
            tracing::error!(%file, %error, "the lease cannot be raised; clients with descriptors do not learn that rights have changed");
        }
    }

    /// Revokes all grants of files whose subfiles are being removed.
    pub fn revoke_removed(&self, files: &[FileRecord], epoch: u64) {
        let mut window = self.grant_window.write();
        for record in files {
            let first_valid = REMOVED_RIGHTS_VERSION;
            window.revoke(Revocation { file: record.id, first_valid, epoch });
        }
    }

    /// Returns the grant epoch that this node knows.
    pub fn known_grant_epoch(&self) -> u64 {
        self.grant_window.read().epoch().unwrap_or(0)
    }

    /// Returns a grant with which this node continues to work for a client, whose own grant may
    /// have expired since it was checked.
    pub fn reissue(&self, grant: &Grant) -> Grant {
        self.grants.reissue(grant, self.known_grant_epoch())
    }

    /// Registers a request; fails if the node stops.
    pub fn begin(self: &Arc<Self>) -> Result<RequestTicket, Failure> {
        let mut state = self.shutdown.state.lock();
        if self.shutdown.is_requested() {
            return Err(Failure::Stopping { node: self.name().to_owned() });
        }
        let number = state.next;
        state.next += 1;
        state.requests.insert(number, Instant::now());
        Ok(RequestTicket { shared: self.clone(), number })
    }
}

impl Drop for RequestTicket {
    fn drop(&mut self) {
        let shutdown = &self.shared.shutdown;
        let mut state = shutdown.state.lock();
        state.requests.remove(&self.number);
        if state.requests.is_empty() && shutdown.is_requested() {
            shutdown.changed.notify_all();
        }
    }
}

impl Shutdown {
    /// Requests the stop of the node: it refuses new requests from now on.
    pub fn request(&self) {
        let _state = self.state.lock();
        self.is_requested.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Returns whether the stop is requested.
    pub fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::SeqCst)
    }

    /// Waits until the stop is requested.
    pub fn wait_until_requested(&self) {
        let mut state = self.state.lock();
        while !self.is_requested() {
            self.changed.wait(&mut state);
        }
    }

    /// Waits for a time, or until the stop is requested.
    pub fn pause(&self, time: Duration) {
        let mut state = self.state.lock();
        if !self.is_requested() {
            self.changed.wait_for(&mut state, time);
        }
    }

    /// Waits until no request is under way, or until the deadline. Returns whether no request is.
    pub fn wait_until_idle(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while !state.requests.is_empty() {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return state.requests.is_empty();
            }
        }
        true
    }

    /// Returns the number of requests under way, and the age of the oldest in milliseconds.
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
