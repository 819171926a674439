//! Runs seeds: `cargo run --release -p pario-sim -- --seeds 100000`.
#![forbid(unsafe_code)]

use anyhow::Result;
use clap::{Parser, ValueEnum};
use pario_sim::{CoordinationKind, FileRun, OpenersRun, TeamRun, run, run_openers, run_team};

/// Runs the coordination of shared files, atomic access by unrelated processes, and the protocols of
/// a team on several machines under seeded schedulers, and compares the results with models.
///
/// Example: pario-sim --seeds 100000 --first 7
#[derive(Parser)]
struct Arguments {
    /// The number of seeds.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Run only this seed; can be given several times.
    #[arg(long, conflicts_with_all = ["seeds", "first"])]
    seed: Vec<u64>,
    /// Run only one of the simulators.
    #[arg(long)]
    only: Option<Simulator>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Simulator {
    /// The coordination of shared files.
    Files,
    /// Atomic access by unrelated processes.
    Openers,
    /// The protocols of a team on several machines.
    Team,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let many = arguments.first..arguments.first.saturating_add(arguments.seeds);
    let seeds: Box<dyn Iterator<Item = u64>> = if arguments.seed.is_empty() {
        Box::new(many)
    } else {
        Box::new(arguments.seed.into_iter())
    };
    let is_wanted = |simulator| arguments.only.is_none_or(|only| only == simulator);
    let (mut files, mut team, mut count) = (FileRun::default(), TeamRun::default(), 0_u64);
    let mut openers = OpenersRun::default();
    for seed in seeds {
        if is_wanted(Simulator::Files) {
            for place in [CoordinationKind::Node, CoordinationKind::Table] {
                files += run(seed, place)?;
            }
        }
        if is_wanted(Simulator::Openers) {
            openers += run_openers(seed)?;
        }
        if is_wanted(Simulator::Team) {
            team += run_team(seed)?;
        }
        count += 1;
    }
    if is_wanted(Simulator::Files) {
        println!("files, each by messages and in shared memory: {files}");
    }
    if is_wanted(Simulator::Openers) {
        println!("atomic access by unrelated processes: {openers}");
    }
    if is_wanted(Simulator::Team) {
        println!("teams on several machines: {team}");
    }
    println!("{count} seeds, {} steps", files.steps + openers.steps + team.steps);
    Ok(())
}
