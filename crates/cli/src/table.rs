//! Text tables with aligned columns.

use std::io::{self, Write};

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnAlignment {
    /// For names and sentences.
    Left,
    /// For figures.
    Right,
}

/// Rows of cells under column heads.
#[derive(Clone, Debug)]
pub struct TextTable<const COLUMNS: usize> {
    columns: [(String, ColumnAlignment); COLUMNS],
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> TextTable<COLUMNS> {
    /// Creates an empty table. If no column has a head, the line of heads is left out.
    pub fn new(columns: [(&str, ColumnAlignment); COLUMNS]) -> Self {
        Self { columns: columns.map(|(head, side)| (head.to_owned(), side)), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, row: [String; COLUMNS]) {
        self.rows.push(row);
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the lines, without trailing spaces.
    pub fn lines(&self) -> Vec<String> {
        let heads: [String; COLUMNS] = std::array::from_fn(|column| self.columns[column].0.clone());
        let has_heads = heads.iter().any(|head| !head.is_empty());
        let lines = || has_heads.then_some(&heads).into_iter().chain(&self.rows);
        let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
            let cells = lines().map(|line| line[column].chars().count());
            cells.max().unwrap_or(0)
        });
        lines()
            .map(|line| {
                let mut text = String::new();
                for ((cell, width), (_, side)) in line.iter().zip(widths).zip(&self.columns) {
                    if !text.is_empty() {
                        text.push_str("  ");
                    }
                    text += &match side {
                        ColumnAlignment::Left => format!("{cell:<width$}"),
                        ColumnAlignment::Right => format!("{cell:>width$}"),
                    };
                }
                text.truncate(text.trim_end().len());
                text
            })
            .collect()
    }

    /// Prints the table.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.lines().iter().try_for_each(|line| writeln!(out, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = TextTable::new([
            ("phase", ColumnAlignment::Left),
            ("no.", ColumnAlignment::Right),
            ("", ColumnAlignment::Left),
        ]);
        assert!(table.is_empty());
        table.push(["fill".into(), "7".into(), String::new()]);
        table.push(["a longer one".into(), "1,234".into(), "fine".into()]);
        let expected = ["phase           no.", "fill              7", "a longer one  1,234  fine"];
        assert_eq!(table.lines(), expected);
    }

    #[test]
    fn a_table_can_have_no_heads() {
        let mut table = TextTable::new([("", ColumnAlignment::Left), ("", ColumnAlignment::Right)]);
        table.push(["a".into(), "10".into()]);
        table.push(["b".into(), "9".into()]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a  10\nb   9\n");
    }
}
