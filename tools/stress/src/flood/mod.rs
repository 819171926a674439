//! The floods, each in a process of its own.

mod connections;
mod requests;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The user and group of the floods, if this program runs as root: those of `nobody`.
const NOBODY: u32 = 65_534;

/// A flood: one kind of load that must not harm a node.
pub struct Flood {
    /// Its name on the command line.
    pub name: &'static str,
    /// Floods a socket until a time, and returns a report.
    run: fn(&Path, Instant) -> Result<String>,
}

/// All floods.
pub const FLOODS: &[Flood] = &[
    Flood { name: "silent-connections", run: connections::stay_silent },
    Flood { name: "half-handshakes", run: connections::send_half_handshakes },
    Flood { name: "oversized-packets", run: connections::send_oversized },
    Flood { name: "descriptor-socket", run: connections::send_to_descriptor_socket },
    Flood { name: "requests", run: requests::send_requests },
    Flood { name: "handles", run: requests::open_files },
    Flood { name: "locks", run: requests::take_locks },
    Flood { name: "numbers", run: requests::claim_resources },
];

/// The names of all floods, for messages.
pub fn names() -> String {
    let names: Vec<&str> = FLOODS.iter().map(|flood| flood.name).collect();
    names.join(", ")
}

/// Runs a flood until a time, and prints its report.
pub fn run(name: &str, socket: &Path, end: Instant) -> Result<()> {
    let Some(flood) = FLOODS.iter().find(|flood| flood.name == name) else {
        bail!("no flood is called {name}; the floods are: {}", names());
    };
    println!("{}", (flood.run)(socket, end)?);
    Ok(())
}

/// A flood in a process of its own.
pub struct FloodProcess {
    name: String,
    process: Child,
    deadline: Instant,
}

impl FloodProcess {
    /// Starts this program again as a flood.
    pub fn start(name: &str, socket: &Path, time: Duration) -> Result<Self> {
        let seconds = time.as_secs().to_string();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--flood", name, "--seconds", &seconds, "--socket"]).arg(socket);
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting the flood {name}"))?;
        let deadline = Instant::now() + time + Duration::from_secs(20);
        Ok(Self { name: name.to_owned(), process, deadline })
    }

    /// Waits for the end of the flood, and returns its report. Kills it after its deadline.
    pub fn finish(mut self) -> String {
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < self.deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let text = match self.process.wait_with_output() {
            Ok(output) if output.status.success() => output.stdout,
            Ok(output) => output.stderr,
            Err(error) => error.to_string().into_bytes(),
        };
        format!("{}: {}", self.name, String::from_utf8_lossy(&text).trim())
    }
}
