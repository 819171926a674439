//! `pario get`: copies from the cluster to this machine.

use std::ffi::{OsStr, OsString};

use clap::Args;

use super::cp::{self, Flags, direction};
use crate::arguments::GlobalOptions;
use crate::paths;

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario get /runs/results.h5               # to the current directory\n  \
                            pario get /runs/results.h5 copy.h5\n  \
                            pario get -r --update /runs ./backup/\n  \
                            pario get pario:/a pario:/b              # both to the current directory\n  \
                            pario get /backup.tar - | tar x";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    flags: Flags,

    /// Paths in the cluster, and last the path on this machine
    #[arg(required = true, num_args = 1.., value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Runs the command. The last of several paths is the target, unless it has the cluster's scheme.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let here = OsStr::new(".");
    let (sources, target) = match options.paths.split_last() {
        Some((last, sources)) if !sources.is_empty() && paths::without_prefix(last).is_none() => {
            (sources, last.as_os_str())
        }
        _ => (&options.paths[..], here),
    };
    let sources: anyhow::Result<Vec<_>> =
        sources.iter().map(|source| direction::inside_cluster(source)).collect();
    let is_marked = paths::is_marked_directory(target);
    let target = direction::on_this_machine(target)?;
    cp::transfer(global, &options.flags, &sources?, &target, is_marked)
}
