//! A machine of the other side: it has its own name, mounts and network, a daemon of GlusterFS, and
//! room for a rank of MPI.
//!
//! A machine is its first process, this program in a role, and ends with it; other processes enter
//! it by that process id.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::cluster::content::Content;
use crate::cluster::gluster;
use crate::cluster::measured_file::MeasuredFile;
use crate::namespaces::{output, run, text};
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole, next_word};
use crate::virtual_network;

/// The first process of a machine.
pub const ROLE: PartnerRole = PartnerRole { name: "modes-machine", run: serve };

/// The directory for the temporary files of jobs, separate on each machine.
const TMPDIR: &str = "/run/tmp";

/// A running machine.
#[derive(Debug)]
pub struct PeerMachine {
    partner: PartnerProcess,
}

impl PeerMachine {
    /// Starts the machine on an existing virtual network.
    pub fn start(dir: &Path, number: usize) -> Result<Self> {
        let through = ["unshare", "--mount", "--uts", "--ipc"];
        let mut command = virtual_network::at(number, &through, ROLE.name)?;
        command.arg(dir).arg(virtual_network::name(number));
        Ok(Self { partner: PartnerProcess::spawn(&mut command)? })
    }

    /// Waits until its daemon answers.
    pub fn wait(&mut self) -> Result<()> {
        let said = self.partner.receive_line().context("starting a machine")?;
        ensure!(said == "ready", "a machine sent the line {said:?}");
        Ok(())
    }

    /// Creates a file there with this many blocks.
    pub fn fill(&mut self, path: &Path, piece_bytes: usize, blocks: u64) -> Result<()> {
        self.partner.send_line(format!("{} {piece_bytes} {blocks}", text(path)?))?;
        let said = self.partner.receive_line()?;
        ensure!(said == "done", "a machine sent the line {said:?}");
        Ok(())
    }

    /// The words before a command that make it run there.
    pub fn command_prefix(&self) -> Vec<String> {
        // The programs that have started the first process have become it by `exec`.
        let target = self.partner.id().to_string();
        let words = ["nsenter", "--target", &target, "--mount", "--uts", "--ipc", "--net", "env"];
        let tmpdir = format!("TMPDIR={TMPDIR}");
        words.into_iter().map(str::to_owned).chain([tmpdir]).collect()
    }

    /// A command that runs there.
    pub fn command(&self, program: &str) -> Command {
        let words = self.command_prefix();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program);
        command
    }

    /// Runs a program there, and returns its output.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        output(self.command(program).args(arguments))
    }
}

/// A script with which mpirun starts processes on other machines: it takes the name of a machine
/// and a command. Machines are given by their command prefixes.
pub fn remote_shell(prefixes: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |(number, command_prefix): (usize, Vec<String>)| {
        let (name, command_prefix) = (virtual_network::name(number), command_prefix.join(" "));
        format!("{name}) shift; exec {command_prefix} sh -c \"$*\" ;;\n")
    };
    let lines: String = prefixes.into_iter().enumerate().map(line).collect();
    format!("case \"$1\" in\n{lines}esac\necho \"there is no machine $1\" >&2\nexit 1\n")
}

fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [dir, name] = words else { bail!("needs a directory and a name") };
    match start_all(Path::new(dir), name) {
        Ok(()) => parent.send_line("ready")?,
        Err(error) => return parent.send_line(format!("{error:#}").replace('\n', " ")),
    }
    loop {
        let line = parent.receive_line()?;
        let mut words = line.split_whitespace();
        let words = &mut words;
        let (path, piece_bytes): (PathBuf, usize) = (next_word(words)?, next_word(words)?);
        let bytes = next_word::<u64>(words)? * piece_bytes as u64;
        MeasuredFile::create_plain(&path)?.fill(&Content::new(piece_bytes), bytes)?;
        // A mount that writes behind replies to this when it has sent everything.
        let found = fs::metadata(&path)?.len();
        ensure!(found == bytes, "{} has {found} bytes instead of {bytes}", path.display());
        parent.send_line("done")?;
    }
}

fn start_all(dir: &Path, name: &str) -> Result<()> {
    run("hostname", &[name])?;
    // Some programs look here for networks, and would see those of another machine.
    run("mount", &["-t", "sysfs", "sysfs", "/sys"])?;
    gluster::redirect_state(&dir.join(name))?;
    fs::create_dir(TMPDIR)?;
    gluster::start_daemon()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remote_shell_runs_commands_on_the_machine_that_is_named() {
        let command_prefix = |at: &str| vec!["env".to_owned(), format!("AT={at}")];
        let script = remote_shell([command_prefix("here"), command_prefix("there")]);
        let said = |machine: &str| {
            let mut shell = Command::new("sh");
            output(shell.args(["-c", &script, "sh", machine, "echo", "one;", "echo", "$AT"]))
        };
        assert_eq!(said("m0").unwrap(), "one\nhere\n");
        assert_eq!(said("m1").unwrap(), "one\nthere\n");
        assert!(said("m2").unwrap_err().to_string().contains("there is no machine m2"));
    }
}
