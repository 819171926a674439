//! `pario operation add`: adds a module to the cluster.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::as_json;
use crate::amounts::size;
use crate::arguments::GlobalOptions;
use crate::exit::UsageError;
use crate::owners::{self, Owners};
use crate::{reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario operation add threshold threshold.wasm\n  \
                            pario operation add threshold threshold.wasm --mode 750";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Who may read the module (4), replace it (2) and call it (1): digits such as 750
    #[arg(long, default_value = "755")]
    mode: String,

    /// The name of the operation: letters, digits, '-', '_' and '.'
    name: String,

    /// The module, a file on this machine
    file: PathBuf,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let mode = owners::change_mode(0, &options.mode).map_err(UsageError)?;
    let file = &options.file;
    let module = std::fs::read(file).with_context(|| file.display().to_string())?;
    let record = reach::cluster(global)?.add_module(&options.name, &module, mode)?;
    if global.json {
        return terminal::print_json(&as_json(&record, &Owners::new()));
    }
    let mut out = terminal::output();
    let (name, version) = (&record.name, record.version);
    writeln!(out, "{name}   version {version}, {}", size(record.len_bytes))?;
    out.flush()?;
    Ok(())
}
