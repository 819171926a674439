//! The figures of one grid on one file system.
//!
//! In each turn every side writes a new file and reads it. Each takes one turn on trial first; one
//! that is far behind the best in everything takes no further turns. What the others have written is
//! compared once, before; what all read is compared as far as its beginnings and ends.

use anyhow::{Context, Result};

use super::order::{How, Phase};
use super::pattern::{Grid, Points};
use super::sides::{Seconds, Side};
use crate::area::Setting;
use crate::figure::Quantity;
use crate::report::Report;
use crate::statistics::median;
use crate::turns::{self, Comparison};

/// One that needs so many times as long as the best, in everything, is not measured further.
const FAR_BEHIND: f64 = 2.5;

/// What ratios are to be reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Goals {
    /// In writing.
    pub write: Option<f64>,
    /// In reading.
    pub read: Option<f64>,
    /// In all phases together.
    pub total: Option<f64>,
}

/// What is measured.
#[derive(Debug)]
pub struct Contest {
    /// How the names of its figures begin.
    pub label: String,
    /// The grid.
    pub points: Points,
    /// In which ways the others take part.
    pub hows: &'static [How],
    /// What the figures are about.
    pub parts: &'static [Part],
    /// Their goals.
    pub goals: Goals,
}

/// What a figure is about.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// All columns written.
    Write,
    /// All columns read.
    Read,
    /// Everything.
    Total,
}

impl Part {
    /// All.
    pub const ALL: [Self; 3] = [Self::Write, Self::Read, Self::Total];

    fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Total => "total",
        }
    }

    fn seconds(self, phases: &Seconds) -> f64 {
        match self {
            Self::Write => phases[Phase::Write as usize],
            Self::Read => phases[Phase::Read as usize],
            Self::Total => phases.iter().sum(),
        }
    }

    fn of_turns(self, turns: &[Seconds]) -> Vec<f64> {
        turns.iter().map(|phases| self.seconds(phases)).collect()
    }
}

/// A side that takes turns in one way.
struct Runner<'a> {
    side: &'a mut Side,
    hows: Vec<How>,
    /// The turns of each way.
    turns: Vec<Vec<Seconds>>,
}

impl Contest {
    /// Measures and reports.
    pub fn run(
        &self,
        setting: &Setting,
        report: &mut Report,
        side: &mut Side,
        others: &mut [Side],
    ) -> Result<()> {
        let points = self.points;
        side.check(points, How::Independent)?;
        side.turn(points, How::Independent)?;
        let mut runners = self.choose(others)?;
        let turns = setting.choose(19, 15);
        let mut ours: Vec<Seconds> = Vec::new();
        // The first turns do not count.
        for turn in 0..=turns {
            let seconds = side.turn(points, How::Independent)?;
            ours.extend((turn > 0).then_some(seconds));
            for runner in &mut runners {
                runner.take_turn(points, turn > 0)?;
            }
        }
        assert!(ours.len() >= turns::FEWEST_TURNS, "too few turns");
        self.tell("ours", &ours);
        let mut theirs: Vec<(String, Vec<Seconds>)> = Vec::new();
        for runner in runners {
            for (how, turns) in runner.hows.iter().zip(runner.turns) {
                self.tell(&runner.side.name(*how), &turns);
                theirs.push((runner.side.name(*how), turns));
            }
        }
        for part in self.parts {
            let goal = self.goals.of_part(*part);
            let figure = format!("{}-{}", self.label, part.name());
            let by_median = |turns: &[Seconds]| median(&part.of_turns(turns));
            let best = theirs
                .iter()
                .min_by(|one, other| by_median(&one.1).total_cmp(&by_median(&other.1)));
            let (name, turns) = best.context("a peer")?;
            eprintln!("  {figure}: compared with {name}");
            let comparison = Comparison::new(&part.of_turns(&ours), &part.of_turns(turns));
            let bytes = Grid::new(points).file_bytes() as f64;
            report.measured(&figure, comparison, Quantity::Megabytes(bytes), goal);
        }
        Ok(())
    }

    /// The medians of all phases, for who wants to know.
    fn tell(&self, name: &str, turns: &[Seconds]) {
        let of_phase = |phase: Phase| {
            let seconds: Vec<f64> = turns.iter().map(|turn| turn[phase as usize]).collect();
            format!("{} {:.2}", phase.name(), median(&seconds) * 1e3)
        };
        let phases: Vec<_> = Phase::ALL.into_iter().map(of_phase).collect();
        let total = median(&Part::Total.of_turns(turns)) * 1e3;
        eprintln!("  {}: {name}: {}, total {total:.2} ms", self.label, phases.join(", "));
    }

    /// Those that take turns: who is right, and near the best in something.
    fn choose<'a>(&self, rivals: &'a mut [Side]) -> Result<Vec<Runner<'a>>> {
        let mut trials: Vec<(usize, How, Seconds)> = Vec::new();
        for (number, side) in rivals.iter_mut().enumerate() {
            for how in side.hows().iter().filter(|how| self.hows.contains(how)) {
                trials.push((number, *how, side.turn(self.points, *how)?));
            }
        }
        let is_near = |seconds: &Seconds| {
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
                let total = Part::Total.seconds(&seconds) * 1e3;
                let name = side.name(how);
                eprintln!("  {}: {name} took {total:.1} ms on trial: far behind", self.label);
            }
            let hows: Vec<How> = near.into_iter().map(|trial| trial.1).collect();
            hows.iter().try_for_each(|how| side.check(self.points, *how))?;
            let turns = vec![Vec::new(); hows.len()];
            runners.push(Runner { side, hows, turns });
        }
        Ok(runners)
    }
}

impl Runner<'_> {
    fn take_turn(&mut self, points: Points, counts: bool) -> Result<()> {
        for (how, turns) in self.hows.iter().zip(&mut self.turns) {
            let seconds = self.side.turn(points, *how)?;
            turns.extend(counts.then_some(seconds));
        }
        Ok(())
    }
}

impl Goals {
    fn of_part(&self, part: Part) -> Option<f64> {
        match part {
            Part::Write => self.write,
            Part::Read => self.read,
            Part::Total => self.total,
        }
    }
}
