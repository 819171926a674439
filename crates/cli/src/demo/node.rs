//! A node as a child process that runs this same binary.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};

/// A running node, killed on drop.
#[derive(Debug)]
pub struct NodeProcess {
    child: Child,
    /// Stays open, because the node may write to it until it ends.
    stdout: BufReader<ChildStdout>,
}

impl NodeProcess {
    /// Starts a node, and returns when it listens.
    pub fn start(data: &Path) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut child = Command::new(program)
            .arg("serve")
            .arg("--data")
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a node")?;
        let stdout = child.stdout.take().context("the node has no stdout")?;
        let mut node = Self { child, stdout: BufReader::new(stdout) };
        let mut line = String::new();
        node.stdout.read_line(&mut line).context("cannot read the node's output")?;
        if !line.contains("listening on") {
            let status = node.child.wait().context("cannot wait for the node")?;
            bail!("the node did not start ({status}); its error is printed above");
        }
        Ok(node)
    }

    /// Kills it at once, like a crash.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().context("cannot kill the node")?;
        self.child.wait().context("cannot wait for the node")?;
        Ok(())
    }

    /// Waits for its end after a request to stop.
    pub fn wait(mut self) -> anyhow::Result<()> {
        let status = self.child.wait().context("cannot wait for the node")?;
        if !status.success() {
            bail!("the node ended with an error: {status}");
        }
        Ok(())
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // The node may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
