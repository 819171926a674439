//! A machine of the other side: a name, mounts and a network of its own, a daemon of GlusterFS, and
//! room for a rank of MPI.
//!
//! It is its first process, this program in a role, and is gone with it; others enter by its number.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::apart::{output, run, text};
use crate::cables;
use crate::cluster::content::Content;
use crate::cluster::gluster;
use crate::cluster::target::Target;
use crate::partner::{Partner, Role, Starter, next_word};

/// The first process of a machine.
pub const ROLE: Role = Role { name: "modes-machine", run: serve };

/// Where jobs keep what they need while they run; a directory that each machine has by itself.
const TMPDIR: &str = "/run/tmp";

/// A machine that runs.
#[derive(Debug)]
pub struct Machine {
    partner: Partner,
}

impl Machine {
    /// Starts it, where cables were laid.
    pub fn start(dir: &Path, number: usize) -> Result<Self> {
        let through = ["unshare", "--mount", "--uts", "--ipc"];
        let mut command = cables::at(number, &through, ROLE.name)?;
        command.arg(dir).arg(cables::name(number));
        Ok(Self { partner: Partner::spawn(&mut command)? })
    }

    /// Waits until its daemon answers.
    pub fn wait(&mut self) -> Result<()> {
        let said = self.partner.hear().context("starting a machine")?;
        ensure!(said == "ready", "a machine said {said:?}");
        Ok(())
    }

    /// Makes a file there that has so many pieces.
    pub fn fill(&mut self, path: &Path, piece_bytes: usize, blocks: u64) -> Result<()> {
        self.partner.tell(format!("{} {piece_bytes} {blocks}", text(path)?))?;
        let said = self.partner.hear()?;
        ensure!(said == "done", "a machine said {said:?}");
        Ok(())
    }

    /// The words before a command that make it run there.
    pub fn entrance(&self) -> Vec<String> {
        // The programs that have started the first process have become it.
        let target = self.partner.id().to_string();
        let words = ["nsenter", "--target", &target, "--mount", "--uts", "--ipc", "--net", "env"];
        let tmpdir = format!("TMPDIR={TMPDIR}");
        words.into_iter().map(str::to_owned).chain([tmpdir]).collect()
    }

    /// A command that runs there.
    pub fn command(&self, program: &str) -> Command {
        let words = self.entrance();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program);
        command
    }

    /// Runs a program there, and gives what it prints.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        output(self.command(program).args(arguments))
    }
}

/// A script for mpirun to start processes on other machines with: it takes the name of a machine and
/// a command. Machines are given by their entrances.
pub fn remote_shell(entrances: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |(number, entrance): (usize, Vec<String>)| {
        let (name, entrance) = (cables::name(number), entrance.join(" "));
        format!("{name}) shift; exec {entrance} sh -c \"$*\" ;;\n")
    };
    let lines: String = entrances.into_iter().enumerate().map(line).collect();
    format!("case \"$1\" in\n{lines}esac\necho \"there is no machine $1\" >&2\nexit 1\n")
}

fn serve(words: &[String]) -> Result<()> {
    let starter = Starter::listen();
    let [dir, name] = words else { bail!("needs a directory and a name") };
    match start_all(Path::new(dir), name) {
        Ok(()) => starter.say("ready")?,
        Err(error) => return starter.say(format!("{error:#}").replace('\n', " ")),
    }
    loop {
        let line = starter.hear()?;
        let mut words = line.split_whitespace();
        let words = &mut words;
        let (path, piece_bytes): (PathBuf, usize) = (next_word(words)?, next_word(words)?);
        let bytes = next_word::<u64>(words)? * piece_bytes as u64;
        Target::create_plain(&path)?.fill(&Content::new(piece_bytes), bytes)?;
        // A mount that writes behind answers this when it has sent everything.
        let found = fs::metadata(&path)?.len();
        ensure!(found == bytes, "{} has {found} bytes instead of {bytes}", path.display());
        starter.say("done")?;
    }
}

fn start_all(dir: &Path, name: &str) -> Result<()> {
    run("hostname", &[name])?;
    // Some look here for networks, and would see those of another machine.
    run("mount", &["-t", "sysfs", "sysfs", "/sys"])?;
    gluster::take_place(&dir.join(name))?;
    fs::create_dir(TMPDIR)?;
    gluster::start_daemon()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remote_shell_runs_commands_on_the_machine_that_is_named() {
        let entrance = |at: &str| vec!["env".to_owned(), format!("AT={at}")];
        let script = remote_shell([entrance("here"), entrance("there")]);
        let said = |machine: &str| {
            let mut shell = Command::new("sh");
            output(shell.args(["-c", &script, "sh", machine, "echo", "one;", "echo", "$AT"]))
        };
        assert_eq!(said("m0").unwrap(), "one\nhere\n");
        assert_eq!(said("m1").unwrap(), "one\nthere\n");
        assert!(said("m2").unwrap_err().to_string().contains("there is no machine m2"));
    }
}
