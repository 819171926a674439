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

/// One way to harm a node.
pub struct Flood {
    /// How it is called.
    pub name: &'static str,
    /// Does it until a time; what it has done.
    run: fn(&Path, Instant) -> Result<String>,
}

/// All floods.
pub const FLOODS: &[Flood] = &[
    Flood { name: "silent-connections", run: connections::stay_silent },
    Flood { name: "half-handshakes", run: connections::shake_half_a_hand },
    Flood { name: "oversized-packets", run: connections::send_oversized },
    Flood { name: "descriptor-socket", run: connections::bother_descriptors },
    Flood { name: "questions", run: requests::ask_much },
    Flood { name: "handles", run: requests::open_much },
    Flood { name: "locks", run: requests::lock_much },
    Flood { name: "numbers", run: requests::claim_much },
];

/// The names of all floods, for people.
pub fn names() -> String {
    let names: Vec<&str> = FLOODS.iter().map(|flood| flood.name).collect();
    names.join(", ")
}

/// Floods a node until a time, and says what was done.
pub fn run(name: &str, socket: &Path, end: Instant) -> Result<()> {
    let Some(flood) = FLOODS.iter().find(|flood| flood.name == name) else {
        bail!("there is no flood {name}: {}", names());
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

    /// Waits for its end, which it brings about itself; what it says.
    pub fn finish(mut self) -> String {
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < self.deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let said = self.process.wait_with_output();
        let text = match said {
            Ok(output) if output.status.success() => output.stdout,
            Ok(output) => output.stderr,
            Err(error) => error.to_string().into_bytes(),
        };
        format!("{}: {}", self.name, String::from_utf8_lossy(&text).trim())
    }
}
