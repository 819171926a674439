//! The figures of a run, as they are printed.

use crate::figure::{Figure, Outcome, Quantity};
use crate::turns::Comparison;

/// Prints figures and counts them.
#[derive(Debug)]
pub struct Report {
    area: String,
    figures: usize,
    short: usize,
}

impl Report {
    /// A report on an area.
    pub fn new(area: &str) -> Self {
        Self { area: area.to_owned(), figures: 0, short: 0 }
    }

    /// Prints a figure that was measured, with the ratio to be reached, if there is one.
    pub fn measured(
        &mut self,
        name: &str,
        comparison: Comparison,
        quantity: Quantity,
        goal: impl Into<Option<f64>>,
    ) {
        let goal = goal.into();
        let outcome = Outcome::Measured { comparison, quantity, goal };
        self.print(name, outcome);
    }

    /// Prints a figure that cannot be measured here.
    pub fn skipped(&mut self, name: &str, reason: impl Into<String>) {
        let reason = reason.into();
        self.print(name, Outcome::Skipped { reason });
    }

    /// Prints the closing count.
    pub fn close(self) {
        println!("figures: {}, short: {}", self.figures, self.short);
    }

    fn print(&mut self, name: &str, outcome: Outcome) {
        let figure = Figure { name: format!("{}/{name}", self.area), outcome };
        println!("{figure}");
        self.figures += 1;
        self.short += usize::from(figure.is_short());
    }
}
