//! A cluster of processes, each in a network namespace with an address of its own, joined by a
//! switch; and the test itself in one more namespace. All of it goes when the test ends.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use pario::{Cluster, ClusterOptions};
use pario_net::Key;
use pario_proto::FileId;
use pario_server::Node;
use pario_server::config::{Config, DiskConfig, NodeConfig, ShortCut};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::sites::raw_client::RawClient;

/// The time within which processes start, also on a busy machine.
pub const SOON: Duration = Duration::from_secs(20);
/// A failure must be reported within this time.
pub const IN_TIME: Duration = Duration::from_secs(2);
/// The limit for calls that must end within [`IN_TIME`], with an allowance for a busy machine.
pub const ALLOWED: Duration = Duration::from_millis(2_500);
/// The names of the nodes, in order. The first is the interface node.
pub const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

/// Tells a process that was started again which node it is: number, nodes, disks each, directory.
const NODE: &str = "PARIO_TEST_CLUSTER_NODE";
const PORT: u16 = 4000;

/// Whether long runs are wanted.
pub fn is_heavy() -> bool {
    std::env::var("PARIO_HEAVY").is_ok_and(|value| value == "1")
}

/// A cluster of processes.
pub struct Lab {
    name: String,
    dir: tempfile::TempDir,
    shape: Shape,
    nodes: Vec<Option<Child>>,
    /// Lines that the nodes have printed for the test.
    said: Vec<Option<mpsc::Receiver<String>>>,
    /// An image of a file system in place of the first disk of a node.
    image: Option<(usize, PathBuf)>,
    /// The library that gives a node a clock of its own.
    clock_library: Option<PathBuf>,
    home: fs::File,
}

#[derive(Clone, Copy)]
struct Shape {
    nodes: usize,
    disks: usize,
}

impl Lab {
    /// Three nodes with two disks each, running and joined; nothing where that is impossible.
    pub fn start() -> Option<Self> {
        let mut lab = Self::lay_out(Shape { nodes: 3, disks: 2 })?;
        lab.start_all();
        Some(lab)
    }

    /// Starts a lab in which the first disk of a node is a file system of `size_mib` MiB.
    pub fn start_with_small_disk(node: usize, size_mib: u64) -> Option<Self> {
        let mut lab = Self::lay_out_with_small_disk(node, size_mib)?;
        lab.start_all();
        Some(lab)
    }

    /// The same; each node has a clock of its own, which [`set_clock`](Lab::set_clock) sets.
    pub fn start_with_clocks(offsets: [&str; 3]) -> Option<Self> {
        let mut lab = Self::lay_out(Shape { nodes: 3, disks: 2 })?;
        let Some(library) = clock_library() else {
            eprintln!(
                "SKIPPED, nothing was tested: libfaketime is not there; install the package \
                 faketime"
            );
            return None;
        };
        lab.clock_library = Some(library);
        for (node, offset) in offsets.into_iter().enumerate() {
            lab.set_clock(node, offset);
        }
        lab.start_all();
        Some(lab)
    }

    fn lay_out_with_small_disk(node: usize, size_mib: u64) -> Option<Self> {
        let mut lab = Self::lay_out(Shape { nodes: 3, disks: 2 })?;
        lab.image = Some((node, make_image(lab.dir.path(), size_mib)?));
        Some(lab)
    }

    fn lay_out(shape: Shape) -> Option<Self> {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let lab = Self {
            name: format!("pario-c{}-{number}", std::process::id()),
            dir: tempfile::tempdir().unwrap(),
            shape,
            nodes: (0..shape.nodes).map(|_| None).collect(),
            said: (0..shape.nodes).map(|_| None).collect(),
            image: None,
            clock_library: None,
            home: fs::File::open("/proc/thread-self/ns/net").unwrap(),
        };
        if let Err(reason) = lab.lay_cables() {
            eprintln!("SKIPPED, nothing was tested: network namespaces are impossible: {reason}");
            return None;
        }
        pario_net::write_private_file(&lab.dir.path().join("key"), Key::random().to_hex()).unwrap();
        fs::create_dir(lab.dir.path().join("private")).unwrap();
        Some(lab)
    }

