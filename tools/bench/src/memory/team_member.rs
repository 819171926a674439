//! Processes of ours that form a team, and their turns.

use std::env;
use std::path::Path;
use std::process::{self, Command};

use anyhow::{Context, Result, bail};
use pario::Job;

use crate::modes::line_socket::LineSocket;
use crate::modes::monotonic_time::MonotonicTime;
use crate::modes::turn_processes::{TurnListener, TurnProcesses};
use crate::partner::{ParentProcess, PartnerProcess};

/// Starts the processes of a job in a role. All get the same arguments behind those that identify
/// them.
pub fn start(
    role: &str,
    job: &str,
    dir: &Path,
    size: usize,
    words: &[&str],
) -> Result<TurnProcesses> {
    start_by(|command| PartnerProcess::spawn(command).map(Some), role, job, dir, size, words)
}

/// Starts the processes with a function that may keep them.
pub fn start_by(
    mut spawn: impl FnMut(&mut Command) -> Result<Option<PartnerProcess>>,
    role: &str,
    job: &str,
    dir: &Path,
    size: usize,
    words: &[&str],
) -> Result<TurnProcesses> {
    let listener = TurnListener::open(dir, job)?;
    let job = format!("{job}-{}", process::id());
    let program = env::current_exe().context("finding this program")?;
    let mut keepers = Vec::new();
    for rank in 0..size {
        let mut command = Command::new(&program);
        command.args(["--partner", role, listener.path()?, &job]);
        command.args([size.to_string(), rank.to_string()]).args(words);
        keepers.extend(spawn(&mut command)?);
    }
    listener.gather(size, keepers)
}

/// A process that has been started so.
#[derive(Debug)]
pub struct TeamMember {
    lines: LineSocket,
    job: String,
    size: u32,
    rank: u32,
    _starter: ParentProcess,
}

impl TeamMember {
    /// Reads the arguments of the process; returns the remaining ones.
    pub fn take(words: &[String]) -> Result<(Self, &[String])> {
        let parent = ParentProcess::listen();
        let [listener, job, size, rank, rest @ ..] = words else {
            bail!("needs a socket, a job, a size and a rank");
        };
        let lines = LineSocket::connect(Path::new(listener))?;
        let (size, rank) = (size.parse()?, rank.parse()?);
        let member = Self { lines, job: job.clone(), size, rank, _starter: parent };
        Ok((member, rest))
    }

    /// Joins the job and meets the other processes.
    pub fn meet(&self) -> Result<Job> {
        let job = Job::new(&self.job, self.size, self.rank)?;
        job.barrier()?;
        Ok(job)
    }

    /// The rank of the process.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Takes turns until the parent ends them. The time before `begin` does not count.
    pub fn take_turns(
        mut self,
        mut turn: impl FnMut(&str, &mut TurnStart<'_>) -> Result<()>,
    ) -> Result<()> {
        while let Some(line) = self.lines.next()? {
            let taken = turn(&line, &mut TurnStart { lines: &mut self.lines });
            let end = MonotonicTime::now();
            match taken {
                Ok(()) => self.lines.send_line(end.ns().to_string())?,
                Err(error) => {
                    self.lines.send_line(format!("failed: {error:#}").replace('\n', " "))?;
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// The start of a turn.
#[derive(Debug)]
pub struct TurnStart<'a> {
    lines: &'a mut LineSocket,
}

impl TurnStart<'_> {
    /// Reports that this process is ready, and waits until all begin.
    pub fn wait(&mut self) -> Result<()> {
        self.lines.send_line("ready")?;
        MonotonicTime::of_ns(self.lines.receive_value()?).wait();
        Ok(())
    }
}
