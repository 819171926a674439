//! The phases of a turn, and the lines that start them in the processes of a side.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result};

use super::pattern::Points;
use crate::partner::next_word;

/// A phase, which all processes run one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridPhase {
    /// Opens a new file for writing, and announces its length.
    Create,
    /// Each process writes its columns.
    Write,
    /// Makes the file durable, and closes it.
    Close,
    /// Opens the file for reading.
    Open,
    /// Each process reads the columns of the next rank.
    Read,
    /// Closes the file.
    End,
}

impl GridPhase {
    /// All, in order.
    pub const ALL: [Self; 6] =
        [Self::Create, Self::Write, Self::Close, Self::Open, Self::Read, Self::End];

    /// The name of the phase.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Write => "write",
            Self::Close => "close",
            Self::Open => "open",
            Self::Read => "read",
            Self::End => "end",
        }
    }
}

/// The kind of MPI calls; other sides ignore it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiCalls {
    /// A call for each column.
    Independent,
    /// One collective call for all columns.
    Collective,
}

impl MpiCalls {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Independent, Self::Collective];

    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Collective => "collective",
        }
    }
}

/// A phase of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridTurn {
    /// The phase.
    pub phase: GridPhase,
    /// The kind of MPI calls.
    pub how: MpiCalls,
    /// The grid.
    pub points: Points,
    /// The name of the file, in the directory of the side.
    pub name: String,
}

impl fmt::Display for GridTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { phase, how, points: [x, y, z], name } = self;
        write!(f, "{} {} {x} {y} {z} {name}", phase.name(), how.name())
    }
}

impl FromStr for GridTurn {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let words = &mut words;
        let (phase, how): (String, String) = (next_word(words)?, next_word(words)?);
        let phase = GridPhase::ALL.into_iter().find(|known| known.name() == phase);
        let how = MpiCalls::ALL.into_iter().find(|known| known.name() == how);
        Ok(Self {
            phase: phase.context("the line names no phase")?,
            how: how.context("it cannot be done so")?,
            points: [next_word(words)?, next_word(words)?, next_word(words)?],
            name: next_word(words)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_told_in_a_line() {
        for phase in GridPhase::ALL {
            let (how, name) = (MpiCalls::Collective, "file".to_owned());
            let order = GridTurn { phase, how, points: [41, 41, 31], name };
            assert_eq!(order.to_string().parse::<GridTurn>().unwrap(), order);
        }
        assert!("sing independent 1 2 3 file".parse::<GridTurn>().is_err());
    }
}
