//! The sides that write and read the grid, each with its processes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::grid_turn::{GridPhase, GridTurn, MpiCalls};
use super::member::{self, BOUND, OURS, PLAIN};
use super::pattern::Points;
use super::site::GridSite;
use crate::memory::team_member;
use crate::modes::mpi::Mpi;
use crate::modes::turn_processes::{TurnListener, TurnProcesses};
use crate::namespaces::text;

/// The number of processes of our side and of most others.
const PROCESSES: usize = 4;
const FILE: &str = "elements";

/// The seconds of each phase.
pub type PhaseSeconds = [f64; GridPhase::ALL.len()];

/// One side. The MPI jobs take part twice, with independent and with collective calls.
#[derive(Debug)]
pub struct GridSide {
    name: String,
    site: GridSite,
    files: PathBuf,
    team: TurnProcesses,
    hows: &'static [MpiCalls],
}

impl GridSide {
    /// Cached files of ours.
    pub fn ours(site: &GridSite, sockets: &Path, files: &Path) -> Result<Self> {
        Self::of_kind(OURS, site, sockets, files, PROCESSES)
    }

    /// The upper bound: large, consecutive system calls.
    pub fn bound(sockets: &Path, files: &Path) -> Result<Self> {
        Self::of_kind(BOUND, &GridSite::Here, sockets, files, PROCESSES)
    }

    /// All other sides that can run here.
    pub fn others(site: &GridSite, sockets: &Path, files: &Path) -> Result<Vec<Self>> {
        let mut others = vec![Self::of_kind(PLAIN, site, sockets, files, PROCESSES)?];
        for mpi in Mpi::ALL {
            let started = match mpi.build(sockets, "grid")? {
                Ok(program) => Self::of_mpi(mpi, &program, site, sockets, files),
                Err(reason) => Err(anyhow::Error::msg(reason)),
            };
            match started {
                Ok(side) => others.push(side),
                Err(error) => eprintln!("  {}: {error:#}", mpi.name()),
            }
        }
        Ok(others)
    }

    /// Processes of this program, of a kind of members.
    pub fn of_kind(
        kind: &str,
        site: &GridSite,
        sockets: &Path,
        files: &Path,
        processes: usize,
    ) -> Result<Self> {
        let words = [kind, text(files)?];
        let spawn = |command: &mut Command| site.spawn(command);
        let team =
            team_member::start_by(spawn, member::ROLE.name, kind, sockets, processes, &words)?;
        let (name, site, files) = (kind.to_owned(), site.clone(), files.to_owned());
        Ok(Self { name, site, files, team, hows: &[MpiCalls::Independent] })
    }

    fn of_mpi(
        mpi: Mpi,
        program: &Path,
        site: &GridSite,
        sockets: &Path,
        files: &Path,
    ) -> Result<Self> {
        let (listener, processes) =
            (TurnListener::open(sockets, mpi.name())?, mpi.processes(PROCESSES));
        let mut command = Command::new(mpi.launcher());
        command.args(mpi.words(processes)).arg(program).arg(listener.path()?).arg(files);
        let keeper = site.spawn(&mut command)?;
        let team = listener.gather(processes, keeper.into_iter().collect())?;
        let (name, site, files) = (mpi.name().to_owned(), site.clone(), files.to_owned());
        Ok(Self { name, site, files, team, hows: &MpiCalls::ALL })
    }

    /// The kinds of calls with which it takes part.
    pub fn hows(&self) -> &'static [MpiCalls] {
        self.hows
    }

    /// The name of a side with one kind of calls.
    pub fn name(&self, how: MpiCalls) -> String {
        match self.hows {
            [_] => self.name.clone(),
            _ => format!("{}-{}", self.name, how.name()),
        }
    }

    /// Lets the side write, close, open and read a new file, and deletes it.
    pub fn turn(&mut self, points: Points, how: MpiCalls) -> Result<PhaseSeconds> {
        let mut seconds = PhaseSeconds::default();
        for (phase, seconds) in GridPhase::ALL.into_iter().zip(&mut seconds) {
            *seconds = self.take(phase, points, how)?;
        }
        self.site.remove(&self.files.join(FILE))?;
        Ok(seconds)
    }

    /// Checks the content of the file after it was closed.
    pub fn check(&mut self, points: Points, how: MpiCalls) -> Result<()> {
        for phase in [GridPhase::Create, GridPhase::Write, GridPhase::Close] {
            self.take(phase, points, how)?;
        }
        let path = self.files.join(FILE);
        self.site.check(&path, points).with_context(|| self.name(how))?;
        self.site.remove(&path)
    }

    fn take(&mut self, phase: GridPhase, points: Points, how: MpiCalls) -> Result<f64> {
        let order = GridTurn { phase, how, points, name: FILE.to_owned() };
        let taken = self.team.turn(&order);
        let taken = taken.with_context(|| format!("{} of {}", phase.name(), self.name(how)))?;
        Ok(taken.as_secs_f64())
    }
}
