//! `pario demo`: what a cluster does, on disks and nodes of its own, with every byte checked.
//!
//! The first two parts happen in this process, on an embedded cluster: a body is made at the disks,
//! slices are taken and an image is filtered there; then a file is copied in and out, and extents
//! are written and read. The last part has a node in a process of its own, which is killed
//! in the middle of a copy and started again.

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
use crate::arguments::Global;
use crate::commands::view;
use crate::exit::Usage;
use crate::interrupt::Interrupt;
use crate::terminal;
use content::Content;
use directory::DemoDirectory;
use report::{Phases, Report};

/// Lines for the help.
pub const EXAMPLES: &str = "pario demo\n  pario demo --view\n  pario demo --size 64MiB --dir /mnt/ssd\n  \
                            pario demo --json | jq '.phases[] | {phase, bytes_per_second}'";

/// The smallest `--size`: some pieces for every disk and every phase.
const SMALLEST_SIZE: u64 = 1 << 20;

/// Disk space for each byte of the file: a body as large as it, the file itself, its copies in two clusters and the one
/// that comes out again.
const SPACE_FACTOR: u64 = 5;
const SPACE_FOR_THE_REST_BYTES: u64 = 64 << 20;

/// How the demo is to run.
#[derive(Args, Debug)]
pub struct Options {
    /// How large the file is: 64MiB, 2GiB, ...
    #[arg(long, default_value = "512MiB", value_parser = parse_demo_size, allow_hyphen_values = true)]
    pub size: u64,

    /// Where to make the directory with the disks
    #[arg(long, default_value = ".")]
    pub dir: PathBuf,

    /// Where pictures and the trace go [default: pario-demo-pictures, beside the disks]
    #[arg(long, value_name = "DIR")]
    pub pictures: Option<PathBuf>,

    /// Show the body in a browser at the end, until Ctrl-C
    #[arg(long)]
    pub view: bool,

    /// Keep the directory with the disks
    #[arg(long)]
    pub keep: bool,

    /// What the contents are drawn from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Runs the demo and prints what it found.
pub fn run(global: &Global, options: &Options) -> anyhow::Result<()> {
    if global.cluster.is_some() || global.data.is_some() {
        let text = "the demo makes clusters of its own; say where with --dir";
        return Err(Usage(text.to_owned()).into());
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
    tell(global, &report, out)
}

/// Prints what was found.
fn tell(global: &Global, report: &Report, mut out: impl Write) -> anyhow::Result<()> {
    if global.json {
        drop(out);
        return terminal::print_json(report);
    }
    report.print(&mut out)?;
    Ok(out.flush()?)
}

/// Prints what was found, and shows the body as long as somebody wants to look at it.
fn show(
    global: &Global,
    directory: DemoDirectory,
    report: &mut Report,
    out: impl Write,
) -> anyhow::Result<()> {
    report.kept = directory.kept();
    tell(global, report, out)?;
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
) -> anyhow::Result<Report> {
    let content = Content::new(options.seed, options.size);
    let mut phases = Phases::new(is_quiet, interrupt);
    let cluster = Cluster::embedded(directory.path().join("embedded"))?;
    let beside = || directory.parent().join("pario-demo-pictures");
    let pictures = options.pictures.clone().unwrap_or_else(beside);
    let body = body::run(&cluster, options.size, options.seed, &pictures, &mut phases)?;
    let disks = embedded::run(&cluster, directory.path(), &content, &mut phases)?;
    drop(cluster);
    let recovery = killed::run(directory.path(), &content, &mut phases)?;
    Ok(Report {
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

/// An error before anything is written if it would not fit.
fn check_space(directory: &DemoDirectory, size_bytes: u64) -> anyhow::Result<()> {
    let parent = directory.parent();
    let free = rustix::fs::statvfs(parent)
        .map(|known| known.f_bavail.saturating_mul(known.f_frsize))
        .with_context(|| format!("cannot see how much is free in {}", parent.display()))?;
    let needed = size_bytes.saturating_mul(SPACE_FACTOR).saturating_add(SPACE_FOR_THE_REST_BYTES);
    if needed > free {
        // The directory is empty, and would otherwise only be in the way.
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
            Err(format!("it is too small; the least is {}", crate::amounts::size(SMALLEST_SIZE)))
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
        assert!(parse_demo_size("1023KiB").unwrap_err().contains("the least is 1 MiB"));
        assert!(parse_demo_size("much").unwrap_err().contains("not a size"));
    }
}
