//! `pario man`: writes manual pages.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_mangen::Man;

use crate::arguments::Arguments;

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario man ~/.local/share/man/man1";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// The directory for the pages; it is created if missing
    dir: PathBuf,
}

/// Runs the command.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let dir = &options.dir;
    fs::create_dir_all(dir)
        .with_context(|| format!("cannot create the directory {}", dir.display()))?;
    let mut all = Arguments::command().disable_help_subcommand(true);
    all.build();
    pages(&all, "pario", dir)
}

/// Writes a page for a command and one for each of its subcommands.
fn pages(command: &clap::Command, name: &str, dir: &Path) -> anyhow::Result<()> {
    page(command.clone(), name, dir)?;
    let mut below = command.get_subcommands().filter(|command| command.get_name() != "help");
    below.try_for_each(|command| pages(command, &format!("{name}-{}", command.get_name()), dir))
}

fn page(command: clap::Command, name: &str, dir: &Path) -> anyhow::Result<()> {
    let command = command.display_name(name.to_owned()).bin_name(name.replace('-', " "));
    let mut text = Vec::new();
    Man::new(command).title(name.to_uppercase()).render(&mut text)?;
    let path = dir.join(format!("{name}.1"));
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}
