//! `pario mkdir`

use std::ffi::OsString;

use clap::Args;
use serde_json::json;

use crate::arguments::Global;
use crate::{paths, reach, terminal};

/// Lines for the help.
pub const EXAMPLES: &str = "pario mkdir /runs\n  pario mkdir -p /runs/7/logs";

/// What it takes.
#[derive(Args, Debug)]
pub struct Options {
    /// Make missing directories above as well; one that exists is fine
    #[arg(short, long)]
    parents: bool,

    /// The directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Does it.
pub fn run(global: &Global, options: &Options) -> anyhow::Result<()> {
    let paths = paths::all_in_cluster(&options.paths)?;
    let cluster = reach::cluster(global)?;
    for path in &paths {
        if options.parents {
            cluster.make_directories(path.as_str())?;
        } else {
            cluster.make_directory(path.as_str())?;
        }
    }
    if global.json {
        terminal::print_json(&json!({ "made": paths }))?;
    }
    Ok(())
}
