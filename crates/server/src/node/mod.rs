//! A node: how it starts, and how it stops.

mod builder;
mod caretaker;
#[cfg(test)]
mod clock_tests;
mod collective_service;
pub mod describer;
mod door;
mod informing;
pub mod janitor;
mod joining;
pub mod missing_namespace;
pub mod monitor;
mod notes;
#[cfg(test)]
mod panic_tests;
mod processing;
mod short_cut;
mod turns;

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
use pario_net::wire::Limits;
use pario_net::{Credit, DescriptorServer, Key, Options, PortOptions, RpcServer, Space};
use pario_proto::{CheckReport, ClusterMap, Identity, NodeInfo, TOKEN_LIMIT_BYTES};
use parking_lot::{Mutex, RwLock};

use crate::audit::Audit;
use crate::config::{Config, NodeConfig, ShortCut};
use crate::disks::NodeDisks;
use crate::error::NodeError;
use crate::grant::GrantKey;
use crate::grant_epochs::GrantEpochs;
use crate::job_memory::JobMemories;
use crate::lease::Leases;
use crate::limits::Quotas;
use crate::metadata::{MetadataError, Redb};
use crate::namespace::{Clock, Namespace};
use crate::open_files::OpenFiles;
use crate::operation::OperationRegistry;
use crate::peers::{Peers, REQUESTS};
use crate::private_files;
use crate::processing::Calls;
use crate::program::{self, Operations};
use crate::record_locks::RecordLocks;
use crate::request_meter::RequestMeter;
use crate::sessions::Sessions;
use crate::shared::{Names, Shared, Stopping};
use crate::short_cut_traffic::ShortCutTraffic;
use crate::strangers::Strangers;

/// How long a node that stops waits for what is under way.
const STOP_WAIT: Duration = Duration::from_secs(10);
/// What clients may have sent and the node has not looked at.
const REQUEST_CREDIT_BYTES: usize = 16 << 20;
/// Channels that one connection may open at the node; clients need one.
const ROUTES_PER_CLIENT: usize = 4;

/// A node of a cluster, running in threads of this process.
///
/// Dropping it stops it like [`stop`](Node::stop).
pub struct Node {
    shared: Arc<Shared>,
    space: Space,
    run: Option<Arc<RunningProgram>>,
    threads: Vec<JoinHandle<()>>,
    short_cut: Option<DescriptorServer>,
    notes: notes::Notes,
    /// Whether other processes can reach it.
    listens: bool,
}

/// What the threads receive that work on the namespace in the background.
struct Background {
    removals: mpsc::Receiver<janitor::Job>,
    descriptions: mpsc::Receiver<describer::Job>,
}

/// How clients come to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// They are in the same process.
    InProcess,
    /// They are told its address, or its data directory.
    ByAddress,
    /// Programs of the same user find it.
    ByUser,
}

impl Node {
    /// A node that can do more with extents than every node can: [`NodeBuilder::operation`] says
    /// what.
    #[expect(clippy::new_ret_no_self, reason = "it is not running yet")]
    pub fn new() -> NodeBuilder {
        NodeBuilder::default()
    }

    /// Starts a node of a cluster.
    pub fn start(config: &Config, node: &str) -> Result<Self, NodeError> {
        Self::new().start(config, node)
    }

    /// Starts a node beside the one that programs of this user find by themselves: its address is
    /// noted in its data directory only.
    pub fn start_beside(config: &Config, node: &str) -> Result<Self, NodeError> {
        Self::new().start_beside(config, node)
    }

    /// Starts a node for this process alone: no socket file is made.
    pub fn embed(config: &Config, node: &str) -> Result<Self, NodeError> {
        Self::new().embed(config, node)
    }

