//! A cluster, as a client sees it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
#[cfg(feature = "embedded")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use pario_net::{Address, DescriptorClient, User};
use pario_proto::{
    AtomicWait, CheckReport, CheckRequest, ClusterMap, DiskId, Failure, FilePath, Identity,
    JobStatus, LockWait, Member, NamespaceRequest, NodeStatus, ProcessName, Reply, Request,
};
#[cfg(feature = "embedded")]
use pario_server::MissingNamespace;
use parking_lot::{Mutex, RwLock};

use crate::address::{self, ClusterAddress};
use crate::connection::{Client, Connection, Watch, strange};
use crate::error::Error;
use crate::host::{DEFAULT_PORT, HostAndPort, not_an_address, own_name};
use crate::job::{IssuedByFile, JobCalls};
use crate::key;
use crate::running::{RunningNode, running_nodes};

/// The default time limit of a reply.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait of [`Cluster::reset`] for each node.
const RESET_TIMEOUT: Duration = Duration::from_secs(10);

/// A cluster: the nodes that share one namespace. It opens files, starts processing at the nodes and
/// shows their state.
///
/// [`connect`](Self::connect) and [`from_env`](Self::from_env) reach a running cluster;
/// [`embedded`](Self::embedded) runs one in this process. Clones share the connections; any number of
/// threads may use them.
///
/// ```
/// # fn main() -> Result<(), pario::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let dir = dir.path();
/// let cluster = pario::Cluster::embedded(dir)?;
/// for node in &cluster.map().nodes {
///     println!("{}: {} disks", node.name, node.disks.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Cluster {
    pub(crate) shared: Arc<ClusterState>,
}

/// What all clones of a [`Cluster`] share: connections, the map, and counters of this process.
pub(crate) struct ClusterState {
    nodes: RwLock<Vec<Arc<Connection>>>,
    map: RwLock<ClusterMap>,
    short_cut: bool,
    /// The collective calls of this process, by job.
    jobs: Mutex<HashMap<String, Arc<Mutex<JobCalls>>>>,
    /// The accesses of this process to shared files.
    pub(crate) issued: IssuedByFile,
    /// The counters of this process for its short-cut accesses, by node.
    traffic: Mutex<HashMap<usize, Arc<crate::file::TrafficTable>>>,
    /// The number of waits for locks that this process has started.
    pub(crate) lock_waits: AtomicU64,
    /// This process as an opener of files with atomic access.
    pub(crate) openers: crate::file::atomic::Openers,
    /// The number of processing calls that this process has made.
    pub(crate) calls: AtomicU64,
    /// The node in this process, if the cluster is embedded. Dropped last.
    #[cfg(feature = "embedded")]
    pub(crate) embedded: Option<pario_server::Node>,
}

/// A file system of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileSystemId {
    machine: String,
    device: u64,
}

/// Options for reaching a cluster; all have defaults.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// Whether this process reads and writes files on disks of its own machine itself. By default
    /// the variable PARIO_SHORT_CUT decides (`0` turns the short cut off); without it, it is on.
    pub short_cut: Option<bool>,
    /// The file with the key of the cluster, which is needed over TCP. By default the variable
    /// PARIO_KEY holds the key or names its file; without it, [`user_key_file`](crate::user_key_file)
    /// counts.
    pub key_file: Option<PathBuf>,
    /// The time limit of a reply: 30 seconds by default.
    pub timeout: Option<Duration>,
    /// The name of the client in `pario status`: the name of its program by default.
    pub client: Option<String>,
}

