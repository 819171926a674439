//! `pario operation`: the commands for operations that are WebAssembly modules.

mod add;
mod list;
mod remove;
mod show;
mod test;

use clap::{Args, Subcommand};
use pario::ModuleRecord;
use serde_json::{Value, json};

use crate::arguments::{GlobalOptions, after_help};
use crate::owners::Owners;

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario operation test threshold.wasm body.raw --parameter level=90\n  \
                            pario operation add threshold threshold.wasm\n  \
                            pario operation list\n  \
                            pario operation remove threshold";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a module to the cluster, or replace the one of this name
    ///
    /// The cluster checks the module and stores it with its owner and permissions. All nodes know
    /// the operation at once; calls under way go on with the module that they began with.
    #[command(after_help = after_help(add::EXAMPLES))]
    Add(add::Options),
    /// List the modules of the cluster
    #[command(after_help = after_help(list::EXAMPLES))]
    List(list::Options),
    /// Show a module, or copy it to a file
    #[command(after_help = after_help(show::EXAMPLES))]
    Show(show::Options),
    /// Remove modules from the cluster
    ///
    /// Calls under way go on.
    #[command(after_help = after_help(remove::EXAMPLES))]
    Remove(remove::Options),
    /// Run a module in this command, with files as extents
    ///
    /// Uses the same sandbox and the same limits as a node. Each file is the body of one extent;
    /// their results follow in this order, and the result of all extents together comes last.
    #[command(after_help = after_help(test::EXAMPLES))]
    Test(test::Options),
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    match &options.command {
        Command::Add(options) => add::run(global, options),
        Command::List(_) => list::run(global),
        Command::Show(options) => show::run(global, options),
        Command::Remove(options) => remove::run(global, options),
        Command::Test(options) => test::run(global, options),
    }
}

/// Returns a record as JSON.
fn as_json(record: &ModuleRecord, owners: &Owners) -> Value {
    json!({
        "name": record.name,
        "version": record.version,
        "bytes": record.len_bytes,
        "hash": record.hash.to_string(),
        "uid": record.uid,
        "owner": owners.user(record.uid),
        "gid": record.gid,
        "group": owners.group(record.gid),
        "mode": format!("{:04o}", record.mode),
        "added_ns": record.added_ns,
        "functions": record.functions,
    })
}
