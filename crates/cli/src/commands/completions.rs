//! `pario completions`

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::terminal;

/// Lines for the help.
pub const EXAMPLES: &str =
    "pario completions bash > ~/.local/share/bash-completion/completions/pario";

/// What it takes.
#[derive(Args, Debug)]
pub struct Options {
    /// The shell
    shell: Shell,
}

/// Does it.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Arguments::command(), "pario", &mut script);
    let mut out = terminal::output();
    out.write_all(&script)?;
    Ok(out.flush()?)
}
