//! A node: starts and stops its threads.

mod address_notes;
mod builder;
#[cfg(test)]
mod clock_tests;
mod collective_service;
pub mod description_writer;
mod dispatcher;
mod grant_news;
mod joining;
mod leader_slot;
mod membership_task;
pub mod missing_namespace;
mod module_requests;
pub mod monitor;
#[cfg(test)]
mod panic_tests;
mod periodic_tasks;
mod processing;
mod short_cut;
pub mod subfile_reaper;

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use builder::NodeBuilder;
pub use missing_namespace::MissingNamespace;
use missing_namespace::Rebuild;
pub use monitor::NodeMonitor;
use pario_flow::RunningProgram;
use pario_net::wire::WireLimits;
use pario_net::{Credit, DescriptorServer, Key, Options, PortOptions, RpcServer, Space};
use pario_proto::{CheckReport, ClusterMap, Identity, NodeInfo, REQUEST_PORT, TOKEN_LIMIT_BYTES};
use parking_lot::{Mutex, RwLock};

use crate::atomic_files::AtomicFiles;
use crate::audit::AuditLog;
use crate::config::{Config, NodeConfig, ShortCut};
use crate::disks::NodeDisks;
use crate::error::NodeError;
use crate::grant::GrantKey;
use crate::grant_epochs::GrantEpochs;
use crate::job_memory::JobMemories;
use crate::lease::LeaseTable;
use crate::limits::Quotas;
use crate::map_waiters::MapWaiters;
use crate::metadata::{MetadataError, RedbStore};
use crate::modules::ModuleHost;
use crate::namespace::{Namespace, WallClock};
use crate::node_state::{InterfaceState, NodeState, Shutdown};
use crate::open_files::OpenFiles;
use crate::operation::OperationRegistry;
use crate::peers::Peers;
use crate::private_files;
use crate::processing::RunningCalls;
use crate::program::{self, Operations};
use crate::record_locks::RecordLocks;
use crate::request_meter::RequestMeter;
use crate::sessions::Sessions;
use crate::short_cut_traffic::ShortCutTraffic;
use crate::storage_threads::StorageThreads;

/// How long a node that stops waits for requests under way.
const STOP_WAIT: Duration = Duration::from_secs(10);
/// The limit of bytes that clients have sent and the node has not received.
const REQUEST_CREDIT_BYTES: usize = 16 << 20;
/// Channels that one connection may open at the node; clients need one.
const ROUTES_PER_CLIENT: usize = 4;

/// A node of a cluster, in threads of this process.
///
/// Dropping it stops it like [`stop`](Node::stop).
pub struct Node {
    shared: Arc<NodeState>,
    space: Space,
    run: Option<Arc<RunningProgram>>,
    threads: Vec<JoinHandle<()>>,
    short_cut: Option<DescriptorServer>,
    notes: address_notes::AddressNotes,
    /// Whether other processes can reach it.
    listens: bool,
}

/// The receivers for the background threads of the interface node.
struct BackgroundReceivers {
    removals: mpsc::Receiver<subfile_reaper::ReaperMessage>,
    descriptions: mpsc::Receiver<description_writer::WriterMessage>,
}

/// How clients find a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Discovery {
    /// They run in the same process.
    InProcess,
    /// They know its address or its data directory.
    ByAddress,
    /// Programs of the same user find it.
    ByUser,
}

impl Node {
    /// Returns a builder, for a node with operations of its own ([`NodeBuilder::operation`]).
    #[expect(clippy::new_ret_no_self, reason = "it is not running yet")]
    pub fn new() -> NodeBuilder {
        NodeBuilder::default()
    }

    /// Starts a node of a cluster.
    pub fn start(config: &Config, node: &str) -> Result<Self, NodeError> {
        Self::new().start(config, node)
    }

    /// Starts a node that programs of this user do not find by themselves: it notes its address
    /// only in its data directory.
    pub fn start_beside(config: &Config, node: &str) -> Result<Self, NodeError> {
        Self::new().start_beside(config, node)
    }

    /// Starts a node for this process alone, without a socket file.
    pub fn embed(config: &Config, node: &str) -> Result<Self, NodeError> {
        Self::new().embed(config, node)
    }