    fn launch(
        config: &Config,
        node: &str,
        operations: Arc<OperationRegistry>,
        found: Found,
        (missing_namespace, clock): (MissingNamespace, Clock),
    ) -> Result<Self, NodeError> {
        let listens = found != Found::InProcess;
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
            crate::descriptors::raise_limit();
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
        let (names, background) = if me == config.interface {
            rebuild = missing_namespace::decide(own, &disks, missing_namespace)?;
            let (names, background) = open_names(own, &administrator, config.grant_epoch, clock)?;
            (Some(names), Some(background))
        } else {
            (None, None)
        };
        let space = listen(config, own, key.clone(), listens)?;
        let table = own.data.join("leases");
        let leases = Leases::open(&table).map_err(|error| NodeError::io(&table, error.into()))?;
        let shared = Arc::new(Shared {
            config: config.clone(),
            me,
            disks,
            grants,
            leases,
            short_cut_traffic: ShortCutTraffic::new(own.disks.len()),
            sessions: Sessions::default(),
            quotas: Arc::new(Quotas::new(&own.name, administrator.uid)),
            label: own.name.as_str().into(),
            requests: RequestMeter::default(),
            job_memories: JobMemories::default(),
            operations,
            calls: Calls::default(),
            peers: Peers::new(config, me, administrator.clone(), key),
            strangers: Strangers::default(),
            audit: Arc::new(open_audit(own)?),
            events: Arc::default(),
            administrator,
            map: RwLock::new(first_map(config, me, &space)),
            map_file: Mutex::default(),
            grant_window: RwLock::default(),
            names,
            rebuild,
            started: Instant::now(),
            stopping: Stopping::default(),
        });
        joining::recall_map(&shared);
        if shared.names.is_some() {
            informing::recall_revocations(&shared)
                .and_then(|()| joining::enter_own_disks(&shared))
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
            notes: notes::Notes::default(),
            listens,
        };
        node.begin_work(run.clone(), operations, background)?;
        if config.nodes.len() == 1 {
            let rebuilt = missing_namespace::try_rebuild(&shared);
            rebuilt.map_err(|failure| NodeError::Other(failure.to_string()))?;
        }
        if listens {
            let address = node.address();
            node.notes.write(config, own, found, &address)?;
        }
        if listens && own.short_cut != ShortCut::Off {
            match short_cut::open(&shared, run, operations) {
                Ok(door) => node.short_cut = Some(door),
                Err(error) => tracing::warn!(%error, "no descriptors are handed out"),
            }
        }
        if listens {
            node.tell_start(config);
        }
        Ok(node)
    }

    /// Tells the log that the node has started, and with what.
    fn tell_start(&self, config: &Config) {
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
    fn begin_work(
        &mut self,
        run: Arc<RunningProgram>,
        operations: Operations,
        background: Option<Background>,
    ) -> Result<(), NodeError> {
        let options = PortOptions { credit_bytes: Credit::Bytes(REQUEST_CREDIT_BYTES) };
        let port = RpcServer::new(&self.space, REQUESTS, options)
            .map_err(|error| NodeError::Other(error.to_string()))?;
        if let Some(names) = &self.shared.names {
            names.describer.connect(&run, operations);
        }
        let door = door::Door::new(self.shared.clone(), run.clone(), operations, port);
        let door = Arc::new(door);
        let watched = door.clone();
        let mut start = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
            thread
                .map(|thread| self.threads.push(thread))
                .map_err(|error| NodeError::Other(format!("no thread can be started: {error}")))
        };
        if self.shared.names.is_none() {
            // If the interface node is there, this one is part of the cluster, and knows which
            // grants are valid, before it serves the first request.
            joining::stay_joined(&self.shared);
        }
        for number in 0..door::THREADS {
            let door = door.clone();
            start("door", Box::new(move || door.serve(number == 0)))?;
        }
        if let Some(Background { removals: jobs, descriptions }) = background {
            let (of, running) = (self.shared.clone(), run.clone());
            let describe = move || describer::work(&of, &running, &operations, &descriptions);
            start("describer", Box::new(describe))?;
            let (shared, run) = (self.shared.clone(), run.clone());
            start("janitor", Box::new(move || janitor::work(&shared, &run, &operations, &jobs)))?;
            if let Some(names) = &self.shared.names {
                let left = names.namespace.doomed();
                for record in left.map_err(|failure| NodeError::Other(failure.to_string()))? {
                    names.janitor.remove(record);
                }
            }
        }
        let shared = self.shared.clone();
        if shared.names.is_some() && shared.node().wait_warning.is_some() {
            start("watch", Box::new(move || watched.watch()))?;
        }
        if shared.rebuild.is_pending() && shared.config.nodes.len() > 1 {
            let shared = shared.clone();
            let work = move || missing_namespace::rebuild_when_joined(&shared);
            start("rebuild", Box::new(work))?;
        }
        let answering = shared.clone();
        start("answers", Box::new(move || caretaker::answer(&answering)))?;
        let (measuring, space) = (shared.clone(), self.space.clone());
        start("space", Box::new(move || caretaker::measure(&measuring, &space)))?;
        start("caretaker", Box::new(move || caretaker::work(&shared)))
    }

