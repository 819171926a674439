//! The cost of a write in ever larger subfiles, compared to a small one.
//!
//! All subfiles are open at the same time, with one index cache each, and take turns. The disk has
//! no checkpoint thread: the write that makes a checkpoint necessary performs it within its turn,
//! and a turn is long enough for at least one. New extents come in shorter turns, so that the
//! smallest subfile stays small; each of these turns ends with a checkpoint, and the extents are
//! deleted after it.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Context, Result};
use pario_store::{Disk, DiskOptions, ExtentCache, Queue};

use super::fill_pool;
use super::population::{ExtentShape, Population};
use super::stream::start_queue;
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::statistics::median;
use crate::turns::{Comparison, TurnRunner, rotate};

/// The largest subfile may take 1.5 times as long as the smallest.
const GOAL: f64 = 0.667;

/// The largest number of changes between two checkpoints, by default.
const JOURNAL_RECORDS: u64 = (8 << 20) / JOURNAL_RECORD_BYTES;

/// The same in quick runs.
const QUICK_JOURNAL_RECORDS: u64 = 4_096;

/// The size of a change in the journal.
const JOURNAL_RECORD_BYTES: u64 = 64;

/// Writes under way.
const DEPTH: usize = 16;

/// Numbers of extents, and the names of the figures.
const SIZES: [(u64, &str); 4] =
    [(10_000, "1e4"), (100_000, "1e5"), (1_000_000, "1e6"), (10_000_000, "1e7")];

/// Space that stays free in any case.
const SPARED_BYTES: u64 = 10 << 30;

/// Measures `growth-…` and `growth-insert-…`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let sizes = setting.choose(&SIZES[..], &SIZES[..3]);
    let all: u64 = sizes.iter().map(|(extents, _)| extents).sum();
    let disk = make_growth_disk(setting)?;
    let space_bytes = disk.space()?.free_bytes.saturating_sub(SPARED_BYTES);
    let usual_fits = ExtentShape::USUAL.bytes_for(all) <= space_bytes;
    let (shape, suffix) =
        if usual_fits { (ExtentShape::USUAL, "") } else { (ExtentShape::SMALL, "-400b") };
    if shape.bytes_for(all) > space_bytes {
        let needed = (shape.bytes_for(all) + SPARED_BYTES) >> 20;
        report.skipped("growth", format!("needs {needed} MiB of free space"));
        return Ok(());
    }
    let mut queue = start_queue(DEPTH)?;
    fill_pool(&disk, shape.body_bytes, 2 * DEPTH)?;
    let mut populations = Vec::new();
    for &(extents, _) in sizes {
        let filled = Population::fill(&disk, &mut queue, DEPTH, shape, extents);
        populations.push(filled?);
    }
    setting.flush_file_system()?;
    let queue = RefCell::new(queue);
    let rewrites: u64 = setting.choose(2 * JOURNAL_RECORDS, 2 * QUICK_JOURNAL_RECORDS);
    let inserts: u64 = setting.choose(10_000, 4_000);
    for (kind, write, writes) in [
        ("growth", Population::rewrite as WriteFn, rewrites),
        ("growth-insert", Population::insert as WriteFn, inserts),
    ] {
        let seconds = measure(&mut populations, &queue, writes, write)?;
        for (&(_, size), ours_s) in sizes.iter().zip(&seconds).skip(1) {
            let comparison = Comparison::new(ours_s, &seconds[0]);
            let quantity = Quantity::Operations(writes as f64);
            let name = format!("{kind}-{size}{suffix}");
            report.measured(&name, comparison, quantity, GOAL);
        }
    }
    Ok(())
}

/// Creates a disk without a checkpoint thread. It writes a checkpoint at least once in
/// [`JOURNAL_RECORDS`] changes, as by default; in quick runs much more often.
fn make_growth_disk(setting: &RunSettings) -> Result<Disk> {
    let records = setting.choose(JOURNAL_RECORDS, QUICK_JOURNAL_RECORDS);
    let options = DiskOptions {
        cache: ExtentCache::new(0),
        background: false,
        journal_bytes: records * JOURNAL_RECORD_BYTES,
        ..DiskOptions::default()
    };
    Disk::create(setting.dir.join("growth.disk"), options).context("creating a disk")
}

/// A function that writes to a population.
type WriteFn = fn(&mut Population, &mut Queue, usize, u64) -> Result<Duration>;

/// Lets all populations take turns; returns the seconds of each.
fn measure(
    populations: &mut [Population],
    queue: &RefCell<Queue>,
    writes: u64,
    write: WriteFn,
) -> Result<Vec<Vec<f64>>> {
    const TURNS: usize = 15;
    let mut sides: Vec<_> = populations
        .iter_mut()
        .map(|population| move || write(population, &mut queue.borrow_mut(), DEPTH, writes))
        .collect();
    let mut sides: Vec<TurnRunner<'_>> =
        sides.iter_mut().map(|side| side as TurnRunner<'_>).collect();
    let seconds = rotate(TURNS, &mut sides)?;
    drop(sides);
    for (population, seconds) in populations.iter().zip(&seconds) {
        let per_write = median(seconds) / writes as f64 * 1e6;
        eprintln!("  {} extents: {per_write:.1} us per write", population.extents);
    }
    Ok(seconds)
}
