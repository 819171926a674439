//! The first program of every process of `pario run`, which then becomes the user's program.
//!
//! Only a process itself can ask the kernel to be killed when its parent ends (PR_SET_PDEATHSIG),
//! and the setting survives `exec`. So every rank starts as this binary, under the name below.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use crate::exit;

/// The name (`argv[0]`) of such a process.
const NAME: &str = "pario-rank";

/// Returns a command that becomes a program, and does not outlive this process. The calling thread
/// must live until the end: the kernel takes the end of that thread for the end of the parent.
pub fn command(program: &[OsString]) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0(NAME).arg(getpid().as_raw_nonzero().to_string()).args(program);
    Ok(command)
}

/// Returns whether this process was started by [`command`].
pub fn is_rank_process(name: &OsString) -> bool {
    name == NAME
}

/// Becomes the program.
pub fn become_program(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = arguments.next().and_then(|parent| parent.to_str()?.parse::<i32>().ok());
    let (Some(parent), Some(program)) = (parent, arguments.next()) else {
        eprintln!("pario: {NAME} is internal to `pario run`");
        return exit::WRONG_USAGE.into();
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("pario: cannot bind a process to the life of `pario run`: {error}");
        return exit::FAILED.into();
    }
    // The parent may have ended before.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        return exit::FAILED.into();
    }
    let error = Command::new(&program).args(arguments).exec();
    eprintln!("pario: cannot start {}: {error}", program.display());
    exit::FAILED.into()
}
