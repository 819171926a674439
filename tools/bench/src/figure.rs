//! A figure and the line that prints it.

use std::fmt;

use crate::turns::Comparison;

/// The amount of work in a turn, which determines the unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// Bytes per turn, printed in millions per second.
    Megabytes(f64),
    /// Bytes per turn, printed in thousands of millions per second.
    Gigabytes(f64),
    /// Operations per turn, printed in microseconds for each.
    Operations(f64),
    /// Operations per turn, printed in nanoseconds for each.
    ShortOperations(f64),
    /// Tokens per turn, printed in thousands per second.
    Tokens(f64),
    /// Events per turn, printed per second.
    Events(f64),
    /// Voxels per turn, printed in millions per second.
    Voxels(f64),
    /// A quantity other than time, printed as it is in this unit.
    Amount(&'static str),
}

impl Quantity {
    /// The number to print for a turn of `seconds`.
    fn shown(self, seconds: f64) -> f64 {
        match self {
            Self::Megabytes(bytes) => bytes / seconds / 1e6,
            Self::Gigabytes(bytes) => bytes / seconds / 1e9,
            Self::Operations(count) => seconds / count * 1e6,
            Self::ShortOperations(count) => seconds / count * 1e9,
            Self::Tokens(count) => count / seconds / 1e3,
            Self::Events(count) => count / seconds,
            Self::Voxels(count) => count / seconds / 1e6,
            Self::Amount(_) => seconds,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Megabytes(_) => "MB/s",
            Self::Gigabytes(_) => "GB/s",
            Self::Operations(_) => "us",
            Self::ShortOperations(_) => "ns",
            Self::Tokens(_) => "k/s",
            Self::Events(_) => "1/s",
            Self::Voxels(_) => "Mvoxel/s",
            Self::Amount(unit) => unit,
        }
    }
}

/// One figure; its `Display` is its line.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Area and name.
    pub name: String,
    /// The result.
    pub outcome: FigureOutcome,
}

/// The result of a figure.
#[derive(Clone, Debug, PartialEq)]
pub enum FigureOutcome {
    /// It was measured.
    Measured {
        /// The comparison of the two sides.
        comparison: Comparison,
        /// The amount of work in a turn.
        quantity: Quantity,
        /// The ratio to reach, if the figure has a goal.
        goal: Option<f64>,
    },
    /// It cannot be measured on this machine.
    Skipped {
        /// The reason.
        reason: String,
    },
}

/// The numbers of a figure, as its line prints them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FigureNumbers {
    /// Our number, in the unit.
    pub ours: f64,
    /// The peer's number, in the unit.
    pub theirs: f64,
    /// Larger is better.
    pub ratio: f64,
}

impl Figure {
    /// The numbers, if the figure was measured.
    pub fn shown(&self) -> Option<FigureNumbers> {
        match &self.outcome {
            FigureOutcome::Measured { comparison, quantity, .. } => Some(FigureNumbers {
                ours: quantity.shown(comparison.ours_s),
                theirs: quantity.shown(comparison.theirs_s),
                ratio: comparison.ratio,
            }),
            FigureOutcome::Skipped { .. } => None,
        }
    }

    /// Whether the figure was measured and, as printed, misses its goal.
    pub fn is_short(&self) -> bool {
        match &self.outcome {
            FigureOutcome::Measured { comparison, goal: Some(goal), .. } => {
                (comparison.ratio * 1000.0).round() < (goal * 1000.0).round()
            }
            FigureOutcome::Measured { goal: None, .. } | FigureOutcome::Skipped { .. } => false,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.outcome {
            FigureOutcome::Measured { comparison, quantity, goal } => {
                let Comparison { ours_s, theirs_s, ratio, spread } = *comparison;
                let (ours, theirs) = (quantity.shown(ours_s), quantity.shown(theirs_s));
                write!(
                    f,
                    "figure {name} ours={} theirs={} unit={} ratio={ratio:.3} spread={spread:.2} ",
                    ThreeDigits(ours),
                    ThreeDigits(theirs),
                    quantity.unit(),
                )?;
                let verdict = if self.is_short() { "short" } else { "ok" };
                match goal {
                    Some(goal) => write!(f, "goal={} {verdict}", GoalNumber(*goal)),
                    None => write!(f, "goal=none"),
                }
            }
            FigureOutcome::Skipped { reason } => write!(f, "figure {name} skipped reason={reason}"),
        }
    }
}

/// A number with three digits, or with all digits before the point.
struct ThreeDigits(f64);

impl fmt::Display for ThreeDigits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = match self.0.abs() {
            value if value >= 99.95 => 0,
            value if value >= 9.995 => 1,
            value if value >= 0.9995 => 2,
            _ => 3,
        };
        write!(f, "{:.decimals$}", self.0)
    }
}

