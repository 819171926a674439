//! `pario operation show`: describes a module, or copies it to a file.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::as_json;
use crate::amounts::size;
use crate::arguments::GlobalOptions;
use crate::owners::Owners;
use crate::{reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario operation show threshold\n  \
                            pario operation show threshold --save threshold.wasm";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Copy the module to a file on this machine
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// The name of the operation
    name: String,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let cluster = reach::cluster(global)?;
    let record = cluster.module(&options.name)?;
    if let Some(file) = &options.save {
        let bytes = cluster.module_bytes(&options.name)?;
        std::fs::write(file, bytes).with_context(|| file.display().to_string())?;
    }
    let owners = Owners::new();
    if global.json {
        return terminal::print_json(&as_json(&record, &owners));
    }
    let mut out = terminal::output();
    let (name, version) = (&record.name, record.version);
    writeln!(
        out,
        "{name}   version {version}, {}, owner {}, group {}, mode {:04o}",
        size(record.len_bytes),
        owners.user(record.uid),
        owners.group(record.gid),
        record.mode
    )?;
    writeln!(out, "  hash {}", record.hash)?;
    writeln!(out, "  functions {}", record.functions.join(", "))?;
    out.flush()?;
    Ok(())
}