    fn launch(
        config: &Config,
        node: &str,
        operations: Arc<OperationRegistry>,
        discovery: Discovery,
        (missing_namespace, clock): (MissingNamespace, WallClock),
    ) -> Result<Self, NodeError> {
        let listens = discovery != Discovery::InProcess;
        let Some(me) = config.nodes.iter().position(|known| known.name == node) else {
            let known: Vec<&str> = config.nodes.iter().map(|node| node.name.as_str()).collect();
            return Err(NodeError::UnknownNode {
                cluster: config.name.clone(),
                node: node.to_owned(),
                known: known.join(", "),
            });
        };
        let own = &config.nodes[me];
        if listens {
            crate::descriptor_limit::raise_limit();
        }
        create_data_directory(own)?;
        let disks = NodeDisks::open(own)?;
        let administrator = administrator();
        let key = config.key_file.as_deref().map(read_key).transpose()?;
        let grants = match &key {
            Some(key) => GrantKey::of_cluster(key),
            None => {
                let path = own.data.join("grants.key");
                GrantKey::of_node(&path).map_err(|error| NodeError::io(&path, error))?
            }
        };
        missing_namespace::check_role(config, me, missing_namespace)?;
        let mut rebuild = Rebuild::default();
        let (interface, background) = if me == config.interface {
            rebuild = missing_namespace::decide(own, &disks, missing_namespace)?;
            let (interface, background) =
                open_interface(own, &administrator, config.grant_epoch, clock.clone())?;
            (Some(interface), Some(background))
        } else {
            (None, None)
        };
        let space = listen(config, own, key.clone(), listens)?;
        let table = own.data.join("leases");
        let leases =
            LeaseTable::open(&table).map_err(|error| NodeError::io(&table, error.into()))?;
        let shared = Arc::new(NodeState {
            config: config.clone(),
            me,
            disks,
            grants,
            storage_threads: Arc::new(StorageThreads::new(
                own.storage_threads,
                own.concurrent_requests,
            )),
            leases,
            short_cut_traffic: ShortCutTraffic::new(own.disks.len()),
            sessions: Sessions::default(),
            quotas: Arc::new(Quotas::new(&own.name, administrator.uid)),
            label: own.name.as_str().into(),
            requests: RequestMeter::default(),
            job_memories: JobMemories::default(),
            atomic_files: AtomicFiles::default(),
            operations,
            modules: ModuleHost::default(),
            calls: RunningCalls::default(),
            peers: Peers::new(config, me, administrator.clone(), key),
            map_waiters: MapWaiters::default(),
            audit: Arc::new(open_audit(own, clock)?),
            events: Arc::default(),
            administrator,
            map: RwLock::new(first_map(config, me, &space)),
            map_file: Mutex::default(),
            grant_window: RwLock::default(),
            interface,
            rebuild,
            started: Instant::now(),
            shutdown: Shutdown::default(),
        });
        joining::load_saved_map(&shared);
        if shared.interface.is_some() {
            grant_news::load_own_revocations(&shared)
                .and_then(|()| joining::register_own_disks(&shared))
                .map_err(|failure| NodeError::Other(failure.to_string()))?;
        }
        let (run, operations) = program::launch(&shared)?;
        let run = Arc::new(run);
        let mut node = Self {
            shared: shared.clone(),
            space,
            run: Some(run.clone()),
            threads: vec![],
            short_cut: None,
            notes: address_notes::AddressNotes::default(),
            listens,
        };
        node.start_threads(run.clone(), operations, background)?;
        if config.nodes.len() == 1 {
            let rebuilt = missing_namespace::try_rebuild(&shared);
            rebuilt.map_err(|failure| NodeError::Other(failure.to_string()))?;
        }
        if listens {
            let address = node.address();
            node.notes.write(config, own, discovery, &address)?;
        }
        if listens && own.short_cut != ShortCut::Off {
            match short_cut::open(&shared, run, operations) {
                Ok(server) => node.short_cut = Some(server),
                Err(error) => {
                    tracing::warn!(%error, "the node cannot open its descriptor socket; clients on this machine have no short cut")
                }
            }
        }
        if listens {
            node.log_start(config);
        }
        Ok(node)
    }

