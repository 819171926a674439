//! What every process of `pario run` is for a moment, before it becomes the program of the user.
//!
//! Only a process itself can ask to be killed when its parent is gone, and what it asked for stays
//! when it becomes another program. So the first thing that runs in a rank is this binary, under
//! the name below.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use crate::exit;

/// The name under which this binary is called for it.
const NAME: &str = "pario-rank";

/// A command that becomes a program, and does not outlive this process. It must be started by a
/// thread that stays until the end: the system takes the end of that thread for the end of the
/// process.
pub fn command(program: &[OsString]) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0(NAME).arg(getpid().as_raw_nonzero().to_string()).args(program);
    Ok(command)
}

/// Whether this process was started by [`command`].
pub fn is_one(name: &OsString) -> bool {
    name == NAME
}

/// Becomes the program.
pub fn become_program(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = arguments.next().and_then(|parent| parent.to_str()?.parse::<i32>().ok());
    let (Some(parent), Some(program)) = (parent, arguments.next()) else {
        eprintln!("pario: {NAME} is called by `pario run` alone");
        return exit::WRONG_USAGE.into();
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("pario: a process cannot be bound to `pario run`: {error}");
        return exit::FAILED.into();
    }
    // It may have gone before.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        return exit::FAILED.into();
    }
    let error = Command::new(&program).args(arguments).exec();
    eprintln!("pario: {} cannot be started: {error}", program.display());
    exit::FAILED.into()
}
