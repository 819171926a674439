//! Processes in their own namespaces: they see only their own network and processes, and no other
//! process sees their mounts. Everything in the namespaces ends with their first process.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::partner::PartnerProcess;

/// Starts this program in new namespaces, in a role.
pub fn start<S: AsRef<str>>(role: &str, words: &[S]) -> Result<PartnerProcess> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.arg(program).args(["--partner", role]).args(words.iter().map(AsRef::as_ref));
    PartnerProcess::spawn(&mut command)
}

/// Runs a program; shows its output only if it fails.
pub fn run(program: &str, arguments: &[&str]) -> Result<()> {
    output(Command::new(program).args(arguments)).map(drop)
}

/// Runs a program, and returns its output.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let program = command.get_program().to_string_lossy();
    let output = output.with_context(|| format!("calling {program}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it failed");
    let arguments: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    bail!("{program} {}: {said}", arguments.join(" "))
}

/// A path as an argument.
pub fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the directory has a readable name")
}