    /// Makes the namespaces, and moves this thread into the one of the client.
    fn lay_cables(&self) -> Result<(), String> {
        let switch = self.namespace("switch");
        ip(&format!("netns add {switch}"))?;
        ip(&format!("-n {switch} link add hub type bridge"))?;
        ip(&format!("-n {switch} link set hub up"))?;
        let ends = (0..self.shape.nodes).map(|node| (node.to_string(), address(node).ip()));
        let client = ("client".to_owned(), Ipv4Addr::new(10, 78, 0, 100).into());
        for (end, host) in ends.chain([client]) {
            let namespace = self.namespace(&end);
            ip(&format!("netns add {namespace}"))?;
            ip(&format!(
                "link add port{end} netns {switch} type veth peer name cable netns {namespace}"
            ))?;
            ip(&format!("-n {switch} link set port{end} master hub"))?;
            ip(&format!("-n {switch} link set port{end} up"))?;
            ip(&format!("-n {namespace} address add {host}/24 dev cable"))?;
            ip(&format!("-n {namespace} link set cable up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
        }
        let client = self.namespace("client");
        ip(&format!("netns exec {client} true"))?;
        let file = fs::File::open(format!("/run/netns/{client}")).map_err(|e| e.to_string())?;
        enter(&file).map_err(|error| error.to_string())
    }

    fn namespace(&self, end: &str) -> String {
        format!("{}-{end}", self.name)
    }

    fn start_all(&mut self) {
        for node in 0..self.shape.nodes {
            self.start_node(node);
        }
        self.cluster();
    }

    /// Starts a node, and waits until it listens.
    pub fn start_node(&mut self, node: usize) {
        let dir = self.dir.path();
        // The sockets lie in a directory that only the node sees: clients must take the network.
        let mut script = format!("mount -t tmpfs private {}", dir.join("private").display());
        if let Some((_, image)) = self.image.as_ref().filter(|(of, _)| *of == node) {
            let disk = disk_path(dir, node, 0);
            fs::create_dir_all(&disk).unwrap();
            let (image, disk) = (image.display(), disk.display());
            script += &format!(" && mount -o loop {image} {disk} && rm -rf {disk}/lost+found");
        }
        let mut clock = String::new();
        if let Some(library) = &self.clock_library {
            // Only the time of day: durations come from the monotonic clock, which stays true.
            clock = format!(
                "env LD_PRELOAD={} FAKETIME_TIMESTAMP_FILE={} FAKETIME_NO_CACHE=1 \
                 FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1 \
                 FAKETIME_DISABLE_SHM=1",
                library.display(),
                self.clock_path(node).display()
            );
        }
        let Shape { nodes, disks } = self.shape;
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.namespace(&node.to_string())])
            .args(["sh", "-c", &format!("{script} && exec {clock} \"$@\""), "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "cluster::lab::node_process", "--nocapture"])
            .env(NODE, format!("{node} {nodes} {disks} {}", dir.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if line.contains("READY") || line.contains("BEGUN") {
                    // The receiver is gone if the test has failed.
                    let _ = send.send(line);
                }
            }
        });
        self.nodes[node] = Some(child);
        said.recv_timeout(SOON).unwrap_or_else(|_| panic!("node {} starts", NAMES[node]));
        self.said[node] = Some(said);
    }

    /// Has the interface node begin a number of grant epochs, as if their time had passed.
    pub fn begin_grant_epochs(&mut self, count: u64) {
        use std::io::Write as _;
        let stdin = self.nodes[0].as_mut().and_then(|child| child.stdin.as_mut());
        writeln!(stdin.expect("it runs"), "epochs {count}").unwrap();
        let said = self.said[0].as_ref().expect("it runs").recv_timeout(SOON);
        assert!(said.expect("the epochs begin").contains("BEGUN"));
    }

    /// A client that keeps grants, connected to a node as a user.
    pub fn raw_client(&self, node: usize, uid: u32) -> RawClient {
        RawClient::connect(address(node), &self.dir.path().join("key"), uid, "thief")
    }

    /// Kills a node as if the power of its machine had failed, but for the disks.
    pub fn kill(&mut self, node: usize) {
        let mut child = self.nodes[node].take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Has a node stop, and waits for its end.
    pub fn stop(&mut self, node: usize) {
        let mut child = self.nodes[node].take().expect("it runs");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success(), "node {} says why", NAMES[node]);
    }

    /// A node does nothing more until it is resumed.
    pub fn pause(&self, node: usize) {
        self.signal(node, Signal::STOP);
        let child = self.nodes[node].as_ref().expect("it runs");
        // The signal has come to a process before each of its threads has stopped.
        let is_stopped = |task: std::io::Result<fs::DirEntry>| {
            let stat = fs::read_to_string(task.unwrap().path().join("stat"));
            stat.is_ok_and(|stat| {
                stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
            })
        };
        let tasks = format!("/proc/{}/task", child.id());
        while !fs::read_dir(&tasks).unwrap().all(is_stopped) {
            std::thread::yield_now();
        }
    }

    /// A node goes on.
    pub fn resume(&self, node: usize) {
        self.signal(node, Signal::CONT);
    }

    fn signal(&self, node: usize, signal: Signal) {
        let child = self.nodes[node].as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Pulls the cable of a node, or plugs it in again.
    pub fn set_cable(&self, node: usize, is_plugged: bool) {
        let state = if is_plugged { "up" } else { "down" };
        ip(&format!("-n {} link set port{node} {state}", self.namespace("switch"))).unwrap();
    }

    /// Sets the clock of a node: so far ahead (`+10d`) or behind (`-10d`).
    pub fn set_clock(&self, node: usize, offset: &str) {
        let path = self.clock_path(node);
        let making = path.with_extension("new");
        fs::write(&making, format!("{offset}\n")).unwrap();
        fs::rename(&making, &path).unwrap();
    }

    fn clock_path(&self, node: usize) -> PathBuf {
        self.dir.path().join(format!("{}.clock", NAMES[node]))
    }

    /// Whether there is something of a file on a disk, which is not the small one.
    pub fn has_subfile(&self, node: usize, disk: usize, file: FileId) -> bool {
        let mut entries = fs::read_dir(disk_path(self.dir.path(), node, disk)).unwrap();
        let name = file.to_string();
        entries.any(|entry| entry.unwrap().file_name().to_string_lossy().contains(&name))
    }

    /// Blocks writes to the small disk until the result is dropped.
    pub fn stall_small_disk(&self) -> Stalled {
        let (node, _) = self.image.as_ref().expect("there is one");
        let disk = self.seen_by_node(*node, &disk_path(self.dir.path(), *node, 0));
        Stalled::new(&disk)
    }

    /// Limits the small disk to `bytes_per_second` until the result is dropped; `None` where the
    /// system cannot do that.
    pub fn throttle_small_disk(&self, bytes_per_second: u64) -> Option<Throttled> {
        let (node, _) = self.image.as_ref().expect("there is one");
        let id = self.nodes[*node].as_ref().expect("it runs").id();
        let disk = disk_path(self.dir.path(), *node, 0).display().to_string();
        let mounts = fs::read_to_string(format!("/proc/{id}/mountinfo")).unwrap();
        let mount = mounts.lines().find(|line| line.split(' ').nth(4) == Some(&disk)).unwrap();
        let device = mount.split(' ').nth(2).unwrap().to_owned();
        let throttled = Throttled { device };
        match throttled.set(bytes_per_second) {
            Ok(()) => Some(throttled),
            Err(error) => {
                eprintln!("SKIPPED, nothing was tested: {THROTTLE} cannot be written: {error}");
                None
            }
        }
    }

    /// A path as a node sees it, which has mounts of its own.
    fn seen_by_node(&self, node: usize, path: &Path) -> PathBuf {
        let id = self.nodes[node].as_ref().expect("it runs").id();
        Path::new(&format!("/proc/{id}/root")).join(path.strip_prefix("/").unwrap())
    }

    /// The memory that a node has in use.
    pub fn memory_bytes(&self, node: usize) -> u64 {
        let id = self.nodes[node].as_ref().expect("it runs").id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    /// A new client, connected to the interface node when all disks are known.
    pub fn cluster(&self) -> Cluster {
        self.cluster_at(0)
    }

    /// A new client, connected to a node when all disks are known there.
    pub fn cluster_at(&self, node: usize) -> Cluster {
        until("all disks are known", || {
            let cluster = self.try_connect(node).ok()?;
            let map = cluster.map();
            let is_whole = map.nodes.iter().all(|node| node.disks.len() == self.shape.disks);
            is_whole.then_some(cluster)
        })
    }

    /// A new client, connected to a node if it is there.
    pub fn try_connect(&self, node: usize) -> Result<Cluster, pario::Error> {
        let options = ClusterOptions {
            key_file: Some(self.dir.path().join("key")),
            ..ClusterOptions::default()
        };
        Cluster::connect_with(&format!("tcp:{}", address(node)), options)
    }
}

/// How fast the block devices of the machine may be written to.
const THROTTLE: &str = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";

/// A disk that takes no writes.
pub struct Stalled {
    child: Child,
}

impl Stalled {
    /// A file system that is mounted there.
    pub fn new(disk: &Path) -> Self {
        // It stands on the disk, so that it finds it also if the node is gone. It is in a group of
        // its own and thaws after a minute at the latest, whatever has become of the test:
        // processes that wait for a frozen file system cannot be killed, and then not even close
        // what they have open.
        let script = "cd \"$0\" && fsfreeze -f . && echo STALLED && timeout 60 cat; fsfreeze -u .";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .arg(disk)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "STALLED\n", "fsfreeze says why");
        Self { child }
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A disk that takes few bytes per second.
pub struct Throttled {
    device: String,
}

impl Throttled {
    fn set(&self, bytes_per_second: u64) -> std::io::Result<()> {
        fs::write(THROTTLE, format!("{} {bytes_per_second}", self.device))
    }
}

impl Drop for Throttled {
    fn drop(&mut self) {
        // No limit.
        let _ = self.set(0);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for mut child in self.nodes.drain(..).flatten() {
            // A paused process can be killed as well.
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = enter(&self.home);
        let nodes = (0..self.shape.nodes).map(|node| node.to_string());
        for end in nodes.chain(["client".to_owned(), "switch".to_owned()]) {
            let _ = ip(&format!("netns delete {}", self.namespace(&end)));
        }
    }
}

/// Is a node, if it was started as one; otherwise it has nothing to do.
#[test]
fn node_process() {
    let Ok(role) = std::env::var(NODE) else { return };
    let words: Vec<&str> = role.splitn(4, ' ').collect();
    let number = |word: usize| words[word].parse::<usize>().unwrap();
    let config = config(Path::new(words[3]), Shape { nodes: number(1), disks: number(2) });
    super::scale::raise_descriptor_limit();
    let node = Node::start(&config, NAMES[number(0)]).unwrap_or_else(|error| panic!("{error}"));
    println!("READY");
    // The node lives as long as the process that has started it wants, and not longer than that
    // process.
    let stopper = node.stopper();
    let node = std::sync::Arc::new(node);
    let told = node.clone();
    let listening = std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let count = line.strip_prefix("epochs ").expect("an order").parse().unwrap();
            told.begin_grant_epochs(count).unwrap_or_else(|error| panic!("{error}"));
            println!("BEGUN");
        }
        stopper();
    });
    node.wait();
    listening.join().unwrap();
}

fn config(dir: &Path, shape: Shape) -> Config {
    let node = |node: usize| NodeConfig {
        name: NAMES[node].to_owned(),
        listen: Some(address(node)),
        socket: dir.join("private/socket"),
        all_users: false,
        data: dir.join(NAMES[node]),
        disks: (0..shape.disks).map(|disk| DiskConfig::at(disk_path(dir, node, disk))).collect(),
        storage_threads: 1,
        concurrent_requests: 16,
        compute_threads: 1,
        cache_bytes: 16 << 20,
        short_cut: ShortCut::Write,
        wait_warning: None,
        ..Config::alone(dir).nodes.remove(0)
    };
    Config {
        name: "lab".to_owned(),
        key_file: Some(dir.join("key")),
        nodes: (0..shape.nodes).map(node).collect(),
        interface: 0,
        ..Config::alone(dir)
    }
}

/// A file system in a file; nothing where that is impossible.
pub fn make_image(dir: &Path, size_mib: u64) -> Option<PathBuf> {
    let image = dir.join("small.img");
    fs::File::create(&image).unwrap().set_len(size_mib << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image).output();
    if let Err(why) = check(made, "mkfs.ext4") {
        eprintln!("SKIPPED, nothing was tested: a file system cannot be made: {why}");
        return None;
    }
    Some(image)
}

/// Mounts something that only this thread and those it starts see; whether that is possible.
pub fn mount_privately(what: &[&str], dir: &Path) -> bool {
    // SAFETY: no file descriptors are unshared.
    let unshared = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) };
    let mount = |words: &[&str], dir: Option<&Path>| {
        check(Command::new("mount").args(words).args(dir).output(), "mount")
    };
    let mounted = unshared
        .map_err(|error| error.to_string())
        .and_then(|()| mount(&["--make-rprivate", "/"], None))
        .and_then(|()| mount(what, Some(dir)));
    if let Err(why) = &mounted {
        eprintln!("SKIPPED, nothing was tested: nothing can be mounted: {why}");
    }
    mounted.is_ok()
}

