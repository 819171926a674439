//! What a hop of a token costs: to an empty stage on the same thread, on another thread, and in
//! another process.
//!
//! - same thread: eight empty stages between a split and a merge on one thread, against eight calls
//!   of closures in boxes; the time is per stage, with its share of the split and the merge.
//! - other thread, other process: one empty stage there, split and merge here, one token under way,
//!   so two hops per token; against a round trip over crossbeam's channels, and one of the same
//!   eight bytes over a bare Unix socket.
//!
//! Nothing is bound to a core, on either side.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pario_flow::{OperationRef, Program, RunningProgram, Window};

use super::plain_hops::{Channels, StageCalls};
use super::twin::Twin;
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::net::Transport;
use crate::net::bare_socket::BareSocket;
use crate::report::Report;
use crate::turns::alternate;

/// Empty stages on one thread.
const STAGES: usize = 8;
/// Hops of a token to another thread and back.
const HOPS: f64 = 2.0;
const TOKEN_BYTES: usize = 8;
/// Tokens before the measurement, which wake a sleeping core.
const BEFORE: u64 = 20;

/// Measures `hop-same-thread`.
pub fn run_same_thread(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let tokens: u64 = setting.choose(20_000, 5_000);
    let ours = HopProgram::on_one_thread()?;
    let mut theirs = StageCalls::new(STAGES);
    let comparison = alternate(setting.choose(101, 31), &mut || ours.run(tokens), &mut || {
        Ok(theirs.run(tokens))
    })?;
    let quantity = Quantity::ShortOperations(tokens as f64 * STAGES as f64);
    report.measured("hop-same-thread", comparison, quantity, None);
    Ok(())
}

/// Measures `hop-thread`.
pub fn run_thread(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let tokens: u64 = setting.choose(1_000, 300);
    let ours = HopProgram::on_two_threads()?;
    let mut theirs = Channels::start();
    let comparison = alternate(
        setting.choose(201, 61),
        &mut || {
            ours.run(BEFORE)?;
            ours.run(tokens)
        },
        &mut || {
            theirs.round_trips(BEFORE)?;
            theirs.round_trips(tokens)
        },
    )?;
    report.measured("hop-thread", comparison, Quantity::Operations(tokens as f64 * HOPS), None);
    Ok(())
}

/// Measures `hop-process`.
pub fn run_process(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let tokens: u64 = setting.choose(500, 200);
    let dir = setting.subdir("hop-process")?;
    let mut ours = Twin::start(2)?;
    let mut theirs = BareSocket::start(Transport::Unix, &dir)?;
    let comparison = alternate(
        setting.choose(201, 61),
        &mut || {
            ours.echo(BEFORE)?;
            ours.echo(tokens)
        },
        &mut || theirs.round_trips(TOKEN_BYTES, tokens, BEFORE),
    )?;
    report.measured("hop-process", comparison, Quantity::Operations(tokens as f64 * HOPS), None);
    Ok(())
}

/// A program in this process.
struct HopProgram {
    run: RunningProgram,
    /// From the number of tokens to enter to the number that has left.
    operation: OperationRef<u64, u64>,
}

impl HopProgram {
    fn on_one_thread() -> Result<Self> {
        let mut program = Program::new("one thread");
        let only = program.thread("Only", || ());
        let operation = program.operation("stay", |chain| {
            chain
                .on(only)
                .window(Window::fixed(1))
                .split_while(next)
                .run(|(), token: u64| token)
                .run(|(), token: u64| token)
                .run(|(), token: u64| token)
                .run(|(), token: u64| token)
                .run(|(), token: u64| token)
                .run(|(), token: u64| token)
                .run(|(), token: u64| token)
                .run(|(), token: u64| token)
                .merge(only, |_| 0, count)
        });
        Ok(Self { run: program.launch(None)?, operation })
    }

    fn on_two_threads() -> Result<Self> {
        let mut program = Program::new("two threads");
        let here = program.thread("Here", || ());
        let there = program.thread("There", || ());
        let operation = program.operation("there and back", |chain| {
            chain
                .on(here)
                .window(Window::fixed(1))
                .split_while(next)
                .on(there)
                .run(|(), token: u64| token)
                .merge(here, |_| 0, count)
        });
        Ok(Self { run: program.launch(None)?, operation })
    }

    fn run(&self, tokens: u64) -> Result<Duration> {
        let start = Instant::now();
        let merged = self.run.call(self.operation, tokens)?;
        let elapsed = start.elapsed();
        ensure!(merged == tokens, "{merged} of {tokens} tokens came back");
        Ok(elapsed)
    }
}

/// Lets one more token enter.
pub fn next(remaining: &mut u64) -> Option<u64> {
    *remaining = remaining.checked_sub(1)?;
    Some(*remaining)
}

/// Counts one more token that has left.
pub fn count(merged: &mut u64, _token: u64) {
    *merged += 1;
}
