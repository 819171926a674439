//! `pario stop`: stops nodes.

use std::io::Write;

use clap::Args;
use serde_json::json;

use crate::arguments::GlobalOptions;
use crate::exit::UsageError;
use crate::{reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario stop\n  pario stop b --cluster tcp:10.0.0.1:7411 --key lab.key";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// The node [default: all nodes of the cluster]
    node: Option<String>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    if global.data.is_some() {
        let text = "--data means a cluster without a server, so there is nothing to stop; use \
                    --cluster DIR for a node that serves that directory";
        return Err(UsageError(text.to_owned()).into());
    }
    let cluster = reach::cluster(global)?;
    let stopped = cluster.stop(options.node.as_deref())?;
    if global.json {
        return terminal::print_json(&json!({ "stopped": stopped }));
    }
    let mut out = terminal::output();
    for node in stopped {
        writeln!(out, "node {node:?} is stopping")?;
    }
    Ok(out.flush()?)
}
