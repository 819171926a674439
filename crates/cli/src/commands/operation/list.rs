//! `pario operation list`: lists the modules of the cluster.

use std::io::Write;

use clap::Args;
use serde_json::Value;

use super::as_json;
use crate::amounts::size;
use crate::arguments::GlobalOptions;
use crate::owners::{Owners, mode_letters};
use crate::table::{ColumnAlignment, TextTable};
use crate::{reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario operation list\n  pario operation list --json | jq '.[].name'";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {}

/// Runs the command.
pub fn run(global: &GlobalOptions) -> anyhow::Result<()> {
    let records = reach::cluster(global)?.modules()?;
    let owners = Owners::new();
    if global.json {
        let all: Vec<Value> = records.iter().map(|record| as_json(record, &owners)).collect();
        return terminal::print_json(&all);
    }
    let mut table = TextTable::new([
        ("", ColumnAlignment::Left),
        ("", ColumnAlignment::Left),
        ("", ColumnAlignment::Left),
        ("", ColumnAlignment::Right),
        ("", ColumnAlignment::Right),
        ("", ColumnAlignment::Left),
    ]);
    for record in &records {
        table.push([
            mode_letters(record.mode),
            owners.user(record.uid),
            owners.group(record.gid),
            size(record.len_bytes),
            format!("version {}", record.version),
            record.name.clone(),
        ]);
    }
    let mut out = terminal::output();
    table.print(&mut out)?;
    out.flush()?;
    Ok(())
}
