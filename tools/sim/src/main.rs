//! Runs seeds: `cargo run --release -p pario-sim -- --seeds 100000`.
#![forbid(unsafe_code)]

use anyhow::Result;
use clap::Parser;
use pario_sim::{Run, Where, run};

/// Runs the coordination of shared files under a seeded scheduler, and compares each step with a
/// model.
///
/// Example: pario-sim --seeds 100000 --first 7
#[derive(Parser)]
struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first one.
    #[arg(long, default_value_t = 0)]
    first: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut all = Run::default();
    for seed in arguments.first..arguments.first.saturating_add(arguments.seeds) {
        for place in [Where::Node, Where::Table] {
            let one = run(seed, place)?;
            all.steps += one.steps;
            all.answers += one.answers;
            all.failures += one.failures;
            all.lost += one.lost;
        }
    }
    println!(
        "{} runs, {} steps: {} calls answered, {} of them with a failure that had to be; {} ranks \
         lost",
        arguments.seeds, all.steps, all.answers, all.failures, all.lost
    );
    Ok(())
}