/// A goal with two decimals, or three if it has them.
struct GoalNumber(f64);

impl fmt::Display for GoalNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = (self.0 * 1000.0).round();
        let decimals = if thousandths % 10.0 == 0.0 { 2 } else { 3 };
        write!(f, "{:.decimals$}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(ratio: f64, goal: impl Into<Option<f64>>, quantity: Quantity) -> Figure {
        let goal = goal.into();
        let comparison = Comparison { ours_s: 0.1, theirs_s: 0.1 * ratio, ratio, spread: 0.0412 };
        Figure {
            name: "store/random-read".into(),
            outcome: FigureOutcome::Measured { comparison, quantity, goal },
        }
    }

    #[test]
    fn a_line_has_the_form_of_the_design() {
        let figure = measured(0.965, 0.95, Quantity::Megabytes(261e6));
        assert_eq!(
            figure.to_string(),
            "figure store/random-read ours=2610 theirs=2705 unit=MB/s ratio=0.965 spread=0.04 \
             goal=0.95 ok"
        );
        let figure = measured(0.523, 0.6, Quantity::Gigabytes(0.91e9));
        assert_eq!(
            figure.to_string(),
            "figure store/random-read ours=9.10 theirs=17.4 unit=GB/s ratio=0.523 spread=0.04 \
             goal=0.60 short"
        );
    }

    #[test]
    fn times_are_shown_as_times() {
        let figure = measured(0.7, 0.667, Quantity::Operations(5000.0));
        assert_eq!(
            figure.to_string(),
            "figure store/random-read ours=20.0 theirs=14.0 unit=us ratio=0.700 spread=0.04 \
             goal=0.667 ok"
        );
    }

    #[test]
    fn short_times_tokens_and_amounts_have_units_of_their_own() {
        let line = |quantity| measured(0.5, None, quantity).to_string();
        let ours =
            |quantity| line(quantity).split(' ').skip(2).take(3).collect::<Vec<_>>().join(" ");
        assert_eq!(ours(Quantity::ShortOperations(1e6)), "ours=100 theirs=50.0 unit=ns");
        assert_eq!(ours(Quantity::Tokens(1e6)), "ours=10000 theirs=20000 unit=k/s");
        assert_eq!(ours(Quantity::Events(100.0)), "ours=1000 theirs=2000 unit=1/s");
        assert_eq!(ours(Quantity::Voxels(1e6)), "ours=10.0 theirs=20.0 unit=Mvoxel/s");
        assert_eq!(ours(Quantity::Amount("MiB")), "ours=0.100 theirs=0.050 unit=MiB");
    }

    #[test]
    fn without_a_goal_there_is_no_verdict() {
        let figure = measured(0.01, None, Quantity::Operations(5000.0));
        assert!(!figure.is_short());
        assert!(figure.to_string().ends_with(" ratio=0.010 spread=0.04 goal=none"));
    }

    #[test]
    fn the_verdict_fits_to_the_line() {
        let at = |ratio| measured(ratio, 0.95, Quantity::Megabytes(1.0)).is_short();
        assert!(at(0.9494));
        assert!(!at(0.9496), "it is shown as 0.950");
        assert!(!at(1.2));
    }

    #[test]
    fn a_skipped_figure_says_why() {
        let figure = Figure {
            name: "store/random-read".into(),
            outcome: FigureOutcome::Skipped { reason: "no io_uring here".into() },
        };
        assert_eq!(figure.to_string(), "figure store/random-read skipped reason=no io_uring here");
        assert!(!figure.is_short());
    }

    #[test]
    fn numbers_keep_three_digits() {
        let shown: Vec<_> = [2610.4, 99.96, 17.44, 9.999, 9.1, 0.99999, 0.0123]
            .map(|value| ThreeDigits(value).to_string())
            .into();
        assert_eq!(shown, ["2610", "100", "17.4", "10.0", "9.10", "1.00", "0.012"]);
    }
}
