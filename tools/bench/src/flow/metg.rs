//! METG(50 %), ours against timely dataflow: see [`super::granularity`] for what it is,
//! [`super::timely_graph`] for their graph and [`super::farm`] for ours.
//!
//! A turn is one search. Both sides do the same busy work, and nothing is bound to a core.

use anyhow::Result;

use super::granularity::{Granularity, NeverHalf};
use super::timely_graph::TimelyGraph;
use super::twin::Twin;
use super::work::Speed;
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::alternate;

/// Measures `metg-one-process`.
pub fn run_one(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, "metg-one-process", 1)
}

/// Measures `metg-two-processes`.
pub fn run_two(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, "metg-two-processes", 2)
}

fn run(setting: &RunSettings, report: &mut Report, name: &str, processes: usize) -> Result<()> {
    let turns = setting.choose(31, 15);
    let dir = setting.subdir(name)?;
    let speed = Speed::measure();
    let mut twin = Twin::start(processes)?;
    let mut timely = TimelyGraph::start(processes, &dir)?;
    let mut ours = Granularity::new(speed);
    let mut theirs = Granularity::new(speed);
    let comparison = alternate(
        turns,
        &mut || ours.smallest(|rounds, tasks| twin.farm(rounds, tasks)),
        &mut || theirs.smallest(|rounds, tasks| timely.run(rounds, tasks)),
    );
    match comparison {
        Ok(comparison) => {
            report.measured(name, comparison, Quantity::ShortOperations(1.0), None);
            Ok(())
        }
        Err(error) if error.is::<NeverHalf>() => {
            report.skipped(name, error.to_string());
            Ok(())
        }
        Err(error) => Err(error),
    }
}
