//! Ten million tokens of 4 KiB through a merge that is slower than everything before it: the most
//! memory of the process, above what it has when it is idle, against the limit of 64 MiB.
//!
//! One thread fills the tokens and splits them off, a second one passes them on, a third one merges
//! them and is busy for 2 µs with each. The window is the automatic one. It runs in a process of
//! its own, so that nothing else has used memory before.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use pario_flow::Program;
use pario_net::{Bulk, BulkBuffer};
use serde::{Deserialize, Serialize};

use super::memory::{Memory, forget_peak};
use super::work::{Speed, busy};
use crate::area::Setting;
use crate::figure::Quantity;
use crate::partner::{Partner, Role, Starter};
use crate::report::Report;
use crate::turns::Comparison;

/// The process that is watched.
pub const ROLE: Role = Role { name: "bounded-memory", run: serve };

const LIMIT_MIB: f64 = 64.0;
const TOKEN_BYTES: usize = 4096;
const MERGE: Duration = Duration::from_micros(2);

#[derive(Serialize, Deserialize)]
struct Block {
    number: u64,
    bytes: Bulk,
}

/// Measures `bounded-memory`.
pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let tokens: u64 = setting.choose(10_000_000, 100_000);
    let mut process = Partner::start(ROLE.name, &[tokens.to_string()])?;
    let idle_kib: f64 = process.hear_value()?;
    let peak_kib: f64 = process.hear_value()?;
    let seconds: f64 = process.hear_value()?;
    let above_mib = ((peak_kib - idle_kib) / 1024.0).max(0.001);
    eprintln!(
        "  idle {:.1} MiB, peak {:.1} MiB, {tokens} tokens in {seconds:.1} s",
        idle_kib / 1024.0,
        peak_kib / 1024.0
    );
    let comparison = Comparison::new(&[above_mib], &[LIMIT_MIB]);
    report.measured("bounded-memory", comparison, Quantity::Amount("MiB"), 1.0);
    Ok(())
}

/// The process that is watched: says its memory when idle, its peak, and how long it took.
fn serve(words: &[String]) -> Result<()> {
    let starter = Starter::listen();
    let [tokens] = words else {
        bail!("needs a number of tokens");
    };
    let tokens: u64 = tokens.parse()?;
    let rounds = Speed::measure().rounds(MERGE);
    let mut program = Program::new("bounded");
    let [source, middle, sink] =
        ["Source", "Middle", "Sink"].map(|name| program.thread(name, || ()));
    let count = program.operation("count", |chain| {
        chain
            .on(source)
            .split_while(|remaining: &mut u64| {
                *remaining = remaining.checked_sub(1)?;
                let mut bytes = BulkBuffer::new(TOKEN_BYTES);
                bytes.fill(remaining.to_le_bytes()[0]);
                Some(Block { number: *remaining, bytes: bytes.freeze() })
            })
            .on(middle)
            .run(|(), block: Block| block)
            .merge(
                sink,
                |_| 0,
                move |count: &mut u64, block| {
                    assert_eq!(block.bytes[TOKEN_BYTES - 1], block.number.to_le_bytes()[0]);
                    busy(rounds);
                    *count += 1;
                },
            )
    });
    let run = program.launch(None)?;
    forget_peak()?;
    starter.say(Memory::now()?.resident_kib.to_string())?;
    let start = std::time::Instant::now();
    let merged = run.call(count, tokens)?;
    let elapsed = start.elapsed();
    ensure!(merged == tokens, "{merged} of {tokens} tokens were merged");
    starter.say(Memory::now()?.peak_kib.to_string())?;
    starter.say(elapsed.as_secs_f64().to_string())
}
