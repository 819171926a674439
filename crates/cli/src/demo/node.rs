//! A node in a process of its own: this same binary.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};

/// A node that runs. It is killed when this value goes.
#[derive(Debug)]
pub struct NodeProcess {
    child: Child,
    /// Stays open, because the node may write to it until it ends.
    said: BufReader<ChildStdout>,
}

impl NodeProcess {
    /// Starts a node, and returns when it has said that it listens.
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
        let mut node = Self { child, said: BufReader::new(stdout) };
        let mut line = String::new();
        node.said.read_line(&mut line).context("cannot hear the node")?;
        if !line.contains("listening on") {
            let status = node.child.wait().context("cannot wait for the node")?;
            bail!("the node has not started ({status}); what it said is above");
        }
        Ok(node)
    }

    /// Kills it at once, as a crash would.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().context("cannot kill the node")?;
        self.child.wait().context("cannot wait for the node")?;
        Ok(())
    }

    /// Waits for its end, which somebody has asked it for.
    pub fn wait(mut self) -> anyhow::Result<()> {
        let status = self.child.wait().context("cannot wait for the node")?;
        if !status.success() {
            bail!("the node has not stopped in order: {status}");
        }
        Ok(())
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