    /// Logs that the node has started, with its disks.
    fn log_start(&self, config: &Config) {
        let own = self.shared.node();
        let tcp = own.listen.map(|address| format!(" and tcp:{address}")).unwrap_or_default();
        let source = match &config.source {
            Some(file) => format!("configuration {}", file.display()),
            None => "no configuration file".to_owned(),
        };
        tracing::info!(
            "node {} of cluster {} has started: pario {}, process {}, {source}, data in {}, \
             listening on unix:{}{tcp}",
            own.name,
            config.name,
            env!("CARGO_PKG_VERSION"),
            std::process::id(),
            own.data.display(),
            own.socket.display(),
        );
        for (disk, look) in own.disks.iter().zip(self.shared.disks.status(&[])) {
            let read_only = if disk.is_read_only { ", read-only" } else { "" };
            tracing::info!(
                "disk {}/{} ({}): {} MiB of {} MiB are free{read_only}",
                own.name,
                look.disk.label,
                look.path,
                look.free_bytes >> 20,
                look.total_bytes >> 20,
            );
        }
    }

    /// Starts the threads that are not part of the program.
    fn start_threads(
        &mut self,
        run: Arc<RunningProgram>,
        operations: Operations,
        background: Option<BackgroundReceivers>,
    ) -> Result<(), NodeError> {
        let options = PortOptions { credit_bytes: Credit::Bytes(REQUEST_CREDIT_BYTES) };
        let port = RpcServer::new(&self.space, REQUEST_PORT, options)
            .map_err(|error| NodeError::Other(error.to_string()))?;
        if let Some(interface) = &self.shared.interface {
            interface.description_writer.connect(&run, operations);
        }
        let dispatcher =
            dispatcher::Dispatcher::new(self.shared.clone(), run.clone(), operations, port);
        let dispatcher = Arc::new(dispatcher);
        let watched = dispatcher.clone();
        let mut start = |name: &str, body: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
            thread
                .map(|thread| self.threads.push(thread))
                .map_err(|error| NodeError::Other(format!("cannot start a thread: {error}")))
        };
        if self.shared.interface.is_none() {
            // If the interface node can be reached, this node joins, and loads the revocations,
            // before it serves the first request.
            joining::ensure_joined(&self.shared);
        }
        for number in 0..dispatcher::DISPATCH_THREADS {
            let dispatcher = dispatcher.clone();
            start("dispatcher", Box::new(move || dispatcher.serve(number == 0)))?;
        }
        if let Some(BackgroundReceivers { removals, descriptions }) = background {
            let (of, running) = (self.shared.clone(), run.clone());
            let describe =
                move || description_writer::run_thread(&of, &running, &operations, &descriptions);
            start("descriptions", Box::new(describe))?;
            let (shared, run) = (self.shared.clone(), run.clone());
            start(
                "subfile reaper",
                Box::new(move || subfile_reaper::run_thread(&shared, &run, &operations, &removals)),
            )?;
            if let Some(interface) = &self.shared.interface {
                let left = interface.namespace.tombstones();
                for record in left.map_err(|failure| NodeError::Other(failure.to_string()))? {
                    interface.subfile_reaper.remove(record);
                }
            }
        }
        let shared = self.shared.clone();
        if shared.interface.is_some() && shared.node().wait_warning.is_some() {
            start("wait warnings", Box::new(move || watched.warn_of_long_waits()))?;
        }
        if shared.rebuild.is_pending() && shared.config.nodes.len() > 1 {
            let shared = shared.clone();
            let body = move || missing_namespace::rebuild_when_joined(&shared);
            start("rebuild", Box::new(body))?;
        }
        let updating = shared.clone();
        start("updates", Box::new(move || periodic_tasks::send_updates(&updating)))?;
        let (measuring, space) = (shared.clone(), self.space.clone());
        start("disk watch", Box::new(move || periodic_tasks::watch_disks(&measuring, &space)))?;
        start("membership", Box::new(move || membership_task::run_thread(&shared)))
    }

    /// Returns the operations on extents that the node can run. More can be added while it runs.
    pub fn operations(&self) -> &Arc<OperationRegistry> {
        &self.shared.operations
    }

    /// Returns the address of the node as text.
    pub fn address(&self) -> String {
        self.space.address().to_string()
    }

    /// Returns a monitor of the node. It does not keep the node running.
    pub fn monitor(&self) -> NodeMonitor {
        NodeMonitor::new(Arc::downgrade(&self.shared))
    }

    /// Passes descriptors of flat subfiles to a client in the same process, as the descriptor
    /// socket does to others.
    pub fn descriptors(
        &self,
        request: &[u8],
    ) -> Result<(Vec<u8>, Vec<std::os::fd::OwnedFd>), Vec<u8>> {
        short_cut::pass_in_process(&self.shared, request)
    }

    /// Begins `count` grant epochs at once, as if their time had passed, and waits until they are
    /// durable. Clients must renew grants that are then older than their lifetime. Fails unless
    /// this is the interface node.
    pub fn begin_grant_epochs(&self, count: u64) -> Result<(), NodeError> {
        grant_news::begin_epochs(&self.shared, count)
            .map_err(|failure| NodeError::Other(failure.to_string()))
    }

    /// Returns the report of the rebuild, if the node was started with
    /// [`MissingNamespace::Rebuild`] and has finished it.
    pub fn rebuilt(&self) -> Option<CheckReport> {
        self.shared.rebuild.report()
    }

    /// Waits until a client or [`stopper`](Node::stopper) requests the stop of the node.
    pub fn wait(&self) {
        self.shared.shutdown.wait_until_requested();
    }

    /// Returns a function that makes [`wait`](Node::wait) return, for the thread of a signal
    /// handler.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = Arc::downgrade(&self.shared);
        move || {
            if let Some(shared) = shared.upgrade() {
                shared.shutdown.request();
            }
        }
    }

    /// Stops the node: it finishes requests under way and refuses new ones.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.shutdown.request();
        self.shared.calls.cancel_all();
        self.short_cut.take();
        if !self.shared.shutdown.wait_until_idle(Instant::now() + STOP_WAIT) {
            tracing::warn!("the node stops before some requests have finished");
        }
        if let Some(interface) = &self.shared.interface {
            interface.subfile_reaper.stop();
            interface.description_writer.stop(STOP_WAIT);
        }
        self.notes.remove();
        self.space.close();
        for thread in self.threads.drain(..) {
            // The panic hook has reported a panic of the thread.
            let _ = thread.join();
        }
        self.run.take();
        self.shared.audit.close();
        self.shared.disks.flush_indices();
        self.shared.events.flush_all();
        if self.listens {
            let seconds = self.shared.started.elapsed().as_secs();
            tracing::info!("node {} has stopped, after {seconds} s", self.shared.name());
        }
        // Threads that have served the last requests release the disks shortly after. A new start
        // of the node must find the disks free.
        let deadline = Instant::now() + STOP_WAIT;
        while Arc::strong_count(&self.shared) > 1 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({:?} at {})", self.shared.name(), self.address())
    }
}

