//! `pario du`: shows the space that directories take.

use std::ffi::OsString;
use std::io::Write;

use clap::{ArgAction, Args};
use pario::{Cluster, FileKind, FilePath, Metadata};
use serde_json::json;

use crate::amounts::size;
use crate::arguments::GlobalOptions;
use crate::exit::{self, AlreadyReported};
use crate::interrupt::Interrupt;
use crate::table::{ColumnAlignment, TextTable};
use crate::terminal::JsonArray;
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario du /runs\n  pario du -s /runs /scratch\n  \
                            pario du --json /runs | jq '.[-1].disk_bytes'";

/// Rows that are aligned with each other; a whole list may not fit into memory.
const ROWS_ALIGNED: usize = 4096;

/// Arguments of the command.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Options {
    /// Show only the sum of each path
    #[arg(short, long, conflicts_with_all = ["all", "max_depth"])]
    summarize: bool,

    /// Show files as well
    #[arg(short, long)]
    all: bool,

    /// Show directories down to this depth; sums include all
    #[arg(short = 'd', long, value_name = "DEPTH")]
    max_depth: Option<usize>,

    /// Show bytes instead of KiB, MiB, GiB
    #[arg(short, long)]
    bytes: bool,

    /// Show KiB, MiB, GiB (the default)
    #[arg(short = 'h', long, conflicts_with = "bytes")]
    human_readable: bool,

    /// Print help
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,

    /// The directories and files
    #[arg(default_value = "/", value_name = "PATH")]
    paths: Vec<OsString>,
}

impl Options {
    fn depth(&self) -> usize {
        if self.summarize { 0 } else { self.max_depth.unwrap_or(usize::MAX) }
    }
}

/// The contents of a directory and of all below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DiskUsage {
    /// Bytes of data.
    data: u64,
    /// Bytes on the disks.
    disk: u64,
    files: u64,
    directories: u64,
}

impl DiskUsage {
    fn of_file(measured: Option<&Metadata>) -> Self {
        let (data, disk) = measured.map_or((0, 0), |known| (known.len, known.disk_bytes()));
        Self { data, disk, files: 1, directories: 0 }
    }

    fn add(&mut self, other: DiskUsage) {
        self.data = self.data.saturating_add(other.data);
        self.disk = self.disk.saturating_add(other.disk);
        self.files += other.files;
        self.directories += other.directories;
    }
}

/// A directory that is being counted.
struct Level {
    path: FilePath,
    usage: DiskUsage,
    /// Subdirectories that are still to be counted, in reverse order.
    below: Vec<FilePath>,
}

/// Runs the command. Reports unreadable paths and leaves them out; the first failure decides the
/// exit code.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let paths = paths::all_in_cluster(&options.paths)?;
    let cluster = reach::cluster(global)?;
    let mut count = UsageCounter {
        cluster: &cluster,
        options,
        interrupt: Interrupt::watch()?,
        page: UsageOutput::new(global.json, options.bytes),
        first_failure: None,
    };
    for path in &paths {
        let counted = count.path(path);
        count.report_failure(counted)?;
    }
    count.page.finish()?;
    count.first_failure.map_or(Ok(()), |code| Err(AlreadyReported(code).into()))
}

struct UsageCounter<'c> {
    cluster: &'c Cluster,
    options: &'c Options,
    interrupt: Interrupt,
    page: UsageOutput,
    first_failure: Option<u8>,
}

impl UsageCounter<'_> {
    fn path(&mut self, path: &FilePath) -> anyhow::Result<()> {
        let known = self.cluster.metadata(path.as_str())?;
        if !known.is_directory() {
            return self.page.show(path, &DiskUsage::of_file(Some(&known)));
        }
        let mut levels = vec![self.level(path.clone(), 0)?];
        while let Some(level) = levels.last_mut() {
            if let Some(below) = level.below.pop() {
                let counted = self.level(below, levels.len());
                if let Some(level) = self.report_failure(counted)? {
                    levels.push(level);
                }
                continue;
            }
            let Some(Level { path, usage, .. }) = levels.pop() else { break };
            if levels.len() <= self.options.depth() {
                self.page.show(&path, &usage)?;
            }
            if let Some(above) = levels.last_mut() {
                above.usage.add(usage);
            }
        }
        Ok(())
    }

    /// Counts the files of a directory, and collects its subdirectories.
    fn level(&mut self, path: FilePath, depth: usize) -> anyhow::Result<Level> {
        let mut level = Level {
            usage: DiskUsage { directories: 1, ..DiskUsage::default() },
            below: Vec::new(),
            path,
        };
        for listed in self.cluster.list(level.path.as_str())? {
            self.interrupt.check()?;
            let listed = listed?;
            let path = level.path.join(&listed.name)?;
            if listed.record.kind == FileKind::Directory {
                level.below.push(path);
                continue;
            }
            let usage = DiskUsage::of_file(listed.measured.as_ref());
            level.usage.add(usage);
            if self.options.all && depth < self.options.depth() {
                self.page.show(&path, &usage)?;
            }
        }
        // The directories are popped from the end, so the first name must be last.
        level.below.reverse();
        Ok(level)
    }

    /// Reports a failure of one path and continues with the others.
    fn report_failure<T>(&mut self, counted: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
        let error = match counted {
            Ok(counted) => return Ok(Some(counted)),
            Err(error) => error,
        };
        let code = exit::code(&error);
        if !matches!(code, exit::NOT_FOUND | exit::NOT_PERMITTED) {
            return Err(error);
        }
        exit::report(&error, self.page.is_json());
        self.first_failure.get_or_insert(code);
        Ok(None)
    }
}

/// The output: a table or JSON.
enum UsageOutput {
    Json(JsonArray<std::io::BufWriter<std::io::StdoutLock<'static>>>),
    Text { table: TextTable<3>, rows: usize, with_bytes: bool },
}

impl UsageOutput {
    fn new(is_json: bool, with_bytes: bool) -> Self {
        match is_json {
            true => Self::Json(JsonArray::begin(terminal::output())),
            false => Self::Text { table: table(), rows: 0, with_bytes },
        }
    }

    fn is_json(&self) -> bool {
        matches!(self, Self::Json(_))
    }

    fn show(&mut self, path: &FilePath, usage: &DiskUsage) -> anyhow::Result<()> {
        match self {
            Self::Json(array) => array.push(&json!({
                "path": path,
                "size_bytes": usage.data,
                "disk_bytes": usage.disk,
                "files": usage.files,
                "directories": usage.directories,
            })),
            Self::Text { table, rows, with_bytes } => {
                let shown = |bytes: u64| if *with_bytes { bytes.to_string() } else { size(bytes) };
                table.push([shown(usage.data), shown(usage.disk), path.to_string()]);
                *rows += 1;
                if *rows == ROWS_ALIGNED { self.flush() } else { Ok(()) }
            }
        }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        if let Self::Text { table: rows_so_far, rows, .. } = self
            && *rows > 0
        {
            *rows = 0;
            let mut out = terminal::output();
            std::mem::replace(rows_so_far, table()).print(&mut out)?;
            out.flush()?;
        }
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.flush()?;
        if let Self::Json(array) = self {
            array.end()?;
        }
        Ok(())
    }
}

fn table() -> TextTable<3> {
    TextTable::new([
        ("data", ColumnAlignment::Right),
        ("on disk", ColumnAlignment::Right),
        ("path", ColumnAlignment::Left),
    ])
}
