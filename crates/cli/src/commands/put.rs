//! `pario put`: copies from this machine to the cluster.

use std::ffi::OsString;

use clap::Args;

use super::cp::{self, Flags, direction};
use crate::arguments::GlobalOptions;
use crate::exit::UsageError;
use crate::paths;

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario put results.h5 /runs/\n  \
                            pario put -r --update runs /backup/\n  \
                            tar c . | pario put - /backup.tar";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    flags: Flags,

    /// Files and directories on this machine, and last the path in the cluster
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let Some((target, sources)) = options.paths.split_last() else {
        return Err(UsageError("give the paths to copy and, last, the target".to_owned()).into());
    };
    let sources: anyhow::Result<Vec<_>> =
        sources.iter().map(|source| direction::on_this_machine(source)).collect();
    let is_marked = paths::is_marked_directory(target);
    let target = direction::inside_cluster(target)?;
    cp::transfer(global, &options.flags, &sources?, &target, is_marked)
}
