//! Tables 6.1 to 6.5 of the report on DONIO: the phases of the program in its appendix, for three
//! grids and 4 to 128 processes.
//!
//! Our side is a cached file of a cluster, as DONIO is; the other side is what the report calls NX:
//! `lseek` and `cread` or `cwrite` for each column, in M_ASYNC, on a file of the same cluster, made
//! durable by its close. The node runs on this machine.

use std::path::PathBuf;

use anyhow::Result;

use super::grid::grid_turn::{GridPhase, MpiCalls};
use super::grid::member::{CACHED, NX};
use super::grid::pattern::{Grid, Points};
use super::grid::sides::{GridSide, PhaseSeconds};
use super::grid::site::GridSite;
use crate::area::RunSettings;
use crate::cluster::node::NodeProcess;
use crate::figure::Quantity;
use crate::report::Report;
use crate::statistics::median;
use crate::turns::{Comparison, FEWEST_TURNS};

/// The names of the phases in the report.
const PHASES: [&str; GridPhase::ALL.len()] =
    ["wopen", "write", "wclose", "ropen", "read", "rclose"];

/// A grid of the report, and its tables.
struct ReportGrid {
    points: Points,
    processes: &'static [usize],
    /// The table of DONIO.
    donio: &'static str,
    /// The table of NX, if the report has one.
    nx: Option<&'static str>,
}

const GRIDS: [ReportGrid; 3] = [
    ReportGrid {
        points: [41, 41, 31],
        processes: &[4, 8, 16, 32, 64],
        donio: "6.1",
        nx: Some("6.2"),
    },
    ReportGrid {
        points: [81, 81, 61],
        processes: &[4, 8, 16, 32, 64],
        donio: "6.3",
        nx: Some("6.4"),
    },
    ReportGrid { points: [121, 121, 91], processes: &[8, 16, 32, 64, 128], donio: "6.5", nx: None },
];

/// Measures `donio-…`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let node = NodeProcess::start(&setting.subdir("donio-node")?)?;
    for grid in setting.choose(&GRIDS[..], &GRIDS[..1]) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for processes in setting.choose(grid.processes, &grid.processes[..2]) {
            let (one, other) = grid.measure(setting, report, &node, *processes)?;
            ours.push((*processes, one));
            theirs.push((*processes, other));
        }
        report.table(grid.table(grid.donio, "DONIO", &ours));
        if let Some(number) = grid.nx {
            report.table(grid.table(number, "NX", &theirs));
        }
    }
    Ok(())
}

impl ReportGrid {
    /// Measures one number of processes; returns the medians of the phases of both sides.
    fn measure(
        &self,
        setting: &RunSettings,
        report: &mut Report,
        node: &NodeProcess,
        processes: usize,
    ) -> Result<(PhaseSeconds, PhaseSeconds)> {
        let label = format!("donio-{}-{processes}", self.points[0]);
        let sockets = setting.subdir(&label)?;
        let site = GridSite::Cluster(node.connect()?);
        let address = PathBuf::from(node.unix_address()?);
        let side = |kind| GridSide::of_kind(kind, &site, &sockets, &address, processes);
        let mut sides = [side(CACHED)?, side(NX)?];
        let mut turns: [Vec<PhaseSeconds>; 2] = Default::default();
        for side in &mut sides {
            side.check(self.points, MpiCalls::Independent)?;
        }
        // The first turns do not count.
        for turn in 0..=FEWEST_TURNS {
            for (side, turns) in sides.iter_mut().zip(&mut turns) {
                let seconds = side.turn(self.points, MpiCalls::Independent)?;
                turns.extend((turn > 0).then_some(seconds));
            }
        }
        let totals = |turns: &[PhaseSeconds]| -> Vec<f64> {
            turns.iter().map(|phases| phases.iter().sum()).collect()
        };
        let comparison = Comparison::new(&totals(&turns[0]), &totals(&turns[1]));
        let quantity = Quantity::Megabytes(Grid::new(self.points).file_bytes() as f64);
        report.measured(&format!("{label}-total"), comparison, quantity, None);
        let [ours, theirs] = turns.map(|turns| medians(&turns));
        Ok((ours, theirs))
    }

    /// A table in the form of the report, in milliseconds.
    fn table(&self, number: &str, name: &str, rows: &[(usize, PhaseSeconds)]) -> String {
        let [x, y, z] = self.points;
        let bytes = grouped(Grid::new(self.points).file_bytes());
        let heads: String = PHASES.iter().map(|phase| format!("{phase:>10}")).collect();
        let row = |(processes, seconds): &(usize, PhaseSeconds)| {
            let cells: String =
                seconds.iter().map(|seconds| format!("{:>10.2}", seconds * 1e3)).collect();
            format!("\n{processes:<9}{cells}")
        };
        let rows: String = rows.iter().map(row).collect();
        format!(
            "Table {number}: {name} routines on {x} x {y} x {z} grid, file size is {bytes} bytes; \
             milliseconds.\n\nprocessor{heads}{rows}"
        )
    }
}

fn medians(turns: &[PhaseSeconds]) -> PhaseSeconds {
    let mut medians = PhaseSeconds::default();
    for (phase, median_s) in medians.iter_mut().enumerate() {
        let seconds: Vec<f64> = turns.iter().map(|turn| turn[phase]).collect();
        *median_s = median(&seconds);
    }
    medians
}

/// A number with commas.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_form_of_the_report() {
        let rows = [(4, [0.001, 0.0025, 0.01, 0.0, 0.1, 1.0]), (64, PhaseSeconds::default())];
        assert_eq!(
            GRIDS[0].table("6.1", "DONIO", &rows),
            "Table 6.1: DONIO routines on 41 x 41 x 31 grid, file size is 1,536,000 bytes; \
             milliseconds.\n\n\
             processor     wopen     write    wclose     ropen      read    rclose\n\
             4              1.00      2.50     10.00      0.00    100.00   1000.00\n\
             64             0.00      0.00      0.00      0.00      0.00      0.00"
        );
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(41_472_000), "41,472,000");
    }
}
