//! `pario ls`: lists directories.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use jiff::tz::TimeZone;
use pario::{Cluster, FileKind, FilePath, FileRecord, Metadata};

use crate::amounts::size;
use crate::arguments::GlobalOptions;
use crate::interrupt::Interrupt;
use crate::owners::{Owners, mode_letters};
use crate::table::{ColumnAlignment, TextTable};
use crate::terminal::JsonArray;
use crate::{entry, paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str =
    "pario ls\n  pario ls -l /runs\n  pario ls -R /runs --json | jq '.[].path'";

/// Rows of a long list that are aligned with each other; a whole list may not fit into memory.
const ROWS_ALIGNED: usize = 4096;

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Also show mode, owner, group, size and date
    #[arg(short, long)]
    long: bool,

    /// List subdirectories as well
    #[arg(short = 'R', long)]
    recursive: bool,

    /// The directories and files
    #[arg(default_value = "/", value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let paths = paths::all_in_cluster(&options.paths)?;
    let cluster = reach::cluster(global)?;
    let walk = TreeWalk {
        cluster: &cluster,
        with_sizes: options.long || global.json,
        is_recursive: options.recursive,
        interrupt: Interrupt::watch()?,
    };
    if global.json {
        let owners = Owners::new();
        let mut array = JsonArray::begin(terminal::output());
        walk.all(&paths, &mut |listed| match listed {
            ListItem::Directory(_) => Ok(()),
            ListItem::Entry { path, record, measured } => {
                array.push(&entry::as_json(path, record, measured, &owners))
            }
        })?;
        array.end()?;
        return Ok(());
    }
    let mut page = TextOutput::new(options.long, options.recursive || paths.len() > 1);
    walk.all(&paths, &mut |listed| page.show(listed))?;
    page.finish()
}

/// An element of a listing.
enum ListItem<'l> {
    /// A directory whose entries follow.
    Directory(&'l FilePath),
    /// An entry of the directory, or a named file.
    Entry { path: &'l FilePath, record: &'l FileRecord, measured: Option<&'l Metadata> },
}

struct TreeWalk<'c> {
    cluster: &'c Cluster,
    with_sizes: bool,
    is_recursive: bool,
    interrupt: Interrupt,
}

type ListVisit<'v> = dyn FnMut(ListItem<'_>) -> anyhow::Result<()> + 'v;

impl TreeWalk<'_> {
    fn all(&self, paths: &[FilePath], visit: &mut ListVisit<'_>) -> anyhow::Result<()> {
        for path in paths {
            let known = self.cluster.metadata(path.as_str())?;
            if known.is_directory() {
                self.directory(path, visit)?;
            } else {
                let record = &known.record;
                visit(ListItem::Entry { path, record, measured: Some(&known) })?;
            }
        }
        Ok(())
    }

    fn directory(&self, path: &FilePath, visit: &mut ListVisit<'_>) -> anyhow::Result<()> {
        let mut waiting = vec![path.clone()];
        while let Some(directory) = waiting.pop() {
            visit(ListItem::Directory(&directory))?;
            let listing = match self.with_sizes {
                true => self.cluster.list(directory.as_str())?,
                false => self.cluster.list_names(directory.as_str())?,
            };
            let first_below = waiting.len();
            for listed in listing {
                self.interrupt.check()?;
                let listed = listed?;
                let path = directory.join(&listed.name)?;
                let (record, measured) = (&listed.record, listed.measured.as_ref());
                visit(ListItem::Entry { path: &path, record, measured })?;
                if self.is_recursive && record.kind == FileKind::Directory {
                    waiting.push(path);
                }
            }
            // The paths are popped from the end, so the first name must be last.
            waiting[first_below..].reverse();
        }
        Ok(())
    }
}

