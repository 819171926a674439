//! The figures of a run, as the program prints them.

use crate::figure::{Figure, FigureNumbers, FigureOutcome, Quantity};
use crate::turns::Comparison;

/// Prints figures and counts them.
#[derive(Debug)]
pub struct Report {
    area: String,
    figures: Vec<Figure>,
    tables: Vec<String>,
}

impl Report {
    /// Creates the report of an area.
    pub fn new(area: &str) -> Self {
        Self { area: area.to_owned(), figures: Vec::new(), tables: Vec::new() }
    }

    /// Prints a measured figure, with the ratio to reach if it has a goal.
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

    /// Prints a figure that cannot be measured on this machine.
    pub fn skipped(&mut self, name: &str, reason: impl Into<String>) {
        let reason = reason.into();
        self.print(name, FigureOutcome::Skipped { reason });
    }

    /// Adds a table, in the form of the report that it is compared with.
    pub fn table(&mut self, table: String) {
        self.tables.push(table);
    }

    /// Prints the closing count, and the tables behind it if they are wanted.
    pub fn close(self, with_tables: bool) {
        let short = self.figures.iter().filter(|figure| figure.is_short()).count();
        println!("figures: {}, short: {short}", self.figures.len());
        for table in self.tables.iter().filter(|_| with_tables) {
            println!("\n{table}");
        }
    }

    /// The numbers of a figure, if it was measured.
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
