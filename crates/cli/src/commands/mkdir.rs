//! `pario mkdir`: creates directories.

use std::ffi::OsString;

use clap::Args;
use serde_json::json;

use crate::arguments::GlobalOptions;
use crate::exit::HintedFailure;
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario mkdir /runs\n  pario mkdir -p /runs/7/logs";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Create missing parents as well; an existing directory is not an error
    #[arg(short, long)]
    parents: bool,

    /// The directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let paths = paths::all_in_cluster(&options.paths)?;
    let cluster = reach::cluster(global)?;
    for path in &paths {
        if options.parents {
            cluster.make_directories(path.as_str())?;
        } else {
            cluster.make_directory(path.as_str()).map_err(with_hint)?;
        }
    }
    if global.json {
        terminal::print_json(&json!({ "made": paths }))?;
    }
    Ok(())
}

/// Adds how to create missing parents to the failure that they are missing.
fn with_hint(failure: pario::Error) -> anyhow::Error {
    match failure.kind() {
        pario::ErrorKind::NotFound => {
            HintedFailure { failure, hint: "`pario mkdir -p` creates missing parents as well" }
                .into()
        }
        _ => failure.into(),
    }
}
