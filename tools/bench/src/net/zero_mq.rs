//! ZeroMQ as a peer: messages of 64 bytes from one process to another, PUSH to PULL, over TCP.
//!
//! The processes are a small C program with the system's library, `peers/zmq.c`, which `peers.sh`
//! builds. Its sockets have the same congestion control as ours (the library itself sets
//! `TCP_NODELAY`); everything else has the library's defaults. Nothing is bound to a core.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::partner::PartnerProcess;

/// Two processes, connected.
#[derive(Debug)]
pub struct ZeroMq {
    push: PartnerProcess,
    pull: PartnerProcess,
}

impl ZeroMq {
    /// Builds and starts both; the inner error says why that is impossible here.
    pub fn start(dir: &Path) -> Result<Result<Self, String>> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers.sh");
        let built = Command::new("bash").arg(&script).arg("zmq").arg(dir).output();
        let built = built.context("calling peers.sh")?;
        if !built.status.success() {
            let said = String::from_utf8_lossy(&built.stderr);
            let last = said.lines().last().unwrap_or("peers.sh failed");
            return Ok(Err(format!("no ZeroMQ: {last}")));
        }
        let program = dir.join("zmq");
        let mut pull = PartnerProcess::spawn(Command::new(&program).arg("pull"))?;
        let address = pull.receive_line()?;
        let push = PartnerProcess::spawn(Command::new(&program).arg("push").arg(address))?;
        Ok(Ok(Self { push, pull }))
    }

    /// The time from before the first message is sent until the last one has arrived.
    pub fn stream(&mut self, count: u64) -> Result<Duration> {
        self.pull.send_line(count.to_string())?;
        self.push.send_line(count.to_string())?;
        let start_ns: u64 = self.push.receive_value()?;
        let end_ns: u64 = self.pull.receive_value()?;
        ensure!(start_ns < end_ns, "ZeroMQ's clocks differ");
        Ok(Duration::from_nanos(end_ns - start_ns))
    }
}
