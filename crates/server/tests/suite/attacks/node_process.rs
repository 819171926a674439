//! A node in its own process, with a bounded address space, as the target of attacks.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pario_net::{Address, Key};
use pario_server::Node;
use pario_server::config::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

const DIRECTORY: &str = "PARIO_TEST_ATTACKED";

/// The address space of an attacked node. A node that only serves uses about half of it, nearly all
/// of it reserved by threads and never touched.
const ADDRESS_SPACE_BYTES: u64 = 6 << 30;

/// A node under attack. It listens on loopback, and trusts a client with its key about the user that
/// the client claims to be.
pub struct AttackedNode {
    process: Child,
    tcp: SocketAddr,
    dir: TempDir,
}

impl AttackedNode {
    /// Starts this test program again, as a node.
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("key"), Key::random().to_hex()).unwrap();
        make_private(&dir.path().join("key"));
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "attacks::node_process::node_process", "--nocapture"])
            .env(DIRECTORY, dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("the node has started").unwrap();
            if let Some(at) = line.find('@') {
                break line[at + 1..].to_owned();
            }
        };
        let address: Address = address.parse().unwrap();
        Self { process, tcp: address.tcp.expect("it listens on TCP"), dir }
    }

    /// Returns its TCP address.
    pub fn tcp(&self) -> SocketAddr {
        self.tcp
    }

    /// Returns its key.
    pub fn key(&self) -> Key {
        Key::from_hex(&fs::read_to_string(self.dir.path().join("key")).unwrap()).unwrap()
    }

    /// Fails the test if the node has ended.
    #[track_caller]
    pub fn assert_alive(&mut self, after: &str) {
        let ended = self.process.try_wait().unwrap();
        assert!(ended.is_none(), "the node has ended ({ended:?}) after {after}");
    }

    /// Returns its resident memory.
    pub fn resident_bytes(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.process.id())).unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
}

impl Drop for AttackedNode {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn make_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// The process of an [`AttackedNode`]. As an ordinary test it does nothing.
#[test]
fn node_process() {
    let Some(dir) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current: Some(ADDRESS_SPACE_BYTES), maximum }).unwrap();
    let mut config = Config::alone(&dir.join("data"));
    config.key_file = Some(dir.join("key"));
    config.nodes[0].socket = dir.join("s");
    config.nodes[0].listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let node = Node::start_beside(&config, "local").unwrap();
    // One line in one write, because the test runner writes to the same stream.
    std::io::stdout().write_all(format!("@{}\n", node.address()).as_bytes()).unwrap();
    // The node runs until the test closes the pipe or ends.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
