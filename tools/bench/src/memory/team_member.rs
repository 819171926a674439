//! Processes of ours that are a team, and how each of them takes its turns.

use std::env;
use std::path::Path;
use std::process::{self, Command};

use anyhow::{Context, Result, bail};
use pario::team::Team;

use crate::modes::lines::Lines;
use crate::modes::moment::Moment;
use crate::modes::team::{Door, Team as Side};
use crate::partner::{Partner, Starter};

/// Starts the processes of a job in a role. All get the same words behind those that say who they
/// are.
pub fn start(role: &str, job: &str, dir: &Path, size: usize, words: &[&str]) -> Result<Side> {
    start_by(|command| Partner::spawn(command).map(Some), role, job, dir, size, words)
}

/// The same, by somebody who may keep them.
pub fn start_by(
    mut spawn: impl FnMut(&mut Command) -> Result<Option<Partner>>,
    role: &str,
    job: &str,
    dir: &Path,
    size: usize,
    words: &[&str],
) -> Result<Side> {
    let door = Door::open(dir, job)?;
    let job = format!("{job}-{}", process::id());
    let program = env::current_exe().context("finding this program")?;
    let mut keepers = Vec::new();
    for rank in 0..size {
        let mut command = Command::new(&program);
        command.args(["--partner", role, door.path()?, &job]);
        command.args([size.to_string(), rank.to_string()]).args(words);
        keepers.extend(spawn(&mut command)?);
    }
    door.gather(size, keepers)
}

/// A process that has been started so.
#[derive(Debug)]
pub struct Seat {
    lines: Lines,
    job: String,
    size: u32,
    rank: u32,
    _starter: Starter,
}

impl Seat {
    /// What the words say, and the rest of them.
    pub fn take(words: &[String]) -> Result<(Self, &[String])> {
        let starter = Starter::listen();
        let [door, job, size, rank, rest @ ..] = words else {
            bail!("needs a socket, a job, a size and a rank");
        };
        let lines = Lines::connect(Path::new(door))?;
        let (size, rank) = (size.parse()?, rank.parse()?);
        let seat = Self { lines, job: job.clone(), size, rank, _starter: starter };
        Ok((seat, rest))
    }

    /// Meets the others.
    pub fn meet(&self) -> Result<Team> {
        Ok(Team::meet(&self.job, self.size, self.rank)?)
    }

    /// Which process it is.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Takes turns until nobody wants any more. What is done before `begin` does not count.
    pub fn take_turns(
        mut self,
        mut turn: impl FnMut(&str, &mut Begin<'_>) -> Result<()>,
    ) -> Result<()> {
        while let Some(line) = self.lines.next()? {
            let taken = turn(&line, &mut Begin { lines: &mut self.lines });
            let end = Moment::now();
            match taken {
                Ok(()) => self.lines.tell(end.ns().to_string())?,
                Err(error) => {
                    self.lines.tell(format!("failed: {error:#}").replace('\n', " "))?;
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// The beginning of a turn.
#[derive(Debug)]
pub struct Begin<'a> {
    lines: &'a mut Lines,
}

impl Begin<'_> {
    /// Says that this process is ready, and waits until all begin.
    pub fn wait(&mut self) -> Result<()> {
        self.lines.tell("ready")?;
        Moment::of_ns(self.lines.hear_value()?).wait();
        Ok(())
    }
}