    /// What the node can do with extents. More can be added while it runs.
    pub fn operations(&self) -> &Arc<OperationRegistry> {
        &self.shared.operations
    }

    /// Where clients can reach the node, as text.
    pub fn address(&self) -> String {
        self.space.address().to_string()
    }

    /// What shows how the node is doing, for as long as it runs.
    pub fn monitor(&self) -> NodeMonitor {
        NodeMonitor::new(Arc::downgrade(&self.shared))
    }

    /// Hands out descriptors of flat subfiles to a client in the same process, as the Unix socket
    /// does to others.
    pub fn descriptors(
        &self,
        request: &[u8],
    ) -> Result<(Vec<u8>, Vec<std::os::fd::OwnedFd>), Vec<u8>> {
        short_cut::hand_out(&self.shared, request)
    }

    /// Begins a number of grant epochs at once, as if their time had passed, and waits until they
    /// are durable: grants that are older than their lifetime by then have to be renewed. Only the
    /// interface node counts epochs.
    pub fn begin_grant_epochs(&self, count: u64) -> Result<(), NodeError> {
        informing::begin_epochs(&self.shared, count)
            .map_err(|failure| NodeError::Other(failure.to_string()))
    }

    /// What the rebuild of the namespace has found, if the node was started with
    /// [`MissingNamespace::Rebuild`] and has finished it.
    pub fn rebuilt(&self) -> Option<CheckReport> {
        self.shared.rebuild.report()
    }

    /// Waits until somebody has asked the node to stop.
    pub fn wait(&self) {
        self.shared.stopping.wait_until_asked();
    }

    /// What makes [`wait`](Node::wait) return, for a signal handler's thread.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = Arc::downgrade(&self.shared);
        move || {
            if let Some(shared) = shared.upgrade() {
                shared.stopping.ask();
            }
        }
    }

    /// Stops the node: what is under way is finished, new requests are refused.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.stopping.ask();
        self.shared.calls.stop_all();
        self.short_cut.take();
        if !self.shared.stopping.wait_until_idle(Instant::now() + STOP_WAIT) {
            tracing::warn!("requests are still under way and are given up");
        }
        if let Some(names) = &self.shared.names {
            names.janitor.end();
            names.describer.end(STOP_WAIT);
        }
        self.notes.remove();
        self.space.close();
        for thread in self.threads.drain(..) {
            // A panic there was reported when it happened.
            let _ = thread.join();
        }
        self.run.take();
        self.shared.audit.close();
        self.shared.disks.settle();
        self.shared.events.tell_rest();
        if self.listens {
            let seconds = self.shared.started.elapsed().as_secs();
            tracing::info!("node {} has stopped, after {seconds} s", self.shared.name());
        }
        // Threads that have served the last questions let go of the disks a moment later; who
        // starts the node again must find them free.
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

