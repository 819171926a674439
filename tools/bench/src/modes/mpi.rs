//! MPI as a peer: Debian's Open MPI with both its implementations of MPI-IO, and MPICH.
//!
//! The processes are a small C program, `peers/modes.c`, which `peers.sh` builds with each of them.
//! MPICH polls for messages without sleeping and collapses with more processes than processors: it
//! gets two processes where Open MPI has four. Everything else is as the packages configure it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::turn_processes::{TurnListener, TurnProcesses};
use crate::partner::PartnerProcess;

/// An implementation of MPI-IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    /// Open MPI with OMPIO.
    Ompio,
    /// Open MPI with ROMIO.
    Romio,
    /// MPICH.
    Mpich,
}

impl Mpi {
    /// All implementations.
    pub const ALL: [Self; 3] = [Self::Ompio, Self::Romio, Self::Mpich];
    /// The implementations that can have more processes than processors.
    pub const OPEN_MPI: [Self; 2] = [Self::Ompio, Self::Romio];
    /// The implementations whose atomic mode locks: OMPIO takes no lock for a write.
    pub const ATOMIC: [Self; 2] = [Self::Romio, Self::Mpich];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ompio => "ompio",
            Self::Romio => "romio321",
            Self::Mpich => "mpich",
        }
    }

    /// The implementation with this name.
    pub fn of_name(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|known| known.name() == name);
        found.with_context(|| format!("{name} is not an MPI"))
    }

    /// The number of processes with which it takes part where the others have `wanted`.
    pub fn processes(self, wanted: usize) -> usize {
        match self {
            Self::Ompio | Self::Romio => wanted,
            Self::Mpich => wanted.min(2),
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Ompio | Self::Romio => "openmpi",
            Self::Mpich => "mpich",
        }
    }

    /// Installs it and builds its programs in a directory; returns the program of a name. The inner
    /// error says why that is impossible here.
    pub fn build(self, dir: &Path, program: &str) -> Result<Result<PathBuf, String>> {
        let package = self.package();
        let program = dir.join(format!("{program}-{package}"));
        if program.exists() {
            return Ok(Ok(program));
        }
        let built = install(package, dir)?;
        Ok(built.map(|()| program).map_err(|why| format!("no {}: {why}", self.name())))
    }

    /// The program that starts a job.
    pub fn launcher(self) -> &'static str {
        match self {
            Self::Ompio | Self::Romio => "mpirun.openmpi",
            Self::Mpich => "mpirun.mpich",
        }
    }

    /// The arguments of the launcher for a job on this machine; the program follows.
    pub fn words(self, processes: usize) -> Vec<String> {
        let words = match self {
            // There may be no other network, and all processes run on this machine.
            Self::Ompio | Self::Romio => format!(
                "--allow-run-as-root --oversubscribe --mca io {} --mca oob_tcp_if_include lo",
                self.name()
            ),
            Self::Mpich => String::new(),
        };
        let words = format!("{words} -n {processes}");
        words.split_whitespace().map(str::to_owned).collect()
    }

    /// The arguments for a job with a process on each of some machines, which the launcher reaches
    /// by a remote shell.
    pub fn words_across(self, shell: &str, machines: &[String]) -> Vec<String> {
        let (hosts, processes) = (machines.join(","), machines.len());
        let words: &[&str] = match self {
            // All machines share the same few processors, which Open MPI cannot know: without the
            // last option waiting processes take them from working ones.
            Self::Ompio | Self::Romio => &[
                "--allow-run-as-root",
                "--mca",
                "io",
                self.name(),
                "--mca",
                "plm_rsh_agent",
                shell,
                "--host",
                &hosts,
                "--mca",
                "mpi_yield_when_idle",
                "1",
            ],
            Self::Mpich => &["-launcher", "rsh", "-launcher-exec", shell, "-hosts", &hosts],
        };
        let count = ["-n".to_owned(), processes.to_string()];
        words.iter().map(|word| (*word).to_owned()).chain(count).collect()
    }

    /// Starts a job whose files are in a directory, and waits until its processes have connected.
    pub fn gather(self, program: &Path, processes: usize, dir: &Path) -> Result<TurnProcesses> {
        let listener = TurnListener::open(dir, self.name())?;
        let mut command = Command::new(self.launcher());
        command.args(self.words(processes)).arg(program).arg(listener.path()?).arg(dir);
        listener.gather(processes, vec![PartnerProcess::spawn(&mut command)?])
    }
}

/// Lets `peers.sh` install a peer and build its programs in a directory; the inner error says why
/// that is impossible here.
pub fn install(peer: &str, dir: &Path) -> Result<Result<(), String>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers.sh");
    let built = Command::new("bash").arg(&script).arg(peer).arg(dir).output();
    let built = built.context("calling peers.sh")?;
    if built.status.success() {
        return Ok(Ok(()));
    }
    let said = String::from_utf8_lossy(&built.stderr);
    Ok(Err(said.lines().last().unwrap_or("peers.sh failed").to_owned()))
}
