//! `pario compact`: returns the space between the extents of files to the disks.

use std::ffi::OsString;
use std::io::Write;
use std::ops::ControlFlow;

use clap::Args;
use pario::{Cluster, CompactedDisk, FilePath};
use serde_json::{Value, json};

use super::cp::progress::Progress;
use crate::amounts::size;
use crate::arguments::GlobalOptions;
use crate::exit::{self, AlreadyReported};
use crate::interrupt::Interrupt;
use crate::table::{ColumnAlignment, TextTable};
use crate::terminal::JsonArray;
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario compact /section\n  pario compact /volumes/head /volumes/hand\n  \
                            pario compact --json /section | jq '.[].freed_bytes'";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Files of extents: images, volumes, and files that programs have created with extents
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Runs the command. Reports files that cannot be compacted and continues with the others; the first
/// failure decides the exit code.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let paths = paths::all_in_cluster(&options.paths)?;
    let cluster = reach::cluster(global)?;
    let interrupt = Interrupt::watch()?;
    let mut output = CompactOutput::new(global.json);
    let mut first_failure = None;
    for path in &paths {
        match compact(&cluster, path, global.json, &interrupt) {
            Ok(disks) => output.push(path, &disks)?,
            Err(error) => {
                let code = exit::code(&error);
                if matches!(code, exit::NOT_REACHABLE | exit::INTERRUPTED) {
                    return Err(error);
                }
                exit::report(&error, global.json);
                first_failure.get_or_insert(code);
            }
        }
    }
    output.finish(first_failure.is_some())?;
    first_failure.map_or(Ok(()), |code| Err(AlreadyReported(code).into()))
}

fn compact(
    cluster: &Cluster,
    path: &FilePath,
    is_quiet: bool,
    interrupt: &Interrupt,
) -> anyhow::Result<Vec<CompactedDisk>> {
    let file = cluster.options().write(true).open(path.as_str())?;
    let progress = Progress::begin(path.as_str(), Some(0), is_quiet);
    let disks = file.compact(|disks| {
        let sum = |bytes: fn(&CompactedDisk) -> u64| disks.iter().map(bytes).sum();
        progress.set(sum(|disk| disk.compact_bytes), sum(|disk| disk.data_bytes));
        if interrupt.check().is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    interrupt.check()?;
    progress.finish();
    Ok(disks)
}

/// The output: a table or JSON.
enum CompactOutput {
    Json(JsonArray<std::io::BufWriter<std::io::StdoutLock<'static>>>),
    Text(TextTable<5>),
}

impl CompactOutput {
    fn new(is_json: bool) -> Self {
        if is_json {
            return Self::Json(JsonArray::begin(terminal::output()));
        }
        Self::Text(TextTable::new([
            ("before", ColumnAlignment::Right),
            ("after", ColumnAlignment::Right),
            ("freed", ColumnAlignment::Right),
            ("disk", ColumnAlignment::Left),
            ("path", ColumnAlignment::Left),
        ]))
    }

    fn push(&mut self, path: &FilePath, disks: &[CompactedDisk]) -> anyhow::Result<()> {
        match self {
            Self::Json(array) => array.push(&as_json(path, disks)),
            Self::Text(table) => {
                for disk in disks {
                    table.push([
                        size(disk.before_bytes),
                        size(disk.after_bytes),
                        size(disk.freed_bytes()),
                        disk.disk.clone(),
                        path.to_string(),
                    ]);
                }
                Ok(())
            }
        }
    }

    /// Ends the output. After a failure, JSON without a single file is no document at all.
    fn finish(self, has_failed: bool) -> anyhow::Result<()> {
        match self {
            Self::Json(array) if has_failed => {
                drop(array);
                Ok(())
            }
            Self::Json(array) => Ok(array.end()?),
            Self::Text(table) if table.is_empty() => Ok(()),
            Self::Text(table) => {
                let mut out = terminal::output();
                table.print(&mut out)?;
                Ok(out.flush()?)
            }
        }
    }
}

fn as_json(path: &FilePath, disks: &[CompactedDisk]) -> Value {
    let sum = |bytes: fn(&CompactedDisk) -> u64| disks.iter().map(bytes).sum::<u64>();
    let each = disks.iter().map(|disk| {
        json!({
            "disk": disk.disk,
            "before_bytes": disk.before_bytes,
            "after_bytes": disk.after_bytes,
            "freed_bytes": disk.freed_bytes(),
            "moved_bytes": disk.moved_bytes,
        })
    });
    json!({
        "path": path,
        "before_bytes": sum(|disk| disk.before_bytes),
        "after_bytes": sum(|disk| disk.after_bytes),
        "freed_bytes": sum(CompactedDisk::freed_bytes),
        "moved_bytes": sum(|disk| disk.moved_bytes),
        "disks": each.collect::<Vec<_>>(),
    })
}