impl Cluster {
    /// Runs a cluster of one node with four disks in a directory, all within this process.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let dir = dir.path();
    /// let cluster = pario::Cluster::embedded(dir)?;
    /// assert!(pario::Cluster::embedded(dir).is_err()); // one process at a time
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "embedded")]
    pub fn embedded(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Self::embedded_with(dir, ClusterOptions::default())
    }

    /// Like [`embedded`](Self::embedded), with options.
    #[cfg(feature = "embedded")]
    pub fn embedded_with(dir: impl AsRef<Path>, options: ClusterOptions) -> Result<Self, Error> {
        Self::recover_embedded(dir, options, MissingNamespace::Refuse)
    }

    /// Like [`embedded_with`](Self::embedded_with), for a directory whose namespace may be missing.
    /// [`embedded`](Self::embedded) refuses such a directory with [`Error::NamespaceMissing`], if
    /// there are files on its disks; here the caller chooses.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let dir = dir.path();
    /// use pario::{Cluster, MissingNamespace};
    ///
    /// Cluster::embedded(dir)?.create("/kept")?.write_at(b"x", 0)?;
    /// std::fs::remove_file(dir.join("namespace.redb")).unwrap();
    /// let refused = Cluster::embedded(dir).unwrap_err();
    /// assert!(matches!(refused, pario::Error::NamespaceMissing { .. }));
    ///
    /// let choice = MissingNamespace::Rebuild;
    /// let cluster = Cluster::recover_embedded(dir, Default::default(), choice)?;
    /// assert_eq!(cluster.rebuilt().unwrap().findings.len(), 1);
    /// assert_eq!(cluster.metadata("/kept")?.len, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "embedded")]
    pub fn recover_embedded(
        dir: impl AsRef<Path>,
        options: ClusterOptions,
        missing_namespace: MissingNamespace,
    ) -> Result<Self, Error> {
        use pario_server::{Node, NodeError, config::Config};
        let dir = std::path::absolute(dir.as_ref())
            .map_err(|error| Error::other(format!("{}: {error}", dir.as_ref().display())))?;
        let config = Config::alone(&dir);
        let node = Node::new().missing_namespace(missing_namespace).embed(&config, "local");
        let node = node.map_err(|error| match error {
            NodeError::InUse { .. } => Error::InUse { text: error.to_string() },
            NodeError::NamespaceMissing { path, evidence, .. } => Error::NamespaceMissing {
                text: format!(
                    "{path} is missing, but the cluster had files ({evidence}): put the file back, \
                     or make the names from what the disks say with `pario --data {0} fsck \
                     --rebuild`, or begin without files with `pario serve --data {0} --new` (what \
                     is on the disks stays there)",
                    dir.display()
                ),
            },
            error if error.kind() == std::io::ErrorKind::PermissionDenied => {
                Error::Refused { text: format!("you may not use {}: {error}", dir.display()) }
            }
            error => Error::other(error.to_string()),
        })?;
        let address = node.address().parse::<Address>();
        let address = address.map_err(|error| Error::other(error.to_string()))?;
        Self::open_at(address, client(&options, (true, false))?, &options, Some(node))
    }

    /// The report of the rebuild of a missing namespace, if this cluster is embedded and opening it
    /// included one.
    #[cfg(feature = "embedded")]
    pub fn rebuilt(&self) -> Option<CheckReport> {
        self.shared.embedded.as_ref()?.rebuilt()
    }

    /// Connects to a running cluster at an address: `unix:PATH`, `tcp:HOST:PORT`, the data directory
    /// of one of its nodes, or a host. A host that is this machine means the user's own node, and
    /// another one the node that listens there at port 7411 (`pario serve --listen`).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let mut config = pario_server::config::Config::alone(dir.path());
    /// # config.nodes[0].socket = dir.path().join("pario.sock");
    /// # let _node = pario_server::Node::start(&config, "local")?;
    /// # let socket = dir.path().join("pario.sock");
    /// let cluster = pario::Cluster::connect(&format!("unix:{}", socket.display()))?;
    /// assert_eq!(cluster.map().nodes[0].name, "local");
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect(address: &str) -> Result<Self, Error> {
        Self::connect_with(address, ClusterOptions::default())
    }

    /// Like [`connect`](Self::connect), with options.
    pub fn connect_with(address: &str, options: ClusterOptions) -> Result<Self, Error> {
        match address::parse(address)? {
            ClusterAddress::Node(address) => Self::open_named(address, &options, true),
            ClusterAddress::Network(host) => Self::open_on_network(&host, &options),
            ClusterAddress::Host(host) => Self::open_on_host(&host, options),
        }
    }

    /// Connects to the cluster on a host: the user's own node if the host is this machine, otherwise
    /// the node that listens there at port 7411. The variable PARIO_CLUSTER may choose among the
    /// clusters of that host; if it names a cluster elsewhere, this fails: neither of the two is
    /// ignored.
    ///
    /// ```no_run
    /// let cluster = pario::Cluster::connect_to_host("sun17", Default::default())?;
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn connect_to_host(host: &str, options: ClusterOptions) -> Result<Self, Error> {
        let named = HostAndPort::parse(host).filter(|host| host.port.is_none());
        let named = named.ok_or_else(|| not_an_address(host, "it is not the name of a host"))?;
        let Ok(chosen) = std::env::var("PARIO_CLUSTER") else {
            return Self::open_on_host(&named, options);
        };
        if is_on_host(&address::parse(&chosen)?, &named) {
            return Self::connect_with(&chosen, options);
        }
        Err(Error::invalid(format!(
            "the program names host {host}, but the variable PARIO_CLUSTER names {chosen}, which is \
             not on that host: unset PARIO_CLUSTER, or let the program name the other host"
        )))
    }

    /// Connects to the user's own node if the host is this machine, otherwise over the network.
    fn open_on_host(host: &HostAndPort, options: ClusterOptions) -> Result<Self, Error> {
        if !host.is_this_machine() {
            return Self::open_on_network(host, &options);
        }
        let running = running_nodes();
        for why in &running.ignored {
            tracing::warn!("{why}");
        }
        match running.only() {
            Ok(node) => Self::connect_to(node, options),
            // Another user's node may listen for holders of its key. Without a key, that could be
            // the trap of a third user.
            Err(Error::NotRunning { text })
                if key::find(options.key_file.as_deref(), true)?.is_some() =>
            {
                Self::open_on_network(host, &options).map_err(|error| match error {
                    Error::NodeDown { text: far, .. } => {
                        Error::NotRunning { text: format!("{text}; {far}") }
                    }
                    error => error,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Connects to the first address of a host at which a node answers. The error names all that
    /// were tried.
    fn open_on_network(host: &HostAndPort, options: &ClusterOptions) -> Result<Self, Error> {
        let mut tried = Vec::new();
        for address in host.addresses()? {
            match Self::open_named(Address::tcp(address), options, true) {
                Err(Error::NodeDown { text, .. }) => tried.push(text),
                opened => return opened,
            }
        }
        let (name, port) = (&host.host, host.port.unwrap_or(DEFAULT_PORT));
        Err(Error::NodeDown {
            node: String::new(),
            text: format!(
                "no node answers on host {name} at port {port}: {}; start one there with `pfsd \
                 --listen` or `pario serve --listen`, or name the port at which it listens, as in \
                 {name}:PORT",
                tried.join("; ")
            ),
        })
    }

    /// Connects to the cluster that the variable PARIO_CLUSTER names; without it, to the user's own
    /// node, as started by `pario serve`. If several nodes of the user run, the error names them.
    ///
    /// ```no_run
    /// let cluster = pario::Cluster::from_env()?;
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn from_env() -> Result<Self, Error> {
        Self::from_env_with(ClusterOptions::default())
    }

    /// Like [`from_env`](Self::from_env), with options.
    pub fn from_env_with(options: ClusterOptions) -> Result<Self, Error> {
        if let Ok(address) = std::env::var("PARIO_CLUSTER") {
            return Self::connect_with(&address, options);
        }
        let running = running_nodes();
        for why in &running.ignored {
            tracing::warn!("{why}");
        }
        Self::connect_to(running.only()?, options)
    }

    /// Connects to a node that [`running_nodes`] has found. It must run as this user or as root.
    ///
    /// ```no_run
    /// let running = pario::status::running_nodes();
    /// let cluster = pario::Cluster::connect_to(running.only()?, Default::default())?;
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn connect_to(node: &RunningNode, options: ClusterOptions) -> Result<Self, Error> {
        Self::open_named(node.address.clone(), &options, false).map_err(|error| match error {
            Error::NodeDown { text, node: name } if node.is_listening() => Error::NodeDown {
                node: name,
                text: format!("your node for {} runs, but {text}", node.data),
            },
            Error::NodeDown { text, .. } => Error::NotRunning {
                text: format!(
                    "your node for {} does not run any more ({text}): start it with `pario serve \
                     --data {0}`, or name another cluster with the variable PARIO_CLUSTER",
                    node.data
                ),
            },
            error => error,
        })
    }

    fn open_named(
        address: Address,
        options: &ClusterOptions,
        trusts_any_user: bool,
    ) -> Result<Self, Error> {
        let client = client(options, (trusts_any_user, !address.is_near()))?;
        #[cfg(feature = "embedded")]
        return Self::open_at(address, client, options, None);
        #[cfg(not(feature = "embedded"))]
        Self::open_at(address, client, options)
    }

    fn open_at(
        address: Address,
        client: Client,
        options: &ClusterOptions,
        #[cfg(feature = "embedded")] embedded: Option<pario_server::Node>,
    ) -> Result<Self, Error> {
        let client = Arc::new(client);
        let first = Connection::new(client.clone(), "", address);
        let welcome = first.welcome()?;
        let map = welcome.map.clone();
        let connection = |node: &pario_proto::NodeInfo| {
            let address = node.address.parse().unwrap_or_default();
            Arc::new(Connection::new(client.clone(), &node.name, address))
        };
        let mut nodes: Vec<_> = map.nodes.iter().map(connection).collect();
        if let Some(number) = map.nodes.iter().position(|node| node.name == welcome.node) {
            nodes[number] = Arc::new(first);
        }
        let short_cut = options
            .short_cut
            .unwrap_or_else(|| std::env::var("PARIO_SHORT_CUT").map_or(true, |value| value != "0"));
        let shared = ClusterState {
            nodes: RwLock::new(nodes),
            map: RwLock::new(map),
            short_cut,
            jobs: Mutex::default(),
            issued: IssuedByFile::default(),
            traffic: Mutex::default(),
            lock_waits: AtomicU64::new(0),
            openers: crate::file::atomic::Openers::default(),
            calls: AtomicU64::new(0),
            #[cfg(feature = "embedded")]
            embedded,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the nodes and disks of the cluster.
    pub fn map(&self) -> ClusterMap {
        self.shared.map.read().clone()
    }

    /// Returns the status of each node, in the order of the map. A node that does not answer in
    /// time is an error for itself only.
    pub fn status(&self, within: Duration) -> Vec<(String, Result<NodeStatus, Error>)> {
        let names: Vec<String> = self.map().nodes.into_iter().map(|node| node.name).collect();
        let ask = |number: usize, name: &str| {
            let connection = self.shared.node(number);
            match connection.call_within(Request::Status, within)? {
                Reply::Status(status) => Ok(*status),
                _ => Err(strange(name)),
            }
        };
        std::thread::scope(|scope| {
            let asked: Vec<_> = names
                .iter()
                .enumerate()
                .map(|(number, name)| (name, scope.spawn(move || ask(number, name))))
                .collect();
            let result = |(name, thread): (&String, std::thread::ScopedJoinHandle<'_, _>)| {
                let status = thread.join().unwrap_or_else(|_| Err(strange(name)));
                (name.clone(), status)
            };
            asked.into_iter().map(result).collect()
        })
    }

    /// Returns the file systems of all disks of the nodes that answer in time. Two disks that share
    /// a file system have the same value; a disk whose file system is unknown is left out.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// // The four disks of an embedded cluster are directories beside each other.
    /// let systems = cluster.file_systems(std::time::Duration::from_secs(10));
    /// let first = &systems[&("local".to_owned(), 0)];
    /// assert!(systems.len() == 4 && systems.values().all(|system| system == first));
    /// # Ok(())
    /// # }
    /// ```
    pub fn file_systems(&self, within: Duration) -> HashMap<(String, usize), FileSystemId> {
        let mut systems = HashMap::new();
        for (number, node) in self.map().nodes.into_iter().enumerate() {
            let asked = self.shared.node(number).call_within(Request::FileSystems, within);
            let Ok(Reply::FileSystems(devices)) = asked else { continue };
            let machine = node.address.parse::<Address>().ok().and_then(|address| address.machine);
            let machine = machine.map_or_else(|| node.name.clone(), |id| id.to_string());
            for (disk, device) in devices.into_iter().enumerate() {
                let Some(device) = device else { continue };
                let id = FileSystemId { machine: machine.clone(), device };
                systems.insert((node.name.clone(), disk), id);
            }
        }
        systems
    }

    /// Returns the jobs that coordinate through this cluster, and which of their ranks wait for
    /// which others: the jobs of this user, or of all users if this user runs the node.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let files = pario::Job::new("job 7", 1, 0)?.files(&cluster);
    /// files.barrier()?;
    /// let jobs = cluster.jobs()?;
    /// assert_eq!((jobs[0].job.as_str(), jobs[0].size), ("job 7", 1));
    /// assert!(jobs[0].waits.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn jobs(&self) -> Result<Vec<JobStatus>, Error> {
        match self.shared.interface().call(Request::Jobs)? {
            Reply::Jobs(jobs) => Ok(jobs),
            _ => Err(strange("")),
        }
    }

    /// Returns the processes that wait for locks on files, longest wait first: those of this user,
    /// or of all users if this user runs the node.
    pub fn lock_waits(&self) -> Result<Vec<LockWait>, Error> {
        match self.shared.interface().call(Request::LockWaits)? {
            Reply::LockWaits(waits) => Ok(waits),
            _ => Err(strange("")),
        }
    }

    /// Returns, for each node in the order of the map, the processes that wait there for atomic
    /// access to files whose home it is, longest wait first: for bytes that others use, or until
    /// others give a delegation back. Those of this user, or of all users if this user runs the
    /// nodes. A node that does not answer in time is an error for itself only.
    pub fn atomic_waits(&self, within: Duration) -> Vec<(String, Result<Vec<AtomicWait>, Error>)> {
        let names = self.map().nodes.into_iter().map(|node| node.name).enumerate();
        let ask = |(number, name): (usize, String)| {
            let reply = self.shared.node(number).call_within(Request::AtomicWaits, within);
            let waits = reply.and_then(|reply| match reply {
                Reply::AtomicWaits(waits) => Ok(waits),
                _ => Err(strange(&name)),
            });
            (name, waits)
        };
        names.map(ask).collect()
    }

    /// Ends the coordination of jobs and of atomic accesses: calls that wait for other processes
    /// fail, and the processes must open the files again. Accesses that are under way go on, and
    /// later ones may mix with them. Concerns the given files; without any, all files and the jobs
    /// themselves. Concerns the processes of this user, or of all users if this user runs the nodes.
    /// Written data stays. Returns the jobs that were forgotten, and the files concerned.
    ///
    /// Fails if a node does not answer, after all others have been asked.
    pub fn reset(&self, files: &[FilePath]) -> Result<(Vec<String>, Vec<FilePath>), Error> {
        let reply = self.shared.interface().call(Request::Reset { files: files.to_vec() })?;
        let Reply::Reset { jobs, files: mut ended } = reply else { return Err(strange("")) };
        let mut failed = None;
        for number in 0..self.shared.node_count() {
            let request = Request::ResetAtomic { files: files.to_vec() };
            match self.shared.node(number).call_within(request, RESET_TIMEOUT) {
                Ok(Reply::Reset { files, .. }) => ended.extend(files),
                Ok(_) => failed = Some(strange("")),
                Err(error) => failed = Some(error),
            }
        }
        ended.sort();
        ended.dedup();
        failed.map_or(Ok((jobs, ended)), Err)
    }

    /// Compares the namespace with the disks.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use pario::status::{CheckDepth, CheckRequest};
    ///
    /// let request =
    ///     CheckRequest { depth: CheckDepth::Names, is_repair: false, is_rebuild: false };
    /// assert!(cluster.check(request)?.findings.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self, request: CheckRequest) -> Result<CheckReport, Error> {
        let interface = self.shared.interface();
        match interface.call_long(Request::Check(request))? {
            Reply::Checked(report) => Ok(report),
            _ => Err(strange("")),
        }
    }

    /// Stops all nodes, or one, and returns their names. Nodes finish what they have acknowledged.
    pub fn stop(&self, node: Option<&str>) -> Result<Vec<String>, Error> {
        let map = self.map();
        let mut wanted: Vec<(usize, String)> = (0..)
            .zip(&map.nodes)
            .filter(|(_, known)| node.is_none_or(|node| node == known.name))
            .map(|(number, known)| (number, known.name.clone()))
            .collect();
        if wanted.is_empty() {
            let known: Vec<_> = map.nodes.iter().map(|node| node.name.as_str()).collect();
            let (node, known) = (node.unwrap_or(""), known.join(", "));
            return Err(Error::invalid(format!(
                "the cluster has no node named {node:?}; it has {known}"
            )));
        }
        // The interface node last: the others may still need it.
        wanted.sort_by_key(|(number, _)| *number == map.interface as usize);
        let mut stopped = Vec::new();
        for (number, name) in wanted {
            self.shared.node(number).call(Request::Stop)?;
            stopped.push(name);
        }
        Ok(stopped)
    }

    /// Starts the thread that takes the news of the interface node, so that the caller chooses its
    /// signal mask. Otherwise the first open of a file with atomic access starts it.
    #[doc(hidden)]
    pub fn start_callback_thread(&self) -> Result<(), Error> {
        let asked = self.shared.interface().start(Request::Map, Vec::new())?;
        asked.pending.then(|_| {});
        Ok(())
    }

    /// Joins the unnamed job of this user and this size that is not complete yet, or begins one.
    /// Returns its name.
    pub(crate) fn join_unnamed_job(&self, size: u32, rank: u32) -> Result<String, Error> {
        let process = this_process();
        match self.shared.interface().call(Request::JoinUnnamedJob { size, rank, process })? {
            Reply::UnnamedJobJoined { job } => Ok(job),
            _ => Err(strange("")),
        }
    }

    /// Says that this process is a rank of a job with a name. Fails if another process is.
    pub(crate) fn join_job(&self, member: Member) -> Result<(), Error> {
        let process = this_process();
        match self.shared.interface().call(Request::JoinJob { member, process })? {
            Reply::Done => Ok(()),
            _ => Err(strange("")),
        }
    }

    /// Calls the interface node.
    pub(crate) fn names(&self, request: NamespaceRequest) -> Result<Reply, Error> {
        self.shared.interface().call(Request::Namespace(request))
    }

    /// Sends a request to the interface node without waiting for the reply.
    pub(crate) fn tell_names(&self, request: NamespaceRequest) {
        self.shared.interface().tell(Request::Namespace(request));
    }

    /// Returns the user and groups under which the cluster knows this process.
    pub fn identity(&self) -> Result<Identity, Error> {
        Ok(self.shared.interface().welcome()?.identity.clone())
    }
}

/// This process, as users know it.
pub(crate) fn this_process() -> ProcessName {
    ProcessName { pid: std::process::id(), program: program(), host: own_name() }
}

/// The name of the program that this process runs.
fn program() -> String {
    let name = |path: PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
    let path = std::env::current_exe().ok();
    path.and_then(name).unwrap_or_else(|| "client".to_owned())
}

impl ClusterState {
    /// The connection to a node.
    pub fn node(&self, number: usize) -> Arc<Connection> {
        self.nodes.read()[number].clone()
    }

    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.read().len()
    }

    /// The connection to the interface node.
    pub fn interface(&self) -> Arc<Connection> {
        self.node(self.interface_number())
    }

    /// Which nodes and disks there are.
    pub fn map(&self) -> ClusterMap {
        self.map.read().clone()
    }

    /// The number of the interface node.
    pub fn interface_number(&self) -> usize {
        self.map.read().interface as usize
    }

    /// Whether a node passes descriptors to this process.
    pub fn passes_descriptors(&self, node: usize) -> bool {
        #[cfg(feature = "embedded")]
        if self.embedded.is_some() {
            return self.uses_short_cut();
        }
        let welcome = self.uses_short_cut().then(|| self.node(node).welcome());
        welcome.is_some_and(|welcome| welcome.is_ok_and(|welcome| welcome.descriptors.is_some()))
    }

    /// Whether the interface node passes descriptors to this process.
    pub fn is_near_interface(&self) -> bool {
        self.passes_descriptors(self.interface_number())
    }

    /// The node that has a disk. Fetches the map again if it does not know the disk.
    pub fn node_of(&self, disk: DiskId) -> Result<usize, Error> {
        if let Some((node, _)) = self.map.read().disk(disk) {
            return Ok(node as usize);
        }
        if let Reply::Map(map) = self.interface().call(Request::Map)? {
            for (connection, node) in self.nodes.read().iter().zip(&map.nodes) {
                // A node that listens at all addresses of its machine does not know by which of
                // them this process reaches it.
                if let Ok(address) = node.address.parse::<Address>()
                    && (address.is_near()
                        || address.tcp.is_some_and(|tcp| !tcp.ip().is_unspecified()))
                {
                    connection.set_address(address);
                }
            }
            *self.map.write() = map;
        }
        match self.map.read().disk(disk) {
            Some((node, _)) => Ok(node as usize),
            None => Err(Error::other(format!("no node of the cluster has {disk} at the moment"))),
        }
    }

    /// The collective calls of this process in a job.
    pub fn calls_of_job(&self, job: &str) -> Arc<Mutex<JobCalls>> {
        self.jobs.lock().entry(job.to_owned()).or_default().clone()
    }

    /// The name of a disk, for users.
    pub fn disk_name(&self, disk: DiskId) -> String {
        self.map.read().disk_name(disk)
    }

    /// Whether the short cut may be used.
    pub fn uses_short_cut(&self) -> bool {
        self.short_cut
    }

    /// A watch on the current connection to a node; `Some(None)` if the node is in this process,
    /// none if there is no connection.
    pub fn watch_node(&self, node: usize) -> Option<Option<Watch>> {
        #[cfg(feature = "embedded")]
        if self.embedded.is_some() {
            return Some(None);
        }
        self.node(node).watch().ok().map(Some)
    }

    /// The counters of this process for short-cut accesses to disks of a node; none if the node
    /// does not count them.
    pub fn traffic(&self, node: usize) -> Option<Arc<crate::file::TrafficTable>> {
        let mut tables = self.traffic.lock();
        if let Some(table) = tables.get(&node).filter(|table| !table.is_lost()) {
            return Some(table.clone());
        }
        let table = crate::file::TrafficTable::ask(self, node)?;
        tables.insert(node, table.clone());
        Some(table)
    }

    /// Requests descriptors from a node; none if it passes none to this process.
    pub fn descriptors(&self, node: usize, request: &[u8]) -> Option<crate::file::Descriptors> {
        self.ask_descriptors(node, request)?.ok()
    }

    /// Like `descriptors`, with the failure if the node refuses.
    pub fn ask_descriptors(
        &self,
        node: usize,
        request: &[u8],
    ) -> Option<Result<crate::file::Descriptors, Option<Failure>>> {
        let failure = |refusal: Vec<u8>| postcard::from_bytes(&refusal).ok();
        #[cfg(feature = "embedded")]
        if let Some(node) = &self.embedded {
            return Some(node.descriptors(request).map_err(failure));
        }
        // A node under load may close a connection without a reply.
        for _ in 0..3 {
            let mut client: DescriptorClient = self.node(node).descriptors()?;
            if let Ok(given) = client.request(request) {
                return Some(given.map_err(failure));
            }
        }
        None
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cluster({:?})", self.map().name)
    }
}

/// How this process presents itself. Nodes that are far are on another machine, or reached as if they
/// were.
fn client(
    options: &ClusterOptions,
    (trusts_any_user, is_far): (bool, bool),
) -> Result<Client, Error> {
    let own = User::own();
    let mut gids = vec![own.gid];
    gids.extend(own.groups.iter().copied().filter(|gid| *gid != own.gid));
    let program = options.client.clone().unwrap_or_else(program);
    let key = key::find(options.key_file.as_deref(), is_far)?;
    Ok(Client {
        name: format!("{program} ({})", std::process::id()),
        identity: Identity { uid: own.uid, gids },
        key,
        timeout: options.timeout.unwrap_or(TIMEOUT),
        connect_wait: options.timeout,
        trusts_any_user,
    })
}

/// Whether a cluster is on a host, as far as addresses say. A host that is unknown has none.
fn is_on_host(place: &ClusterAddress, host: &HostAndPort) -> bool {
    match place {
        ClusterAddress::Node(Address { tcp: Some(tcp), unix: None, .. }) => {
            host.addresses().is_ok_and(|found| found.iter().any(|known| known.ip() == tcp.ip()))
        }
        ClusterAddress::Node(address) => address.is_near() && host.is_this_machine(),
        ClusterAddress::Network(other) | ClusterAddress::Host(other) => {
            let ips = |host: &HostAndPort| -> Vec<IpAddr> {
                host.addresses().unwrap_or_default().iter().map(SocketAddr::ip).collect()
            };
            let own = ips(host);
            other.host == host.host
                || ips(other).iter().any(|ip| own.contains(ip))
                || other.is_this_machine() && host.is_this_machine()
        }
    }
}
