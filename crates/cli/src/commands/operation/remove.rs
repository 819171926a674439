//! `pario operation remove`: removes modules from the cluster.

use clap::Args;
use serde_json::json;

use crate::arguments::GlobalOptions;
use crate::{reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario operation remove threshold";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// The names of the operations
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let cluster = reach::cluster(global)?;
    for name in &options.names {
        cluster.remove_module(name)?;
    }
    if global.json {
        terminal::print_json(&json!({ "removed": options.names }))?;
    }
    Ok(())
}