/// Where the package `faketime` puts its library.
fn clock_library() -> Option<PathBuf> {
    let name = Path::new("faketime/libfaketimeMT.so.1");
    let folders = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    folders.chain([PathBuf::from("/usr/lib")]).map(|dir| dir.join(name)).find(|path| path.exists())
}

fn disk_path(dir: &Path, node: usize, disk: usize) -> PathBuf {
    dir.join(NAMES[node]).join(format!("disk{disk}"))
}

fn address(node: usize) -> SocketAddr {
    let host = u8::try_from(node + 1).unwrap();
    SocketAddr::new(Ipv4Addr::new(10, 78, 0, host).into(), PORT)
}

fn enter(namespace: &fs::File) -> rustix::io::Result<()> {
    use std::os::fd::AsFd as _;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
}

/// Runs `ip` with these words.
fn ip(words: &str) -> Result<(), String> {
    let words: Vec<&str> = words.split(' ').collect();
    check(Command::new("ip").args(&words).stdin(Stdio::null()).output(), &words.join(" "))
}

fn check(output: std::io::Result<std::process::Output>, what: &str) -> Result<(), String> {
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{what}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

/// Asks until there is an answer, for a limited time.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "it takes too long until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Bytes that tell where they belong.
pub fn pattern(seed: u64, offset: u64, len: usize) -> Vec<u8> {
    assert!(offset.is_multiple_of(8) && len.is_multiple_of(8));
    let word = |number: u64| (number ^ seed.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..len as u64 / 8).flat_map(|number| word(offset / 8 + number).to_le_bytes()).collect()
}

/// Asserts that a call fails in time with an error that contains a name.
#[track_caller]
pub fn fails_in_time<T>(name: &str, call: impl FnOnce() -> Result<T, pario::Error>) -> Duration {
    let began = Instant::now();
    let error = call().err().expect("what needs a node that is away must fail");
    let took = began.elapsed();
    assert!(error.to_string().contains(name), "{name} is not named: {error}");
    assert!(took < ALLOWED, "known only after {took:?}: {error}");
    took
}

/// Asserts that `work` succeeds without delay.
#[track_caller]
pub fn at_once<T>(what: &str, work: impl FnOnce() -> Result<T, pario::Error>) -> T {
    let began = Instant::now();
    let done = work().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(began.elapsed() < ALLOWED, "{what} was held up for {:?}", began.elapsed());
    done
}