/// The text output.
struct TextOutput {
    out: std::io::BufWriter<std::io::StdoutLock<'static>>,
    is_long: bool,
    with_heads: bool,
    is_begun: bool,
    rows: TextTable<6>,
    row_count: usize,
    owners: Owners,
    zone: TimeZone,
}

impl TextOutput {
    fn new(is_long: bool, with_heads: bool) -> Self {
        Self {
            out: terminal::output(),
            is_long,
            with_heads,
            is_begun: false,
            rows: rows(),
            row_count: 0,
            owners: Owners::new(),
            zone: TimeZone::system(),
        }
    }

    fn show(&mut self, listed: ListItem<'_>) -> anyhow::Result<()> {
        match listed {
            ListItem::Directory(path) => {
                self.flush_rows()?;
                if self.with_heads {
                    let gap = if self.is_begun { "\n" } else { "" };
                    writeln!(self.out, "{gap}{path}:")?;
                }
            }
            ListItem::Entry { path, record, measured } => {
                let name = shown_name(path, record);
                if !self.is_long {
                    writeln!(self.out, "{name}")?;
                } else {
                    self.rows.push(row(name, record, measured, &self.owners, &self.zone));
                    self.row_count += 1;
                    if self.row_count == ROWS_ALIGNED {
                        self.flush_rows()?;
                    }
                }
            }
        }
        self.is_begun = true;
        Ok(())
    }

    fn flush_rows(&mut self) -> anyhow::Result<()> {
        let rows = std::mem::replace(&mut self.rows, rows());
        self.row_count = 0;
        Ok(rows.print(&mut self.out)?)
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.flush_rows()?;
        Ok(self.out.flush()?)
    }
}

fn rows() -> TextTable<6> {
    let (left, right) = (("", ColumnAlignment::Left), ("", ColumnAlignment::Right));
    TextTable::new([left, left, left, right, left, left])
}

/// Returns the name, with a slash for directories.
fn shown_name(path: &FilePath, record: &FileRecord) -> String {
    let name = path.name().unwrap_or_default();
    if record.kind == FileKind::Directory { format!("{name}/") } else { name.to_owned() }
}

fn row(
    name: String,
    record: &FileRecord,
    measured: Option<&Metadata>,
    owners: &Owners,
    zone: &TimeZone,
) -> [String; 6] {
    let letter = match record.kind {
        FileKind::Directory => 'd',
        FileKind::Flat => '-',
        FileKind::Extents => 'e',
    };
    let len = match measured {
        Some(measured) if record.kind != FileKind::Directory => size(measured.len),
        _ => "-".to_owned(),
    };
    [
        format!("{letter}{}", mode_letters(record.mode)),
        owners.user(record.uid),
        owners.group(record.gid),
        len,
        entry::date(entry::modified_ns(record, measured), zone),
        name,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::record;

    #[test]
    fn a_row_says_who_how_much_and_when() {
        let mut table = rows();
        let owners = Owners::new();
        let file = record(FileKind::Flat);
        let measured = Metadata {
            record: file.clone(),
            len: 2_040_109_465,
            modified_ns: 0,
            subfiles: Vec::new(),
        };
        let row_of = |name: &str, record: &FileRecord, measured: Option<&Metadata>| {
            row(name.to_owned(), record, measured, &owners, &TimeZone::UTC)
        };
        table.push(row_of("results.h5", &file, Some(&measured)));
        table.push(row_of("runs/", &record(FileKind::Directory), None));
        let expected = [
            "-rw-r-----  root  root  1.9 GiB  1970-01-01 00:00  results.h5",
            "drw-r-----  root  root        -  2023-11-14 22:13  runs/",
        ];
        assert_eq!(table.lines(), expected);
    }

    #[test]
    fn directories_have_a_slash() {
        let path = FilePath::new("/runs/7").unwrap();
        assert_eq!(shown_name(&path, &record(FileKind::Directory)), "7/");
        assert_eq!(shown_name(&path, &record(FileKind::Flat)), "7");
    }
}