/// Returns the user that runs this process.
fn administrator() -> Identity {
    let gid = rustix::process::getegid().as_raw();
    let mut gids = vec![gid];
    if let Ok(others) = rustix::process::getgroups() {
        gids.extend(others.into_iter().map(rustix::process::Gid::as_raw).filter(|&g| g != gid));
    }
    Identity { uid: rustix::process::geteuid().as_raw(), gids }
}

fn open_audit(own: &NodeConfig, clock: WallClock) -> Result<AuditLog, NodeError> {
    if !own.audit {
        return Ok(AuditLog::off());
    }
    AuditLog::open(&own.data, &own.name, clock)
        .map_err(|error| NodeError::io(&own.data.join("audit.log"), error))
}

fn read_key(path: &Path) -> Result<Key, NodeError> {
    let text = pario_net::read_private_file(path, true).map_err(|error| match error.kind() {
        // The error names the file.
        io::ErrorKind::PermissionDenied => {
            NodeError::Other(format!("cannot read the cluster key: {error}"))
        }
        _ => NodeError::io(path, error),
    })?;
    Key::from_hex(&text).map_err(|error| NodeError::Other(format!("{}: {error}", path.display())))
}

fn open_interface(
    own: &NodeConfig,
    administrator: &Identity,
    grant_epoch: Duration,
    clock: WallClock,
) -> Result<(InterfaceState, BackgroundReceivers), NodeError> {
    let path = own.data.join("namespace.redb");
    let store = RedbStore::open(&path).map_err(|error| match error {
        MetadataError::InUse { path } => NodeError::InUse {
            what: path.display().to_string(),
            socket: own.socket.display().to_string(),
        },
        error => NodeError::Metadata(error),
    })?;
    let namespace = Namespace::open(Arc::new(store), &own.name, administrator, clock)?;
    let (subfile_reaper, removals) = subfile_reaper::SubfileReaper::new();
    let (description_writer, descriptions) = description_writer::DescriptionWriter::new();
    let (open_files, locks) = (OpenFiles::default(), RecordLocks::default());
    let next_first_disk = AtomicU64::new(0);
    let epoch = namespace.grant_epoch().map_err(|failure| NodeError::Other(failure.to_string()))?;
    let grant_epochs = Mutex::new(GrantEpochs::new(epoch, grant_epoch, Instant::now()));
    let uninformed_nodes = Mutex::default();
    let interface = InterfaceState {
        namespace,
        open_files,
        locks,
        subfile_reaper,
        description_writer,
        grant_epochs,
        uninformed_nodes,
        next_first_disk,
    };
    Ok((interface, BackgroundReceivers { removals, descriptions }))
}

