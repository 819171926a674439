//! `pario cat`: prints files of the cluster.

use std::ffi::OsString;
use std::io::Write;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use crate::amounts::parse_size;
use crate::arguments::GlobalOptions;
use crate::commands::cp::pipe::{self, PipedRange, Source};
use crate::interrupt::Interrupt;
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str =
    "pario cat /runs/7/log\n  pario cat --offset 1MiB --length 4KiB /runs/7/state | xxd";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Offset of the first byte in each file
    #[arg(long, default_value = "0", value_parser = parse_size, value_name = "SIZE", allow_hyphen_values = true)]
    offset: u64,

    /// Most bytes to print of each file
    #[arg(long, value_parser = parse_size, value_name = "SIZE", allow_hyphen_values = true)]
    length: Option<u64>,

    /// The files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Runs the command. Contents go to stdout unchanged; with `--json`, figures go to stderr.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let paths = paths::all_in_cluster(&options.paths)?;
    let cluster = reach::cluster(global)?;
    let interrupt = Interrupt::watch()?;
    let mut out = terminal::output();
    let mut printed = Vec::new();
    for path in &paths {
        let file = cluster.open(path.as_str())?;
        let part = PipedRange { offset: options.offset, length: options.length, expected: None };
        let source = Source::Cluster(Arc::new(file));
        let bytes = pipe::run(source, part, &interrupt, |piece| Ok(out.write_all(piece)?))?;
        printed.push(json!({ "path": path, "offset": options.offset, "bytes": bytes }));
    }
    out.flush()?;
    if global.json {
        eprintln!("{}", json!({ "printed": printed }));
    }
    Ok(())
}
