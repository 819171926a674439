//! The two cases in which the thesis on CAP says that its own flow control fails (sections 3.10 and
//! 7.1): a split inside a split, and a stage that reorders its tokens. The automatic window,
//! against the bound that the slowest stage sets: all tokens through that stage, one after the
//! other, and one trip through the other stages.
//!
//! *Nested*: slices one after the other, each of ten extents that are read (5 ms), projected (8 ms,
//! the slowest stage) and merged into the slice, which is then displayed (12 ms). Both windows are
//! automatic.
//!
//! *Reordering*: a disk with eight requests under way that replies to each after 1 to 29 ms, in any
//! order, and a stage of 5 ms behind it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use pario_flow::{Continuation, OperationRef, Program};

use super::tokens_under_way::TokensUnderWay;
use super::waits::wait;
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::Comparison;

const EXTENTS: u64 = 10;
const READ: Duration = Duration::from_millis(5);
const PROJECT: Duration = Duration::from_millis(8);
const SHOW: Duration = Duration::from_millis(12);

const DISK_REQUESTS: usize = 8;
const DISK_MS: std::ops::Range<u64> = 1..30;
const AFTER_DISK: Duration = Duration::from_millis(5);

/// The share of the bound that the automatic windows must reach.
const GOAL: f64 = 0.95;

/// Measures both figures, and prints the number of tokens under way.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let (size, turns) = setting.choose((40, 5), (10, 1));
    let mut seconds = [Vec::new(), Vec::new()];
    let mut bounds = [Vec::new(), Vec::new()];
    for _ in 0..turns {
        let (elapsed, most) = nested(size)?;
        seconds[0].push(elapsed.as_secs_f64());
        bounds[0].push(nested_bound(size).as_secs_f64());
        eprintln!("  nested: at most {most} extents under way");
        let (elapsed, most) = reordering(size * EXTENTS)?;
        seconds[1].push(elapsed.as_secs_f64());
        bounds[1].push(reordering_bound(size * EXTENTS).as_secs_f64());
        eprintln!("  reordering: at most {most} tokens under way");
    }
    let operations = Quantity::Operations((size * EXTENTS) as f64);
    for (place, name) in ["nested-automatic", "reordering-automatic"].into_iter().enumerate() {
        let comparison = Comparison::new(&seconds[place], &bounds[place]);
        report.measured(name, comparison, operations, GOAL);
    }
    Ok(())
}

fn times(count: u64, duration: Duration) -> Duration {
    duration * u32::try_from(count).unwrap_or(u32::MAX)
}

/// The time of all extents in the slowest stage, and of one trip to it and from it.
fn nested_bound(slices: u64) -> Duration {
    READ + times(slices * EXTENTS, PROJECT) + SHOW
}

fn reordering_bound(tokens: u64) -> Duration {
    Duration::from_millis(DISK_MS.start) + times(tokens, AFTER_DISK)
}

/// The time for some slices, and the most extents under way.
fn nested(slices: u64) -> Result<(Duration, u64)> {
    let mut program = Program::new("slices");
    let client = program.thread("Client", || ());
    let composer = program.thread("Composer", || ());
    let disk = program.thread("Disk", || ());
    let projector = program.thread("Projector", || ());
    let screen = program.thread("Screen", || ());
    let under_way = Arc::new(TokensUnderWay::default());
    let (entering, leaving) = (Arc::clone(&under_way), Arc::clone(&under_way));
    let slice = program.operation("slice", |b| {
        b.on(composer)
            .split_indexed(
                |_: &u64| 0..EXTENTS,
                move |_, extent| {
                    entering.enter();
                    Some(extent)
                },
            )
            .on(disk)
            .run(|(), extent: u64| paused(READ, extent))
            .on(projector)
            .run(|(), extent: u64| paused(PROJECT, extent))
            .merge(
                composer,
                |_| 0,
                move |extents: &mut u64, _| {
                    leaving.leave();
                    *extents += 1;
                },
            )
            .on(screen)
            .run(|(), extents: u64| paused(SHOW, extents))
    });
    let film: OperationRef<u64, u64> = program.operation("film", |b| {
        b.on(client)
            .split_indexed(|slices: &u64| 0..*slices, |_, slice| Some(slice))
            .call(slice)
            .merge(client, |_| 0, |extents: &mut u64, more| *extents += more)
    });
    let run = program.launch(None)?;
    let start = Instant::now();
    let extents = run.call(film, slices)?;
    let elapsed = start.elapsed();
    anyhow::ensure!(extents == slices * EXTENTS, "{extents} extents were projected");
    Ok((elapsed, under_way.most()))
}

/// The time for some tokens, and the most under way.
fn reordering(tokens: u64) -> Result<(Duration, u64)> {
    let (requests, waiting) = crossbeam_channel::unbounded::<(u64, Continuation<u64>)>();
    let servers: Vec<_> = (0..DISK_REQUESTS)
        .map(|seed| {
            let waiting = waiting.clone();
            std::thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed as u64);
                for (token, next) in waiting {
                    wait(Duration::from_millis(random.u64(DISK_MS)));
                    next.call(token);
                }
            })
        })
        .collect();
    let mut program = Program::new("disk");
    let client = program.thread("Client", || ());
    let disk = program.thread("Disk", move || requests.clone());
    let worker = program.thread("Worker", || ());
    let under_way = Arc::new(TokensUnderWay::default());
    let (entering, leaving) = (Arc::clone(&under_way), Arc::clone(&under_way));
    let read = program.operation("read", |b| {
        b.on(client)
            .split_indexed(
                |tokens: &u64| 0..*tokens,
                move |_, token| {
                    entering.enter();
                    Some(token)
                },
            )
            .on(disk)
            .run_async(|requests, token: u64, next| {
                // A disk that has ended drops the continuation, and the call reports it.
                let _ = requests.send((token, next));
            })
            .on(worker)
            .run(|(), token: u64| paused(AFTER_DISK, token))
            .merge(
                client,
                |_| 0,
                move |count: &mut u64, _| {
                    leaving.leave();
                    *count += 1;
                },
            )
    });
    let run = program.launch(None)?;
    let start = Instant::now();
    let count = run.call(read, tokens)?;
    let elapsed = start.elapsed();
    anyhow::ensure!(count == tokens, "{count} of {tokens} tokens were read");
    drop(run);
    for server in servers {
        server.join().map_err(|_| anyhow::anyhow!("a request of the disk panicked"))?;
    }
    Ok((elapsed, under_way.most()))
}

fn paused(pause: Duration, token: u64) -> u64 {
    wait(pause);
    token
}