/// The user that runs this process.
fn administrator() -> Identity {
    let gid = rustix::process::getegid().as_raw();
    let mut gids = vec![gid];
    if let Ok(others) = rustix::process::getgroups() {
        gids.extend(others.into_iter().map(rustix::process::Gid::as_raw).filter(|&g| g != gid));
    }
    Identity { uid: rustix::process::geteuid().as_raw(), gids }
}

fn open_audit(own: &NodeConfig) -> Result<Audit, NodeError> {
    if !own.audit {
        return Ok(Audit::off());
    }
    Audit::open(&own.data, &own.name)
        .map_err(|error| NodeError::io(&own.data.join("audit.log"), error))
}

fn read_key(path: &Path) -> Result<Key, NodeError> {
    let text = pario_net::read_private_file(path, true).map_err(|error| match error.kind() {
        // The error names the file already.
        io::ErrorKind::PermissionDenied => NodeError::Other(format!("no key: {error}")),
        _ => NodeError::io(path, error),
    })?;
    Key::from_hex(&text).map_err(|error| NodeError::Other(format!("{}: {error}", path.display())))
}

fn open_names(
    own: &NodeConfig,
    administrator: &Identity,
    grant_epoch: Duration,
    clock: Clock,
) -> Result<(Names, Background), NodeError> {
    let path = own.data.join("namespace.redb");
    let store = Redb::open(&path).map_err(|error| match error {
        MetadataError::InUse { path } => NodeError::InUse {
            what: path.display().to_string(),
            socket: own.socket.display().to_string(),
        },
        error => NodeError::Metadata(error),
    })?;
    let namespace = Namespace::open(Arc::new(store), &own.name, administrator, clock)?;
    let (janitor, removals) = janitor::Janitor::new();
    let (describer, descriptions) = describer::Describer::new();
    let (open_files, locks) = (OpenFiles::default(), RecordLocks::default());
    let next_first_disk = AtomicU64::new(0);
    let epoch = namespace.grant_epoch().map_err(|failure| NodeError::Other(failure.to_string()))?;
    let grant_epochs = Mutex::new(GrantEpochs::new(epoch, grant_epoch, Instant::now()));
    let untold = Mutex::default();
    let names = Names {
        namespace,
        open_files,
        locks,
        janitor,
        describer,
        grant_epochs,
        untold,
        next_first_disk,
    };
    Ok((names, Background { removals, descriptions }))
}

fn listen(
    config: &Config,
    own: &NodeConfig,
    key: Option<Key>,
    listens: bool,
) -> Result<Space, NodeError> {
    let name = format!("node {} of {}", own.name, config.name);
    let options = Options {
        limits: Limits::for_tokens(TOKEN_LIMIT_BYTES),
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
            make_socket_directory(dir, own.all_users)?;
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

/// Creates the data directory. If all users may use a socket in it, they must get through it.
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

/// The mode of the sockets of a node, whatever the umask.
fn socket_mode(own: &NodeConfig) -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    fs::Permissions::from_mode(if own.all_users { 0o666 } else { 0o600 })
}

/// Creates the directory of a socket. The user's runtime directory must belong to the user alone:
/// another user who could put a socket there could pass for the node.
fn make_socket_directory(dir: &Path, all_users: bool) -> Result<(), NodeError> {
    if dir == pario_net::runtime_directory() {
        return pario_net::make_private_directory(dir).map_err(NodeError::RuntimeDirectory);
    }
    private_files::create_socket_directory(dir, all_users)
        .map_err(|error| NodeError::io(dir, error))
}

/// The cluster before any node has joined: names and addresses as configured.
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

/// Waits for the result of something that reports to a closure.
fn wait_for<T: Send + 'static>(begin: impl FnOnce(Box<dyn FnOnce(T) + Send>)) -> Option<T> {
    let (send, receive) = mpsc::channel();
    let send = Mutex::new(send);
    begin(Box::new(move |value| {
        // Nobody waits any more only if the thread below is gone.
        let _ = send.lock().send(value);
    }));
    receive.recv().ok()
}
