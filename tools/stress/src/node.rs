//! The flooded node, in a process of its own.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use pario_server::Node;
use pario_server::config::Config;
use tempfile::TempDir;

/// A node process; dropping it kills the node.
pub struct NodeProcess {
    process: Child,
    socket: PathBuf,
    _dir: TempDir,
}

impl NodeProcess {
    /// Starts this program again as a node, and waits until the node is ready.
    pub fn start() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        // The floods run as another user and must reach the sockets.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        let mut process = Command::new(std::env::current_exe()?)
            .arg("--node")
            .arg(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the node")?;
        let mut ready = String::new();
        let output = process.stdout.take().context("its output is a pipe")?;
        BufReader::new(output).read_line(&mut ready)?;
        anyhow::ensure!(ready == "ready\n", "the node has not started: {ready:?}");
        Ok(Self { process, socket: socket_in(dir.path()), _dir: dir })
    }

    /// The path of the node's socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The process id of the node.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether the node still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn socket_in(dir: &Path) -> PathBuf {
    dir.join("s")
}

/// Runs a node until standard input ends.
pub fn serve(dir: &Path) -> Result<()> {
    let mut config = Config::alone(&dir.join("data"));
    config.nodes[0].socket = socket_in(dir);
    config.nodes[0].all_users = true;
    let _node = Node::start_beside(&config, "local")?;
    std::io::stdout().write_all(b"ready\n")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
