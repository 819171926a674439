//! Teams that find their machines as users have them do it: by a node, or by the name that Open MPI
//! gives a job and the address of its first machine.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use pario::cached::CachedFileSource;
use pario::{CachedOptions, Cluster, Job};
use pario_server::Node;
use pario_server::config::Config;
use pario_team::Key;

use super::lab::Lab;
use super::program;

/// Tells a process that was started again what it is: `node` and where it listens, or a seed for
/// ranks; and the directory.
const ROLE: &str = "PARIO_TEST_LAUNCHED";
const NODE_PORT: u16 = 4000;

/// Is a node or a rank, if it was started as one; otherwise it has nothing to do.
#[test]
fn launched_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.splitn(3, ' ').collect();
    match words[..] {
        ["node", listen, dir] => be_node(listen.parse().unwrap(), dir.as_ref()),
        ["rank", seed, dir] => be_rank(seed.parse().unwrap(), dir.as_ref()),
        _ => panic!("{role}"),
    }
}

fn be_node(listen: SocketAddr, dir: &Path) {
    let mut config = Config::alone(&dir.join("node"));
    config.key_file = Some(dir.join("key"));
    config.nodes[0].listen = Some(listen);
    config.nodes[0].socket = dir.join("socket");
    let node = Node::start(&config, &config.nodes[0].name).unwrap();
    println!("READY");
    // The node lives as long as its parent process.
    let stopper = node.stopper();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        stopper();
    });
    node.wait();
    node.stop();
}

fn be_rank(seed: u64, dir: &Path) {
    let job = Job::from_env().unwrap();
    let team = job.team().unwrap_or_else(|error| panic!("{error}"));
    program::run(&team, seed, dir);
    if std::env::var_os("PARIO_CLUSTER").is_some() {
        share_cached_files(&job, &Cluster::from_env().unwrap());
    }
    println!("rank {} of {}: done", job.rank(), job.size());
}

/// Two files at once in the memory of all machines, beside what the program uses.
fn share_cached_files(job: &Job, cluster: &Cluster) {
    let (rank, size) = (u64::from(job.rank()), u64::from(job.size()));
    let options = CachedOptions::new().read(true).write(true).create(true);
    let files = ["/one", "/two"].map(|path| {
        let source = CachedFileSource::in_cluster(cluster, path);
        let mut file = job.cache_with(source, &options).unwrap();
        file.reserve(size * 100).unwrap();
        file
    });
    for (number, file) in (0..).zip(&files) {
        file.write_at(&[number * 50 + u8::try_from(rank).unwrap(); 100], rank * 100).unwrap();
    }
    job.files(cluster).barrier().unwrap();
    for (number, file) in (0..).zip(&files) {
        for other in 0..size {
            let mut bytes = [0; 100];
            file.read_exact_at(&mut bytes, other * 100).unwrap();
            assert_eq!(bytes, [number * 50 + u8::try_from(other).unwrap(); 100]);
        }
    }
    for file in files {
        file.close().unwrap();
    }
    let file = cluster.open("/two").unwrap();
    assert_eq!(file.len().unwrap(), size * 100);
}

/// Machines, a directory with a key, and what has to end with them.
struct Site {
    lab: Lab,
    dir: tempfile::TempDir,
}

/// A node that runs, and ends with this.
struct RunningNode(Child);

impl Drop for RunningNode {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Site {
    fn new(machines: u32) -> Option<Self> {
        let site = Self { lab: Lab::new(machines)?, dir: tempfile::tempdir().unwrap() };
        pario_net::write_private_file(&site.key(), Key::random().to_hex()).unwrap();
        Some(site)
    }

    fn key(&self) -> std::path::PathBuf {
        self.dir.path().join("key")
    }

