//! The figures of one grid on one file system.
//!
//! In each turn every side writes a new file and reads it. Each side takes one trial turn first;
//! one that is far behind the best in every phase takes no further turns. The files of the others
//! are compared once, before; of what all sides read, the beginning and end of each column are
//! compared.

use anyhow::{Context, Result};

use super::grid_turn::{GridPhase, MpiCalls};
use super::pattern::{Grid, Points};
use super::sides::{GridSide, PhaseSeconds};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::statistics::median;
use crate::turns::{self, Comparison};

/// A side that takes this many times as long as the best, in every phase, is not measured further.
const FAR_BEHIND: f64 = 2.5;

/// A goal above the bound that the same run measures becomes this part of it.
const OF_BOUND: f64 = 0.9;

/// The ratios to reach.
#[derive(Clone, Copy, Debug, Default)]
pub struct GridGoals {
    /// For writing.
    pub write: Option<f64>,
    /// For reading.
    pub read: Option<f64>,
    /// For all phases together.
    pub total: Option<f64>,
}

/// The figures of one grid.
#[derive(Debug)]
pub struct GridContest {
    /// The beginning of the names of its figures.
    pub label: String,
    /// The grid.
    pub points: Points,
    /// The kinds of MPI calls that take part.
    pub hows: &'static [MpiCalls],
    /// The figures to report.
    pub parts: &'static [GridFigure],
    /// Their goals.
    pub goals: GridGoals,
}

/// A figure of a grid.
#[derive(Clone, Copy, Debug)]
pub enum GridFigure {
    /// All columns written.
    Write,
    /// All columns read.
    Read,
    /// Everything.
    Total,
}

impl GridFigure {
    /// All.
    pub const ALL: [Self; 3] = [Self::Write, Self::Read, Self::Total];

    fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Total => "total",
        }
    }

    fn seconds(self, phases: &PhaseSeconds) -> f64 {
        match self {
            Self::Write => phases[GridPhase::Write as usize],
            Self::Read => phases[GridPhase::Read as usize],
            Self::Total => phases.iter().sum(),
        }
    }

    fn of_turns(self, turns: &[PhaseSeconds]) -> Vec<f64> {
        turns.iter().map(|phases| self.seconds(phases)).collect()
    }
}

/// A side that takes turns with one kind of calls.
struct GridRunner<'a> {
    side: &'a mut GridSide,
    hows: Vec<MpiCalls>,
    /// The turns of each kind of calls.
    turns: Vec<Vec<PhaseSeconds>>,
}

impl GridContest {
    /// Measures the figures and reports them.
    pub fn run(
        &self,
        setting: &RunSettings,
        report: &mut Report,
        side: &mut GridSide,
        mut bound: Option<&mut GridSide>,
        others: &mut [GridSide],
    ) -> Result<()> {
        let points = self.points;
        side.check(points, MpiCalls::Independent)?;
        side.turn(points, MpiCalls::Independent)?;
        let mut runners = self.choose(others)?;
        let turns = setting.choose(19, 15);
        let (mut ours, mut bounds): (Vec<PhaseSeconds>, Vec<PhaseSeconds>) = Default::default();
        // The first turns do not count.
        for turn in 0..=turns {
            let seconds = side.turn(points, MpiCalls::Independent)?;
            ours.extend((turn > 0).then_some(seconds));
            if let Some(bound) = &mut bound {
                let seconds = bound.turn(points, MpiCalls::Independent)?;
                bounds.extend((turn > 0).then_some(seconds));
            }
            for runner in &mut runners {
                runner.take_turn(points, turn > 0)?;
            }
        }
        assert!(ours.len() >= turns::FEWEST_TURNS, "too few turns");
        self.print_medians("ours", &ours);
        if !bounds.is_empty() {
            self.print_medians("bound", &bounds);
        }
        let mut theirs: Vec<(String, Vec<PhaseSeconds>)> = Vec::new();
        for runner in runners {
            for (how, turns) in runner.hows.iter().zip(runner.turns) {
                self.print_medians(&runner.side.name(*how), &turns);
                theirs.push((runner.side.name(*how), turns));
            }
        }
        for part in self.parts {
            let goal = self.goals.of_part(*part);
            let figure = format!("{}-{}", self.label, part.name());
            let by_median = |turns: &[PhaseSeconds]| median(&part.of_turns(turns));
            let best = theirs
                .iter()
                .min_by(|one, other| by_median(&one.1).total_cmp(&by_median(&other.1)));
            let (name, turns) = best.context("a peer")?;
            eprintln!("  {figure}: compared with {name}");
            let quantity = Quantity::Megabytes(Grid::new(points).file_bytes() as f64);
            let compared = |turns_of: &[PhaseSeconds]| {
                Comparison::new(&part.of_turns(turns_of), &part.of_turns(turns))
            };
            let mut goal = goal;
            if matches!(part, GridFigure::Total) && !bounds.is_empty() {
                let bound = compared(&bounds);
                report.measured(&format!("{}-bound", self.label), bound, quantity, None);
                goal = goal.map(|goal| goal.min(OF_BOUND * bound.ratio));
            }
            report.measured(&figure, compared(&ours), quantity, goal);
        }
        Ok(())
    }

