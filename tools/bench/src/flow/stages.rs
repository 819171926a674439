//! Our side of the pipeline: five stages that wait, each on its own thread, between a split and a
//! merge on a sixth thread, all in one process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pario_flow::{OperationRef, Program, RunningProgram, ThreadRef, Window};

use super::tokens_under_way::TokensUnderWay;
use super::waits::wait;

/// The durations of the stages: those of the thesis at a tenth.
pub const STAGES: [Duration; 5] = [
    Duration::from_millis(5),
    Duration::from_millis(16),
    Duration::from_millis(20),
    Duration::from_millis(10),
    Duration::from_millis(15),
];

/// A program with one copy of the pipeline for each window.
pub struct Pipelines {
    run: RunningProgram,
    /// From the number of tokens to enter to the number that has left.
    operations: Vec<OperationRef<u64, u64>>,
    under_way: Arc<TokensUnderWay>,
}

/// The measurements of one run.
#[derive(Clone, Copy, Debug)]
pub struct PipelineRun {
    /// The time of the run.
    pub elapsed: Duration,
    /// The most tokens that were split off and not yet merged.
    pub most_under_way: u64,
}

impl Pipelines {
    /// Starts the threads.
    pub fn start(windows: &[Window]) -> Result<Self> {
        let mut program = Program::new("pipelines");
        let client = program.thread("Client", || ());
        let stages = [1, 2, 3, 4, 5].map(|number| program.thread(&format!("Stage{number}"), || ()));
        let under_way = Arc::new(TokensUnderWay::default());
        let operations = windows
            .iter()
            .map(|window| add_pipeline(&mut program, client, stages, *window, &under_way));
        let operations = operations.collect();
        Ok(Self { run: program.launch(None)?, operations, under_way })
    }

    /// Sends tokens through the pipeline with the window of this index.
    pub fn run(&self, window: usize, tokens: u64) -> Result<PipelineRun> {
        self.under_way.reset();
        let start = Instant::now();
        let merged = self.run.call(self.operations[window], tokens)?;
        let elapsed = start.elapsed();
        ensure!(merged == tokens, "{merged} of {tokens} tokens came out of the pipeline");
        Ok(PipelineRun { elapsed, most_under_way: self.under_way.most() })
    }
}

fn add_pipeline(
    program: &mut Program,
    client: ThreadRef<()>,
    stages: [ThreadRef<()>; 5],
    window: Window,
    under_way: &Arc<TokensUnderWay>,
) -> OperationRef<u64, u64> {
    let (entering, leaving) = (Arc::clone(under_way), Arc::clone(under_way));
    let [first, second, third, fourth, fifth] = stages;
    program.operation(&format!("pipeline with window {window}"), |chain| {
        chain
            .on(client)
            .window(window)
            .split_while(move |remaining: &mut u64| {
                *remaining = remaining.checked_sub(1)?;
                entering.enter();
                Some(*remaining)
            })
            .on(first)
            .run(|(), token: u64| stage::<0>(token))
            .on(second)
            .run(|(), token: u64| stage::<1>(token))
            .on(third)
            .run(|(), token: u64| stage::<2>(token))
            .on(fourth)
            .run(|(), token: u64| stage::<3>(token))
            .on(fifth)
            .run(|(), token: u64| stage::<4>(token))
            .merge(
                client,
                |_| 0,
                move |merged: &mut u64, _| {
                    leaving.leave();
                    *merged += 1;
                },
            )
    })
}

/// One of the stages.
fn stage<const INDEX: usize>(token: u64) -> u64 {
    wait(STAGES[INDEX]);
    token
}
