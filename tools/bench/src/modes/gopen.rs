//! Collective open and close of a file, against `MPI_File_open` and `MPI_File_close` with as many
//! processes.
//!
//! The file exists. Our side opens it in M_RECORD, whose close is collective, as in MPI. MPICH is
//! left out, because it needs a processor for each of its processes.

use anyhow::Result;

use super::contest::{ModeContest, PROCESSES};
use super::mode_turn::ModeAccess;
use super::mpi::Mpi;
use super::rivals::{RivalKind, Rivals};
use super::single_machine::SingleMachine;
use crate::area::RunSettings;
use crate::report::Report;

/// Measures `gopen-4-mpi` and `gopen-64-mpi`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let few = ModeContest {
        label: "gopen-4",
        access: ModeAccess::Open,
        piece_bytes: 64 << 10,
        calls: setting.choose(100, 20),
        is_mounted: false,
        goals: &[(RivalKind::Mpi, Some(2.0))],
    };
    let many = ModeContest { label: "gopen-64", calls: setting.choose(10, 1), ..few };
    for (contest, processes) in [(few, PROCESSES), (many, 64)] {
        let mut site = SingleMachine::start(setting, contest.label)?;
        let mut rivals = Rivals::default();
        rivals.start_mpi(&Mpi::OPEN_MPI, site.dir(), processes)?;
        let mut ours = site.start_ours("ours", processes)?;
        contest.run(setting, report, &mut site, &mut ours, &mut rivals)?;
    }
    Ok(())
}
