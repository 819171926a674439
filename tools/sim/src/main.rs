//! Runs seeds: `cargo run --release -p pario-sim -- --seeds 100000`.
#![forbid(unsafe_code)]

use anyhow::Result;
use clap::Parser;
use pario_sim::{Run, Where, run};

/// Runs the coordination of shared files under a seeded scheduler, and compares each step, each read
/// and the file with a model.
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
    /// Only this one; can be given several times.
    #[arg(long, conflicts_with_all = ["seeds", "first"])]
    seed: Vec<u64>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let many = arguments.first..arguments.first.saturating_add(arguments.seeds);
    let seeds: Box<dyn Iterator<Item = u64>> = if arguments.seed.is_empty() {
        Box::new(many)
    } else {
        Box::new(arguments.seed.into_iter())
    };
    let (mut all, mut count) = (Run::default(), 0_u64);
    for seed in seeds {
        for place in [Where::Node, Where::Table] {
            all += run(seed, place)?;
        }
        count += 1;
    }
    println!("{count} seeds, each at a node and at a table: {all}");
    Ok(())
}
