//! A program of ours in one process or two: the client in this one, workers here and there.
//!
//! The second process is this program in another role; it describes the same program, and the
//! placement tells which threads run in it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pario_flow::{OperationRef, Program, Run, Window};

use super::farm::{Job, add_farm, sum_of};
use super::hops::{count, next};

/// The operations, known in both processes.
struct Operations {
    echo: OperationRef<u64, u64>,
    farm: OperationRef<Job, u64>,
}

/// Describes the program.
fn describe() -> (Program, Operations) {
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
    (program, Operations { echo, farm })
}

/// The program as it runs.
pub struct Twin {
    run: Run,
    operations: Operations,
}

impl Twin {
    /// Starts it in one or two processes.
    pub fn start(processes: usize) -> Result<Self> {
        let (program, operations) = describe();
        let run = program.launch(None)?;
        Ok(Self { run, operations })
    }

    /// The time of so many tokens there and back, one at a time.
    pub fn echo(&mut self, tokens: u64) -> Result<Duration> {
        let start = Instant::now();
        let merged = self.run.call(self.operations.echo, tokens)?;
        let elapsed = start.elapsed();
        ensure!(merged == tokens, "{merged} of {tokens} tokens came back");
        Ok(elapsed)
    }

    /// The time that so many tasks of so many rounds take.
    pub fn farm(&mut self, rounds: u64, tasks: u64) -> Result<Duration> {
        let start = Instant::now();
        let sum = self.run.call(self.operations.farm, Job { tasks, rounds })?;
        let elapsed = start.elapsed();
        ensure!(sum == sum_of(tasks), "a task was lost");
        Ok(elapsed)
    }
}
