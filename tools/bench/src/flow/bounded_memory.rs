//! Ten million tokens of 4 KiB through a merge that is slower than everything before it: the peak
//! memory of a process, above its idle memory, against a limit of 64 MiB.
//!
//! One thread fills and splits off the tokens, a second one passes them on, a third one merges them
//! and is busy for 2 µs with each. The window is automatic. All of it runs in one new process, so
//! that no earlier work has used memory; or in two, with the merge in the second one, of which the
//! larger memory counts.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use pario_flow::placement::Placement;
use pario_flow::{OperationRef, Program};
use pario_net::{Bulk, BulkBuffer};
use serde::{Deserialize, Serialize};

use super::process_memory::{ProcessMemory, forget_peak};
use super::work::{Speed, busy};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole};
use crate::report::Report;
use crate::turns::Comparison;

/// The measured process.
pub const ROLE: PartnerRole = PartnerRole { name: "bounded-memory", run: serve };
/// The second process, with the merge.
pub const FAR_ROLE: PartnerRole = PartnerRole { name: "bounded-memory-far", run: serve_far };

const LIMIT_MIB: f64 = 64.0;
const TOKEN_BYTES: usize = 4096;
const MERGE: Duration = Duration::from_micros(2);

const PLACEMENT: &str = r#"
[processes]
near = "user"
far = { arguments = ["--partner", "bounded-memory-far"] }

[threads]
Source = "near"
Middle = "near"
Sink = "far"
"#;

/// A token.
#[derive(Serialize, Deserialize)]
struct TokenBlock {
    number: u64,
    bytes: Bulk,
}

/// Measures `bounded-memory`.
pub fn run_one(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, "bounded-memory", 1)
}

/// Measures `bounded-memory-two-processes`.
pub fn run_two(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, "bounded-memory-two-processes", 2)
}

fn run(setting: &RunSettings, report: &mut Report, name: &str, processes: usize) -> Result<()> {
    let tokens: u64 = setting.choose(10_000_000, 100_000);
    let mut watched =
        PartnerProcess::start(ROLE.name, &[tokens.to_string(), processes.to_string()])?;
    let mut most_mib: f64 = 0.0;
    for place in ["source", "merge"] {
        let idle_mib = watched.receive_value::<f64>()? / 1024.0;
        let peak_mib = watched.receive_value::<f64>()? / 1024.0;
        eprintln!("  at the {place}: idle {idle_mib:.1} MiB, peak {peak_mib:.1} MiB");
        most_mib = most_mib.max(peak_mib - idle_mib);
    }
    let seconds: f64 = watched.receive_value()?;
    eprintln!("  {tokens} tokens in {seconds:.1} s");
    // At least one kibibyte, so that there is a ratio.
    let comparison = Comparison::new(&[most_mib.max(1.0 / 1024.0)], &[LIMIT_MIB]);
    report.measured(name, comparison, Quantity::Amount("MiB"), 1.0);
    Ok(())
}

/// The operations, known in both processes.
struct MemoryOperations {
    /// From the number of tokens to the number of those that were merged.
    count: OperationRef<u64, u64>,
    /// The memory at the source and at the merge; `true` resets the peaks first.
    memory_at_source: OperationRef<bool, ProcessMemory>,
    memory_at_merge: OperationRef<bool, ProcessMemory>,
}

fn describe() -> (Program, MemoryOperations) {
    let mut program = Program::new("bounded");
    let source = program.thread("Source", || ());
    let middle = program.thread("Middle", || ());
    let sink = program.thread("Sink", || ());
    let rounds = Speed::measure().rounds(MERGE);
    let count = program.operation("count", |chain| {
        chain
            .on(source)
            .split_while(|remaining: &mut u64| {
                *remaining = remaining.checked_sub(1)?;
                let mut bytes = BulkBuffer::new(TOKEN_BYTES);
                bytes.fill(remaining.to_le_bytes()[0]);
                Some(TokenBlock { number: *remaining, bytes: bytes.freeze() })
            })
            .on(middle)
            .run(|(), block: TokenBlock| block)
            .merge(
                sink,
                |_| 0,
                move |merged: &mut u64, block| {
                    assert_eq!(block.bytes[TOKEN_BYTES - 1], block.number.to_le_bytes()[0]);
                    busy(rounds);
                    *merged += 1;
                },
            )
    });
    let memory_at_source =
        program.operation("memory at source", |chain| chain.on(source).run(|(), anew| look(anew)));
    let memory_at_merge =
        program.operation("memory at merge", |chain| chain.on(sink).run(|(), anew| look(anew)));
    (program, MemoryOperations { count, memory_at_source, memory_at_merge })
}

/// Reads the memory of this process; resets its peak first if asked.
fn look(anew: bool) -> ProcessMemory {
    if anew {
        forget_peak().expect("the kernel lets a process forget its peak");
    }
    ProcessMemory::now().expect("the kernel tells the memory of a process")
}

/// Runs the measured process: reports the idle memory and the peak, at the source and at the merge,
/// and the time.
fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [tokens, processes] = words else {
        bail!("needs a number of tokens and one of processes");
    };
    let tokens: u64 = tokens.parse()?;
    let (program, operations) = describe();
    let placement = if processes == "2" { Some(placement()?) } else { None };
    let run = program.launch(placement)?;
    // A first token, so that everything is allocated that is needed once.
    run.call(operations.count, 1)?;
    let places = [operations.memory_at_source, operations.memory_at_merge];
    let idle = [run.call(places[0], true)?, run.call(places[1], true)?];
    let start = Instant::now();
    let merged = run.call(operations.count, tokens)?;
    let elapsed = start.elapsed();
    ensure!(merged == tokens, "{merged} of {tokens} tokens were merged");
    for (place, idle) in places.into_iter().zip(idle) {
        parent.send_line(idle.resident_kib.to_string())?;
        parent.send_line(run.call(place, false)?.peak_kib.to_string())?;
    }
    // The last line ends this process, so the other process ends before.
    drop(run);
    parent.send_line(elapsed.as_secs_f64().to_string())
}

/// Runs the process with the merge.
fn serve_far(_words: &[String]) -> Result<()> {
    // It does not return in this process.
    describe().0.launch(Some(placement()?))?;
    Ok(())
}

fn placement() -> Result<Placement> {
    Ok(Placement::parse(PLACEMENT, "two processes")?)
}
