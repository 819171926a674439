//! `pario reset`

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use serde_json::json;

use crate::arguments::Global;
use crate::exit::{self, NOT_FOUND, Told, Usage};
use crate::{paths, reach, terminal};

/// Lines for the help.
pub const EXAMPLES: &str = "pario reset\n  pario reset /runs/7/result";

/// What it takes.
#[derive(Args, Debug)]
pub struct Options {
    /// Files whose openings are ended; without any, all of them, and the jobs are forgotten too
    #[arg(value_name = "PATH")]
    files: Vec<OsString>,
}

/// Does it.
pub fn run(global: &Global, options: &Options) -> anyhow::Result<()> {
    if global.data.is_some() {
        let text = "--data means a cluster without a server, so there is nothing to reset; use \
                    --cluster DIR for a node that serves that directory";
        return Err(Usage(text.to_owned()).into());
    }
    let wanted = paths::all_in_cluster(&options.files)?;
    let (jobs, files) = reach::cluster(global)?.reset(&wanted)?;
    if global.json {
        let files: Vec<_> = files.iter().map(ToString::to_string).collect();
        terminal::print_json(&json!({ "jobs": jobs, "files": files }))?;
    } else {
        let mut out = terminal::output();
        for file in &files {
            writeln!(out, "{file}: whoever has it open together must open it again")?;
        }
        for job in &jobs {
            writeln!(out, "job {job} is forgotten; whoever waits was told")?;
        }
        out.flush()?;
    }
    let idle: Vec<_> = wanted.iter().filter(|file| !files.contains(file)).collect();
    for file in &idle {
        let text = format!("{file}: no job has it open, so there is nothing to reset");
        exit::tell_text(&text, NOT_FOUND, global.json);
    }
    if idle.is_empty() { Ok(()) } else { Err(Told(NOT_FOUND).into()) }
}