fn listen(
    config: &Config,
    own: &NodeConfig,
    key: Option<Key>,
    listens: bool,
) -> Result<Space, NodeError> {
    let name = format!("node {} of {}", own.name, config.name);
    let options = Options {
        limits: WireLimits::for_tokens(TOKEN_LIMIT_BYTES),
        routes_per_link: ROUTES_PER_CLIENT,
        names_per_link: ROUTES_PER_CLIENT,
        ..Options::default()
    };
    let mut builder = Space::builder(&name).host().options(options);
    if let Some(key) = key {
        builder = builder.key(key);
    }
    if listens {
        if let Some(dir) = own.socket.parent() {
            create_socket_directory(dir, own.all_users)?;
        }
        builder = builder.listen_unix(&own.socket).admit_any_user(own.all_users);
        if let Some(address) = own.listen {
            builder = builder.listen_tcp(address);
        }
    } else {
        builder = builder.listen_nowhere();
    }
    let space = builder.build()?;
    if listens {
        let mode = socket_mode(own);
        let set = fs::set_permissions(&own.socket, mode);
        set.map_err(|error| NodeError::io(&own.socket, error))?;
    }
    Ok(space)
}

/// Creates the data directory. If all users may use a socket in it, they must be able to pass
/// through it.
fn create_data_directory(own: &NodeConfig) -> Result<(), NodeError> {
    let has_open_socket = own.all_users && own.socket.parent() == Some(&*own.data);
    private_files::create_socket_directory(&own.data, has_open_socket)
        .map_err(|error| NodeError::io(&own.data, error))?;
    // Earlier versions left the modes of some files to the umask.
    for name in ["namespace.redb", "cluster.map", "disks", "grants.key", "leases"] {
        let path = own.data.join(name);
        match private_files::restrict(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(NodeError::io(&path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the mode of the node's sockets, which does not depend on the umask.
fn socket_mode(own: &NodeConfig) -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    fs::Permissions::from_mode(if own.all_users { 0o666 } else { 0o600 })
}

/// Creates the directory of a socket. The user's runtime directory must belong to the user alone:
/// another user who could create a socket there could pose as the node.
fn create_socket_directory(dir: &Path, all_users: bool) -> Result<(), NodeError> {
    if dir == pario_net::runtime_directory() {
        return pario_net::make_private_directory(dir).map_err(NodeError::RuntimeDirectory);
    }
    private_files::create_socket_directory(dir, all_users)
        .map_err(|error| NodeError::io(dir, error))
}

/// Returns the map of a cluster that no node has joined: names and addresses from the
/// configuration.
fn first_map(config: &Config, me: usize, space: &Space) -> ClusterMap {
    let node = |(number, node): (usize, &NodeConfig)| NodeInfo {
        name: node.name.clone(),
        address: if number == me {
            space.address().to_string()
        } else {
            node.listen.map_or_else(String::new, |address| format!("tcp={address}"))
        },
        disks: Vec::new(),
    };
    ClusterMap {
        name: config.name.clone(),
        nodes: config.nodes.iter().enumerate().map(node).collect(),
        interface: u32::try_from(config.interface).unwrap_or(0),
    }
}

/// Waits for the result of a function that passes it to a callback; `None` if it drops the
/// callback.
fn wait_for<T: Send + 'static>(begin: impl FnOnce(Box<dyn FnOnce(T) + Send>)) -> Option<T> {
    let (send, receive) = mpsc::channel();
    let send = Mutex::new(send);
    begin(Box::new(move |value| {
        // The receiver below waits for this one message.
        let _ = send.lock().send(value);
    }));
    receive.recv().ok()
}
