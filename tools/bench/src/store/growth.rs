//! What a write costs in ever larger subfiles, compared to a small one.
//!
//! All subfiles are open at the same time, with one index cache each, and take turns. The time of
//! a turn covers the writes, the sync, and writing what is left of the index: a subfile may put
//! the last off, but it has to be done, it grows with the number of index pages that the writes
//! touch, and nobody else shall pay for it. New extents are deleted after each turn.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::Result;
use pario_store::Queue;

use super::population::{Population, Shape, TurnTime};
use super::stream::start_queue;
use super::{fill_pool, make_disk};
use crate::area::Setting;
use crate::figure::Quantity;
use crate::report::Report;
use crate::statistics::median;
use crate::turns::{Comparison, Side, rotate};

/// The last may take 1.5 times as long as the first.
const GOAL: f64 = 0.667;

/// Writes under way.
const DEPTH: usize = 16;

/// Numbers of extents, and how the figures are called.
const SIZES: [(u64, &str); 4] =
    [(10_000, "1e4"), (100_000, "1e5"), (1_000_000, "1e6"), (10_000_000, "1e7")];

/// Space that stays free, whatever is measured.
const SPARED_BYTES: u64 = 10 << 30;

/// Measures `growth-…` and `growth-insert-…`.
pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let sizes = setting.choose(&SIZES[..], &SIZES[..3]);
    let all: u64 = sizes.iter().map(|(extents, _)| extents).sum();
    let disk = make_disk(setting, "growth.disk", 0)?;
    let space_bytes = disk.space()?.free_bytes.saturating_sub(SPARED_BYTES);
    let usual_fits = Shape::USUAL.bytes_for(all) <= space_bytes;
    let (shape, suffix) = if usual_fits { (Shape::USUAL, "") } else { (Shape::SMALL, "-400b") };
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
    setting.settle()?;
    let queue = RefCell::new(queue);
    let turns = setting.choose(21, 15);
    let writes: u64 = setting.choose(10_000, 4_000);
    for (kind, write) in
        [("growth", Population::rewrite as Write), ("growth-insert", Population::insert as Write)]
    {
        let seconds = measure(&mut populations, &queue, turns, writes, write)?;
        for (&(_, size), ours_s) in sizes.iter().zip(&seconds).skip(1) {
            let comparison = Comparison::new(ours_s, &seconds[0]);
            let quantity = Quantity::Operations(writes as f64);
            let name = format!("{kind}-{size}{suffix}");
            report.measured(&name, comparison, quantity, GOAL);
        }
    }
    Ok(())
}

/// One way to write to a population.
type Write = fn(&mut Population, &mut Queue, usize, u64) -> Result<TurnTime>;

/// Has all populations take turns; the answer is the seconds of each.
fn measure(
    populations: &mut [Population],
    queue: &RefCell<Queue>,
    turns: usize,
    writes: u64,
    write: Write,
) -> Result<Vec<Vec<f64>>> {
    let shares: Vec<_> = populations.iter().map(|_| RefCell::default()).collect();
    let mut sides: Vec<_> = populations
        .iter_mut()
        .zip(&shares)
        .map(|(population, shares)| {
            move || -> Result<Duration> {
                let time = write(population, &mut queue.borrow_mut(), DEPTH, writes)?;
                let mut shares: std::cell::RefMut<'_, Vec<f64>> = shares.borrow_mut();
                shares.push(time.synced.as_secs_f64() / time.settled.as_secs_f64());
                Ok(time.settled)
            }
        })
        .collect();
    let mut sides: Vec<Side<'_>> = sides.iter_mut().map(|side| side as Side<'_>).collect();
    let seconds = rotate(turns, &mut sides)?;
    drop(sides);
    for ((population, seconds), shares) in populations.iter().zip(&seconds).zip(shares) {
        eprintln!(
            "  {} extents: {:.1} us per write, {:.0} % of it until the sync was done",
            population.extents,
            median(seconds) / writes as f64 * 1e6,
            median(&shares.into_inner()) * 100.0,
        );
    }
    Ok(seconds)
}
