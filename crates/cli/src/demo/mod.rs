//! `pario demo`: shows what a cluster does, on temporary disks and nodes, and checks every byte.
//!
//! The first two parts run in this process, on an embedded cluster: the nodes generate a body, take
//! slices and filter an image; then a file is copied in and out, and extents are written and read.
//! The last part runs a node as its own process, kills it during a copy and starts it again.

mod body;
mod content;
mod directory;
mod embedded;
mod killed;
mod node;
mod report;

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use pario::{Cluster, FilePath};

use crate::amounts::{parse_size, size};
use crate::arguments::GlobalOptions;
use crate::commands::view;
use crate::exit::UsageError;
use crate::interrupt::Interrupt;
use crate::terminal;
use content::DemoContent;
use directory::DemoDirectory;
use report::{DemoReport, Phases};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario demo\n  pario demo --view\n  pario demo --size 64MiB --dir /mnt/ssd\n  \
                            pario demo --json | jq '.phases[] | {phase, bytes_per_second}'";

/// The smallest `--size`: some pieces for every disk and every phase.
const SMALLEST_SIZE: u64 = 1 << 20;

/// Disk space per byte of the file: a body of the same size, the file, its copies in two clusters,
/// and the copy that comes out.
const SPACE_FACTOR: u64 = 5;
const SPACE_FOR_THE_REST_BYTES: u64 = 64 << 20;

/// Options of the demo.
#[derive(Args, Debug)]
pub struct Options {
    /// Size of the file: 64MiB, 2GiB, ...
    #[arg(long, default_value = "512MiB", value_parser = parse_demo_size, allow_hyphen_values = true)]
    pub size: u64,

    /// Directory in which to create the directory with the disks
    #[arg(long, default_value = ".")]
    pub dir: PathBuf,

    /// Directory for pictures and the trace [default: pario-demo-pictures, beside the disks]
    #[arg(long, value_name = "DIR")]
    pub pictures: Option<PathBuf>,

    /// Show the body in a browser at the end, until Ctrl-C
    #[arg(long)]
    pub view: bool,

    /// Keep the directory with the disks
    #[arg(long)]
    pub keep: bool,

    /// Seed of the contents
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Runs the demo and prints its report.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    if global.cluster.is_some() || global.data.is_some() {
        let text = "the demo creates its own clusters; name a directory for them with --dir";
        return Err(UsageError(text.to_owned()).into());
    }
    let interrupt = Interrupt::watch().context("cannot watch for signals")?;
    let directory = DemoDirectory::create(&options.dir, options.keep)?;
    check_space(&directory, options.size)?;
    let mut out = terminal::output();
    if !global.json {
        let (size, place) = (size(options.size), directory.path().display());
        writeln!(
            out,
            "{size} striped over 4 disks: a body and its slices, a file in and out, killed and \
             recovered, in\n{place}\n"
        )?;
        out.flush()?;
    }
    let mut report = measure(options, &directory, global.json, interrupt)?;
    if options.view {
        return show(global, directory, &mut report, out);
    }
    report.kept = directory.finish()?;
    print_report(global, &report, out)
}

/// Prints the report.
fn print_report(
    global: &GlobalOptions,
    report: &DemoReport,
    mut out: impl Write,
) -> anyhow::Result<()> {
    if global.json {
        drop(out);
        return terminal::print_json(report);
    }
    report.print(&mut out)?;
    Ok(out.flush()?)
}

/// Prints the report, and serves the viewer of the body until Ctrl-C.
fn show(
    global: &GlobalOptions,
    directory: DemoDirectory,
    report: &mut DemoReport,
    out: impl Write,
) -> anyhow::Result<()> {
    report.kept = directory.kept();
    print_report(global, report, out)?;
    let cluster = Cluster::embedded(directory.path().join("embedded"))?;
    view::show(global, &cluster, &[FilePath::new("/body")?], &view::Options::plain())?;
    drop(cluster);
    directory.finish().map(drop)
}

fn measure(
    options: &Options,
    directory: &DemoDirectory,
    is_quiet: bool,
    interrupt: Interrupt,
) -> anyhow::Result<DemoReport> {
    let content = DemoContent::new(options.seed, options.size);
    let mut phases = Phases::new(is_quiet, interrupt);
    let cluster = Cluster::embedded(directory.path().join("embedded"))?;
    let beside = || directory.parent().join("pario-demo-pictures");
    let pictures = options.pictures.clone().unwrap_or_else(beside);
    let body = body::run(&cluster, options.size, options.seed, &pictures, &mut phases)?;
    let disks = embedded::run(&cluster, directory.path(), &content, &mut phases)?;
    drop(cluster);
    let recovery = killed::run(directory.path(), &content, &mut phases)?;
    Ok(DemoReport {
        version: env!("CARGO_PKG_VERSION"),
        size_bytes: options.size,
        seed: options.seed,
        body,
        phases: phases.into_reports(),
        disks,
        recovery,
        kept: None,
    })
}

/// Fails, before anything is written, if the data would not fit.
fn check_space(directory: &DemoDirectory, size_bytes: u64) -> anyhow::Result<()> {
    let parent = directory.parent();
    let free = rustix::fs::statvfs(parent)
        .map(|known| known.f_bavail.saturating_mul(known.f_frsize))
        .with_context(|| format!("cannot get the free space of {}", parent.display()))?;
    let needed = size_bytes.saturating_mul(SPACE_FACTOR).saturating_add(SPACE_FOR_THE_REST_BYTES);
    if needed > free {
        // The directory is still empty.
        let _ = fs::remove_dir(directory.path());
        bail!(
            "not enough space in {}: {} are needed, {} are free; use a smaller --size or another \
             --dir",
            parent.display(),
            size(needed),
            size(free)
        );
    }
    Ok(())
}

fn parse_demo_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        size if size < SMALLEST_SIZE => {
            Err(format!("it is too small; the smallest is {}", crate::amounts::size(SMALLEST_SIZE)))
        }
        size => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_least() {
        assert_eq!(parse_demo_size("64MiB"), Ok(64 << 20));
        assert!(parse_demo_size("1023KiB").unwrap_err().contains("the smallest is 1 MiB"));
        assert!(parse_demo_size("much").unwrap_err().contains("not a size"));
    }
}
