//! The rivals: the sides that take turns with ours in a figure.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::mode_turn::ModeAccess;
use super::mpi::Mpi;
use super::turn_processes::TurnProcesses;
use crate::statistics::median;

/// The kind of a rival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RivalKind {
    /// The best MPI.
    Mpi,
    /// Plain system calls at the same offsets.
    Plain,
    /// Ours in M_ASYNC.
    Async,
}

impl RivalKind {
    /// The end of the names of figures.
    pub fn suffix(self, access: ModeAccess) -> &'static str {
        match self {
            Self::Mpi => "mpi",
            Self::Plain if access == ModeAccess::Global => "pread",
            Self::Plain => "pwrite",
            Self::Async => "async",
        }
    }
}

/// A rival.
#[derive(Debug)]
pub struct Rival {
    /// Its kind.
    pub kind: RivalKind,
    /// Its name.
    pub name: String,
    /// The directory of its files, if they are not ours.
    pub dir: PathBuf,
    /// Its processes.
    pub team: TurnProcesses,
}

/// All rivals that can run here.
#[derive(Debug, Default)]
pub struct Rivals {
    /// The rivals that take part.
    pub all: Vec<Rival>,
    /// The reasons why some do not.
    pub missing: Vec<String>,
}

impl Rivals {
    /// Adds a rival, or the reason why it is missing.
    pub fn add_mpi(&mut self, name: &str, dir: &Path, started: Result<TurnProcesses, String>) {
        match started {
            Ok(team) => {
                let (name, dir) = (name.to_owned(), dir.to_owned());
                self.all.push(Rival { kind: RivalKind::Mpi, name, dir, team });
            }
            Err(reason) => {
                eprintln!("  {reason}");
                self.missing.push(reason);
            }
        }
    }

    /// Starts those of some MPIs that can run here.
    pub fn start_mpi(&mut self, some: &[Mpi], dir: &Path, processes: usize) -> Result<()> {
        for mpi in some {
            let started = match mpi.build(dir, "modes")? {
                Ok(program) => mpi
                    .gather(&program, mpi.processes(processes), dir)
                    .map_err(|error| format!("{}: {error:#}", mpi.name())),
                Err(reason) => Err(reason),
            };
            self.add_mpi(mpi.name(), dir, started);
        }
        Ok(())
    }
}

/// The fastest of some sides, by their medians.
pub fn fastest<'a>(sides: impl IntoIterator<Item = (usize, &'a [f64])>) -> Option<usize> {
    let medians = sides.into_iter().map(|(side, seconds)| (side, median(seconds)));
    medians.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(side, _)| side)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_has_the_least_median() {
        let sides = [(3, &[1.0, 9.0, 5.0][..]), (1, &[4.0, 4.0, 99.0][..]), (0, &[6.0][..])];
        assert_eq!(fastest(sides), Some(1));
        assert_eq!(fastest([]), None);
    }
}
