//! `pario chmod`: changes permissions.

use std::ffi::OsString;

use clap::Args;
use serde_json::json;

use crate::arguments::GlobalOptions;
use crate::exit::UsageError;
use crate::{owners, paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario chmod 640 /runs/7/result\n  pario chmod go-rwx /runs";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Digits such as 640, or changes such as u+w,go-rwx
    #[arg(allow_hyphen_values = true)]
    mode: String,

    /// The files and directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    owners::change_mode(0, &options.mode).map_err(UsageError)?;
    let paths = paths::all_in_cluster(&options.paths)?;
    let cluster = reach::cluster(global)?;
    let mut changed = Vec::new();
    for path in &paths {
        let before = cluster.metadata(path.as_str())?.record.mode;
        let mode = owners::change_mode(before, &options.mode).map_err(UsageError)?;
        let outcome = cluster.set_mode(path.as_str(), mode)?;
        owners::warn_unacknowledged(path, &outcome);
        let mode = format!("{mode:04o}");
        changed.push(json!({ "path": path, "mode": mode, "untold": outcome.untold }));
    }
    if global.json {
        terminal::print_json(&json!({ "changed": changed }))?;
    }
    Ok(())
}
