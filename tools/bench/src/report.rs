//! The figures of a run, as they are printed.

use crate::figure::{Figure, FigureNumbers, FigureOutcome, Quantity};
use crate::turns::Comparison;

/// Prints figures and counts them.
#[derive(Debug)]
pub struct Report {
    area: String,
    figures: Vec<Figure>,
}

impl Report {
    /// A report on an area.
    pub fn new(area: &str) -> Self {
        Self { area: area.to_owned(), figures: Vec::new() }
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
        let outcome = FigureOutcome::Measured { comparison, quantity, goal };
        self.print(name, outcome);
    }

    /// Prints a figure that cannot be measured here.
    pub fn skipped(&mut self, name: &str, reason: impl Into<String>) {
        let reason = reason.into();
        self.print(name, FigureOutcome::Skipped { reason });
    }

    /// Prints the closing count.
    pub fn close(self) {
        let short = self.figures.iter().filter(|figure| figure.is_short()).count();
        println!("figures: {}, short: {short}", self.figures.len());
    }

    /// What the line of a figure shows, if it was measured.
    pub fn shown(&self, name: &str) -> Option<FigureNumbers> {
        let name = format!("{}/{name}", self.area);
        self.figures.iter().find(|figure| figure.name == name)?.shown()
    }

    fn print(&mut self, name: &str, outcome: FigureOutcome) {
        let figure = Figure { name: format!("{}/{name}", self.area), outcome };
        println!("{figure}");
        self.figures.push(figure);
    }
}
