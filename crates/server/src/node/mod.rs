//! A node: how it starts, and how it stops.

mod builder;
mod caretaker;
mod door;
mod flood_pause;
pub mod janitor;
mod joining;
#[cfg(test)]
mod panic_tests;
mod processing;
mod short_cut;
mod together;
mod turns;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use builder::NodeBuilder;
use pario_flow::Run;
use pario_net::{AnswerPort, Credit, DescriptorDoor, Key, PortOptions, Space};
use pario_proto::{ClusterMap, Identity, NodeInfo};
use parking_lot::{Mutex, RwLock};

use crate::config::{Config, NodeConfig};
use crate::disks::NodeDisks;
use crate::error::NodeError;
use crate::grant::GrantKey;
use crate::job_memory::Memories;
use crate::lease::Leases;
use crate::limits::Quotas;
use crate::metadata::{MetadataError, Redb};
use crate::namespace::{Clock, Namespace};
use crate::open_files::OpenFiles;
use crate::operation::Registry;
use crate::peers::{Peers, REQUESTS};
use crate::processing::Calls;
use crate::program::{self, Operations};
use crate::record_locks::RecordLocks;
use crate::sessions::Sessions;
use crate::shared::{Names, Shared, Stopping};
use crate::strangers::Strangers;

/// How long a node that stops waits for what is under way.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// The niceness of threads that receive requests.
const DOOR_NICENESS: i32 = -5;
/// What clients may have sent and the node has not looked at.
const REQUEST_CREDIT_BYTES: usize = 16 << 20;

/// A node of a cluster, running in threads of this process.
///
/// Dropping it stops it like [`stop`](Node::stop).
pub struct Node {
    shared: Arc<Shared>,
    space: Space,
    run: Option<Arc<Run>>,
    threads: Vec<JoinHandle<()>>,
    short_cut: Option<DescriptorDoor>,
    /// Files that say where the node can be reached.
    notes: Vec<PathBuf>,
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
        operations: Arc<Registry>,
        found: Found,
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
        fs::create_dir_all(&own.data).map_err(|error| NodeError::io(&own.data, error))?;
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
        let (names, janitor_jobs) = if me == config.interface {
            let (names, jobs) = open_names(own, &administrator)?;
            (Some(names), Some(jobs))
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
            sessions: Sessions::default(),
            quotas: Arc::new(Quotas::new(&own.name, administrator.uid)),
            label: own.name.as_str().into(),
            memories: Memories::default(),
            operations,
            calls: Calls::default(),
            peers: Peers::new(config, me, administrator.clone(), key),
            strangers: Strangers::default(),
            administrator,
            map: RwLock::new(first_map(config, me, &space)),
            revoked: RwLock::default(),
            names,
            started: Instant::now(),
            stopping: Stopping::default(),
        });
        joining::recall_map(&shared);
        if shared.names.is_some() {
            let recalled = recall_revoked(&shared);
            recalled
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
            notes: Vec::new(),
        };
        node.begin_work(run.clone(), operations, janitor_jobs)?;
        if listens {
            node.notes = notes(config, own, found);
            for path in &node.notes {
                fs::write(path, node.address()).map_err(|error| NodeError::io(path, error))?;
            }
        }
        if listens && own.short_cut {
            match short_cut::open(&shared, run, operations) {
                Ok(door) => node.short_cut = Some(door),
                Err(error) => tracing::warn!(%error, "no descriptors are handed out"),
            }
        }
        Ok(node)
    }

    /// Starts the threads that are not part of the program.
    fn begin_work(
        &mut self,
        run: Arc<Run>,
        operations: Operations,
        janitor_jobs: Option<mpsc::Receiver<janitor::Job>>,
    ) -> Result<(), NodeError> {
        let options = PortOptions { credit_bytes: Credit::Bytes(REQUEST_CREDIT_BYTES) };
        let port = AnswerPort::new(&self.space, REQUESTS, options)
            .map_err(|error| NodeError::Other(error.to_string()))?;
        let door = door::Door::new(self.shared.clone(), run.clone(), operations, port);
        let door = Arc::new(door);
        let watched = door.clone();
        let mut start = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
            thread
                .map(|thread| self.threads.push(thread))
                .map_err(|error| NodeError::Other(format!("no thread can be started: {error}")))
        };
        for number in 0..door::THREADS {
            let door = door.clone();
            start(
                "door",
                Box::new(move || {
                    prefer_this_thread();
                    door.serve(number == 0);
                }),
            )?;
        }
        if let Some(jobs) = janitor_jobs {
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
        if shared.names.is_none() {
            // If the interface node is there, this one is part of the cluster from the beginning.
            joining::stay_joined(&shared);
        }
        let answering = shared.clone();
        start("answers", Box::new(move || caretaker::answer(&answering)))?;
        let measuring = shared.clone();
        start("space", Box::new(move || caretaker::measure(&measuring)))?;
        start("caretaker", Box::new(move || caretaker::work(&shared)))
    }

    /// What the node can do with extents. More can be added while it runs.
    pub fn operations(&self) -> &Arc<Registry> {
        &self.shared.operations
    }

    /// Where clients can reach the node, as text.
    pub fn address(&self) -> String {
        self.space.address().to_string()
    }

    /// Hands out descriptors of flat subfiles to a client in the same process, as the Unix socket
    /// does to others.
    pub fn descriptors(
        &self,
        request: &[u8],
    ) -> Result<(Vec<u8>, Vec<std::os::fd::OwnedFd>), Vec<u8>> {
        short_cut::hand_out(&self.shared, request)
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
        }
        let address = self.address();
        for path in self.notes.drain(..) {
            // Another node may have put its own address there meanwhile.
            if fs::read_to_string(&path).is_ok_and(|noted| noted == address) {
                let _ = fs::remove_file(&path);
            }
        }
        self.space.close();
        for thread in self.threads.drain(..) {
            // A panic there was reported when it happened.
            let _ = thread.join();
        }
        self.run.take();
        self.shared.disks.settle();
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

