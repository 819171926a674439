//! `pario demo`: what the store can do, on four disks of its own, with every byte checked.

mod compaction;
mod content;
mod directory;
mod disks;
mod memory;
mod phases;
mod plan;
mod progress;
mod report;
mod table;
mod traffic;

use std::io::{Write, stdout};

use anyhow::Context;
use indicatif::HumanCount;

use crate::arguments::DemoOptions;
use crate::interrupt::Interrupt;
use content::Content;
use directory::DemoDirectory;
use disks::{DISKS, Disks};
use phases::Phases;
use plan::{EXTENT_BYTES, Plan};
use report::{Report, SpaceReport};
use traffic::Traffic;

/// Runs the demo and prints what it found.
pub fn run(options: &DemoOptions) -> anyhow::Result<()> {
    let interrupt = Interrupt::watch().context("cannot watch for signals")?;
    let directory = DemoDirectory::create(&options.dir, options.keep)?;
    let mut report = measure(options, &directory, interrupt)?;
    report.kept = directory.finish()?;

    let mut out = stdout().lock();
    if options.json {
        let json = serde_json::to_string_pretty(&report).context("cannot make JSON")?;
        writeln!(out, "{json}")?;
    } else {
        table::print(&mut out, &report)?;
    }
    Ok(out.flush()?)
}

/// Goes through all phases in a directory.
fn measure(
    options: &DemoOptions,
    directory: &DemoDirectory,
    interrupt: Interrupt,
) -> anyhow::Result<Report> {
    let (size_bytes, seed) = (options.size.as_u64(), options.seed);
    let disks = Disks::create(directory.path(), memory::cache_limit_bytes(size_bytes))?;
    disks.check_space(directory.parent(), size_bytes)?;
    if !options.json {
        announce(options, directory)?;
    }
    let traffic = Traffic::new(interrupt).context("cannot start the queue of requests")?;
    let (engine, depth_per_disk) = (traffic.engine(), traffic.depth_per_disk());
    let cache_limit_bytes = disks.cache().stat().limit_bytes;

    let (plan, content) = (Plan::new(size_bytes, seed), Content::new(seed));
    let mut phases = Phases::new(traffic, disks, plan, content);
    phases.fill()?;
    phases.read_uncached()?;
    phases.read_cold()?;
    phases.read_warm()?;
    phases.rewrite()?;
    phases.delete()?;
    let before = phases.space()?;
    phases.compact()?;
    let after = phases.space()?;
    phases.read_again()?;

    let disks: Vec<_> =
        before.iter().zip(after).map(|(before, after)| SpaceReport::new(before, after)).collect();
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        size_bytes,
        seed,
        engine,
        depth_per_disk,
        cache_limit_bytes,
        phases: phases.into_reports(),
        total: SpaceReport::total(&disks),
        disks,
        kept: None,
    })
}

/// Says what is going to happen, and where.
fn announce(options: &DemoOptions, directory: &DemoDirectory) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    writeln!(
        out,
        "{} as {} extents of {} KiB over {DISKS} disks in\n{}\n",
        options.size,
        HumanCount(Plan::extents_in(options.size.as_u64())),
        EXTENT_BYTES >> 10,
        directory.path().display()
    )?;
    Ok(out.flush()?)
}
