//! `pario rmdir`: removes empty directories.

use std::ffi::OsString;

use clap::Args;
use serde_json::json;

use crate::arguments::GlobalOptions;
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario rmdir /runs/7\n  pario rmdir /a /b";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// The directories, which must be empty
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let paths = paths::all_in_cluster(&options.paths)?;
    let cluster = reach::cluster(global)?;
    for path in &paths {
        cluster.remove_directory(path.as_str())?;
    }
    if global.json {
        terminal::print_json(&json!({ "removed": paths }))?;
    }
    Ok(())
}
