//! `pario reset`: ends the coordination of jobs.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use serde_json::json;

use crate::arguments::GlobalOptions;
use crate::exit::{self, AlreadyReported, NOT_FOUND, UsageError};
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario reset\n  pario reset /runs/7/result";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Shared files to reset; without any, all files and jobs
    #[arg(value_name = "PATH")]
    files: Vec<OsString>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    if global.data.is_some() {
        let text = "--data means a cluster without a server, so there is nothing to reset; use \
         --cluster DIR for a node that serves that directory";
        return Err(UsageError(text.to_owned()).into());
    }
    let wanted = paths::all_in_cluster(&options.files)?;
    let (jobs, files) = reach::cluster(global)?.reset(&wanted)?;
    if global.json {
        let files: Vec<_> = files.iter().map(ToString::to_string).collect();
        terminal::print_json(&json!({ "jobs": jobs, "files": files }))?;
    } else {
        let mut out = terminal::output();
        for file in &files {
            writeln!(out, "{file}: reset; the processes that have it open must open it again")?;
        }
        for job in &jobs {
            writeln!(out, "job {job}: forgotten; calls that waited have failed")?;
        }
        out.flush()?;
    }
    let idle: Vec<_> = wanted.iter().filter(|file| !files.contains(file)).collect();
    for file in &idle {
        let text = format!(
            "{file}: no job has it open, and no process in M_UNIX, so there is nothing to reset"
        );
        exit::report_text(&text, NOT_FOUND, global.json);
    }
    if idle.is_empty() { Ok(()) } else { Err(AlreadyReported(NOT_FOUND).into()) }
}