/// Has the system prefer this thread to those of clients on the same machine, if it lets this
/// process. A flood keeps a thread of the door busy, which then waits for a processor as long as any
/// other busy thread; all clients would wait with it.
fn prefer_this_thread() {
    // On Linux this concerns the calling thread only.
    let _not_allowed = rustix::process::setpriority_process(None, DOOR_NICENESS);
}

/// Where the address of a node is noted: in its data directory, and for a node alone also where
/// its user's programs look for it.
fn notes(config: &Config, own: &NodeConfig, found: Found) -> Vec<PathBuf> {
    let mut notes = vec![own.data.join("address")];
    if config.nodes.len() == 1 && found == Found::ByUser {
        let dir = pario_net::runtime_directory();
        if own.socket.starts_with(&dir) {
            notes.push(dir.join("address"));
        }
    }
    notes
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

fn read_key(path: &Path) -> Result<Key, NodeError> {
    let text = fs::read_to_string(path).map_err(|error| NodeError::io(path, error))?;
    Key::from_hex(&text).map_err(|error| NodeError::Other(format!("{}: {error}", path.display())))
}

fn open_names(
    own: &NodeConfig,
    administrator: &Identity,
) -> Result<(Names, mpsc::Receiver<janitor::Job>), NodeError> {
    let path = own.data.join("namespace.redb");
    let store = Redb::open(&path).map_err(|error| match error {
        MetadataError::InUse { path } => NodeError::InUse {
            what: path.display().to_string(),
            socket: own.socket.display().to_string(),
        },
        error => NodeError::Metadata(error),
    })?;
    let namespace = Namespace::open(Arc::new(store), &own.name, administrator, Clock::system())?;
    let (janitor, jobs) = janitor::Janitor::new();
    let (open_files, locks) = (OpenFiles::default(), RecordLocks::default());
    let next_first_disk = AtomicU64::new(0);
    let names = Names { namespace, open_files, locks, janitor, next_first_disk };
    Ok((names, jobs))
}

/// Grants are valid after a restart too, so that clients can go on; but not those that were
/// revoked before it.
fn recall_revoked(shared: &Shared) -> Result<(), pario_proto::Failure> {
    let namespace = &shared.names()?.namespace;
    let mut after = None;
    loop {
        let files = namespace.all_files(after, 10_000)?;
        let Some((_, last)) = files.last() else { return Ok(()) };
        after = Some(last.id);
        let mut revoked = shared.revoked.write();
        let changed = files.iter().filter(|(_, record)| record.rights_version > 0);
        revoked.extend(changed.map(|(_, record)| (record.id, record.rights_version)));
    }
}

fn listen(
    config: &Config,
    own: &NodeConfig,
    key: Option<Key>,
    listens: bool,
) -> Result<Space, NodeError> {
    let name = format!("node {} of {}", own.name, config.name);
    let mut builder = Space::builder(&name).host();
    if let Some(key) = key {
        builder = builder.key(key);
    }
    if listens {
        if let Some(dir) = own.socket.parent() {
            make_socket_directory(dir)?;
        }
        builder = builder.listen_unix(&own.socket).admit_any_user(own.all_users);
        if let Some(address) = own.listen {
            builder = builder.listen_tcp(address);
        }
    }
    let space = builder.build()?;
    if listens && own.all_users {
        use std::os::unix::fs::PermissionsExt as _;
        let open = fs::set_permissions(&own.socket, fs::Permissions::from_mode(0o666));
        open.map_err(|error| NodeError::io(&own.socket, error))?;
    }
    Ok(space)
}

/// Makes the directory of a socket. The user's runtime directory must belong to the user alone:
/// whoever else could put a socket there could pass for the node.
fn make_socket_directory(dir: &Path) -> Result<(), NodeError> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    let is_private = dir == pario_net::runtime_directory();
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    if is_private {
        builder.mode(0o700);
    }
    let made = builder.create(dir).and_then(|()| fs::metadata(dir));
    let metadata = made.map_err(|error| NodeError::io(dir, error))?;
    let own = rustix::process::geteuid().as_raw();
    if is_private && (metadata.uid() != own || metadata.mode() & 0o022 != 0) {
        return Err(NodeError::Other(format!(
            "{} belongs to user {} and has mode {:03o}: it must be yours, and only you may write \
             to it",
            dir.display(),
            metadata.uid(),
            metadata.mode() & 0o777
        )));
    }
    Ok(())
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
