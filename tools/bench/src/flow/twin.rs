//! A program of ours in one process or two: the client in this one, workers in both.
//!
//! The second process is this program in another role, which the first one starts as the placement
//! says. It describes the same program and ends with the first one.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pario_flow::placement::Placement;
use pario_flow::{OperationRef, Program, RunningProgram, Window};

use super::farm::{FarmRun, add_farm, sum_of};
use super::hops::{count, next};
use crate::partner::PartnerRole;

/// The second process.
pub const ROLE: PartnerRole = PartnerRole { name: "twin", run: serve };

/// The placement of threads with two processes.
const PLACEMENT: &str = r#"
[processes]
near = "user"
far = { arguments = ["--partner", "twin"] }

[threads]
Client = "near"
There = "far"
"Worker[0]" = "near"
"Worker[1]" = "far"
"#;

/// The operations, known in both processes.
struct TwinOperations {
    echo: OperationRef<u64, u64>,
    farm: OperationRef<FarmRun, u64>,
}

/// Describes the program.
fn describe() -> (Program, TwinOperations) {
    let mut program = Program::new("twin");
    let client = program.thread("Client", || ());
    let there = program.thread("There", || ());
    let echo = program.operation("there and back", |chain| {
        chain
            .on(client)
            .window(Window::fixed(1))
            .split_while(next)
            .on(there)
            .run(|(), token: u64| token)
            .merge(client, |_| 0, count)
    });
    let farm = add_farm(&mut program, client);
    (program, TwinOperations { echo, farm })
}

fn placement() -> Result<Placement> {
    Ok(Placement::parse(PLACEMENT, "two processes")?)
}

/// Runs the second process: its threads run until the first process ends.
fn serve(_words: &[String]) -> Result<()> {
    let (program, _) = describe();
    // It does not return in this process.
    program.launch(Some(placement()?))?;
    Ok(())
}

/// The running program.
pub struct Twin {
    run: RunningProgram,
    operations: TwinOperations,
}

impl Twin {
    /// Starts the program in one or two processes.
    pub fn start(processes: usize) -> Result<Self> {
        let (program, operations) = describe();
        let placement = if processes == 2 { Some(placement()?) } else { None };
        Ok(Self { run: program.launch(placement)?, operations })
    }

    /// The time of some tokens to the other process and back, one at a time.
    pub fn echo(&mut self, tokens: u64) -> Result<Duration> {
        let start = Instant::now();
        let merged = self.run.call(self.operations.echo, tokens)?;
        let elapsed = start.elapsed();
        ensure!(merged == tokens, "{merged} of {tokens} tokens came back");
        Ok(elapsed)
    }

    /// The time that the tasks take.
    pub fn farm(&mut self, rounds: u64, tasks: u64) -> Result<Duration> {
        let start = Instant::now();
        let sum = self.run.call(self.operations.farm, FarmRun { tasks, rounds })?;
        let elapsed = start.elapsed();
        ensure!(sum == sum_of(tasks), "a task was lost");
        Ok(elapsed)
    }
}