    /// A command on a machine, which has a name of its own.
    fn at(&self, machine: u32, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.lab.namespace(machine), "unshare", "--uts"]);
        command.args(["sh", "-c", &format!("hostname m{machine} && exec \"$@\""), "sh", program]);
        command.env("PARIO_KEY", self.key()).env_remove("PARIO_CLUSTER").stdin(Stdio::null());
        command
    }

    /// This program at a machine.
    fn process(&self, machine: u32) -> Command {
        let mut command = self.at(machine, std::env::current_exe().unwrap().to_str().unwrap());
        command.args(["--exact", "namespaces::launched::launched_process", "--nocapture"]);
        command
    }

    /// A node at the first machine.
    fn start_node(&self) -> RunningNode {
        let mut command = self.process(0);
        let (address, dir) = (self.node(), self.dir.path().display());
        command.env(ROLE, format!("node {address} {dir}"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let node = RunningNode(child);
        assert!(lines.map_while(Result::ok).any(|line| line.contains("READY")), "the node starts");
        node
    }

    fn node(&self) -> SocketAddr {
        SocketAddr::new(self.lab.meeting().ip(), NODE_PORT)
    }

    fn rank_role(&self, seed: u64) -> String {
        format!("rank {seed} {}", self.dir.path().join(seed.to_string()).display())
    }

    /// Open MPI with a rank on each of two machines, which it reaches by a script.
    fn open_mpi(&self) -> Command {
        let shell = self.dir.path().join("shell");
        let namespace = self.lab.namespace(0);
        let stem = namespace.strip_suffix('0').unwrap();
        let script = format!(
            "#!/bin/sh\nmachine=$1; shift\nexec ip netns exec {stem}${{machine#m}} \
             unshare --uts sh -c \"hostname $machine && $*\"\n"
        );
        fs::write(&shell, script).unwrap();
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o700)).unwrap();
        let mut command = self.at(0, "mpirun.openmpi");
        command.args(["--allow-run-as-root", "--mca", "plm_rsh_agent", shell.to_str().unwrap()]);
        command.args(["--host", "m0:1,m1:1", "-n", "2", "-x", "PARIO_KEY", "-x", ROLE]);
        command
    }

    /// The words after those of `mpirun`.
    fn as_rank(&self, command: &mut Command, seed: u64) -> Output {
        command.env(ROLE, self.rank_role(seed)).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "namespaces::launched::launched_process", "--nocapture"]);
        command.output().unwrap()
    }
}

fn are_done(output: &Output, ranks: usize) {
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{wrong}");
    let done = (0..ranks).filter(|rank| said.contains(&format!("rank {rank} of {ranks}: done")));
    assert_eq!(done.count(), ranks, "{said}\n{wrong}");
}

/// Whether there is an `mpirun` to be tried.
fn has_open_mpi() -> bool {
    let is_there = Command::new("mpirun.openmpi").arg("--version").output().is_ok();
    if !is_there {
        eprintln!("SKIPPED, nothing was tested: install openmpi-bin");
    }
    is_there
}

#[test]
fn machines_find_each_other_by_a_node() {
    let Some(site) = Site::new(3) else { return };
    let _node = site.start_node();
    let start = |rank: u32, seed| {
        let mut command = site.process(site.lab.machine_of(rank));
        command
            .env(ROLE, site.rank_role(seed))
            .env("PARIO_RANK", rank.to_string())
            .env("PARIO_SIZE", "4")
            .env("PARIO_JOB", "a job")
            .env("PARIO_TEAM", "cluster")
            .env("PARIO_CLUSTER", format!("tcp:{}", site.node()));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // The same job twice: the second one does not find the first.
    for seed in 0..2 {
        let ranks: Vec<Child> = (0..4).map(|rank| start(rank, seed)).collect();
        for (rank, child) in ranks.into_iter().enumerate() {
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let wrong = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(&format!("rank {rank} of 4: done")), "{said}\n{wrong}");
        }
    }
}

#[test]
fn open_mpi_names_the_job_and_the_user_its_first_machine() {
    let (Some(site), true) = (Site::new(2), has_open_mpi()) else { return };
    let mut command = site.open_mpi();
    let first = site.lab.meeting().ip();
    command.args(["-x", "PARIO_TEAM"]).env("PARIO_TEAM", first.to_string());
    are_done(&site.as_rank(&mut command, 3), 2);
}

#[test]
fn open_mpi_says_that_there_are_machines_and_a_node_where_they_are() {
    let (Some(site), true) = (Site::new(2), has_open_mpi()) else { return };
    let _node = site.start_node();
    let mut command = site.open_mpi();
    command.args(["-x", "PARIO_CLUSTER"]).env("PARIO_CLUSTER", format!("tcp:{}", site.node()));
    are_done(&site.as_rank(&mut command, 5), 2);
}

#[test]
fn without_a_rendezvous_the_error_says_how_to_set_one() {
    let (Some(site), true) = (Site::new(2), has_open_mpi()) else { return };
    let output = site.as_rank(&mut site.open_mpi(), 1);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{wrong}");
    let expected = "the job spans machines (1 of its 2 processes are on others), and these have to \
                    find each other: set PARIO_CLUSTER";
    assert!(wrong.contains(expected), "{wrong}");
}