    /// Prints the medians of all phases to standard error.
    fn print_medians(&self, name: &str, turns: &[PhaseSeconds]) {
        let of_phase = |phase: GridPhase| {
            let seconds: Vec<f64> = turns.iter().map(|turn| turn[phase as usize]).collect();
            format!("{} {:.2}", phase.name(), median(&seconds) * 1e3)
        };
        let phases: Vec<_> = GridPhase::ALL.into_iter().map(of_phase).collect();
        let total = median(&GridFigure::Total.of_turns(turns)) * 1e3;
        eprintln!("  {}: {name}: {}, total {total:.2} ms", self.label, phases.join(", "));
    }

    /// Chooses the sides that take turns: those that are correct, and near the best in some phase.
    fn choose<'a>(&self, rivals: &'a mut [GridSide]) -> Result<Vec<GridRunner<'a>>> {
        let mut trials: Vec<(usize, MpiCalls, PhaseSeconds)> = Vec::new();
        for (number, side) in rivals.iter_mut().enumerate() {
            for how in side.hows().iter().filter(|how| self.hows.contains(how)) {
                trials.push((number, *how, side.turn(self.points, *how)?));
            }
        }
        let is_near = |seconds: &PhaseSeconds| {
            self.parts.iter().any(|part| {
                let all = trials.iter().map(|trial| part.seconds(&trial.2));
                part.seconds(seconds) <= all.fold(f64::INFINITY, f64::min) * FAR_BEHIND
            })
        };
        let mut runners = Vec::new();
        for (number, side) in rivals.iter_mut().enumerate() {
            let of_side = trials.iter().copied().filter(|trial| trial.0 == number);
            let (near, far): (Vec<_>, Vec<_>) = of_side.partition(|trial| is_near(&trial.2));
            for (_, how, seconds) in far {
                let total = GridFigure::Total.seconds(&seconds) * 1e3;
                let name = side.name(how);
                eprintln!("  {}: {name} took {total:.1} ms on trial: far behind", self.label);
            }
            let hows: Vec<MpiCalls> = near.into_iter().map(|trial| trial.1).collect();
            hows.iter().try_for_each(|how| side.check(self.points, *how))?;
            let turns = vec![Vec::new(); hows.len()];
            runners.push(GridRunner { side, hows, turns });
        }
        Ok(runners)
    }
}

impl GridRunner<'_> {
    fn take_turn(&mut self, points: Points, counts: bool) -> Result<()> {
        for (how, turns) in self.hows.iter().zip(&mut self.turns) {
            let seconds = self.side.turn(points, *how)?;
            turns.extend(counts.then_some(seconds));
        }
        Ok(())
    }
}

impl GridGoals {
    fn of_part(&self, part: GridFigure) -> Option<f64> {
        match part {
            GridFigure::Write => self.write,
            GridFigure::Read => self.read,
            GridFigure::Total => self.total,
        }
    }
}
