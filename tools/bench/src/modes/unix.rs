//! M_UNIX: atomic accesses to blocks interleaved by rank; against the same in MPI's atomic mode,
//! and against ours in M_ASYNC, which is not atomic.
//!
//! OMPIO is left out: it accepts the mode and locks nothing.
//!
//! Interleaved blocks never conflict; one more figure has all ranks write the same blocks. The last
//! one has a process that is alone: it must not pay for others that could open the file.

use anyhow::Result;

use super::contest::{ModeContest, PROCESSES};
use super::mode_turn::ModeAccess;
use super::mpi::Mpi;
use super::rivals::{RivalKind, Rivals};
use super::single_machine::SingleMachine;
use crate::area::RunSettings;
use crate::report::Report;

/// Measures `unix-64k-mpi`, `unix-64k-async`, `unix-same-64k-mpi` and `unix-alone-64k-async`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let contest = ModeContest {
        label: "unix-64k",
        access: ModeAccess::Unix,
        piece_bytes: 64 << 10,
        calls: setting.choose(2048, 512),
        is_mounted: false,
        goals: &[(RivalKind::Mpi, Some(5.0)), (RivalKind::Async, Some(0.7))],
    };
    let same = ModeContest {
        label: "unix-same-64k",
        access: ModeAccess::Same,
        goals: &[(RivalKind::Mpi, None)],
        ..contest
    };
    let alone = ModeContest {
        label: "unix-alone-64k",
        goals: &[(RivalKind::Async, Some(0.95))],
        ..contest
    };
    let mut site = SingleMachine::start(setting, "unix")?;
    let mut ours = site.start_ours("ours", PROCESSES)?;
    let mut rivals =
        Rivals { all: vec![site.start_async("async", PROCESSES)?], ..Rivals::default() };
    rivals.start_mpi(&Mpi::ATOMIC, site.dir(), PROCESSES)?;
    contest.run(setting, report, &mut site, &mut ours, &mut rivals)?;
    same.run(setting, report, &mut site, &mut ours, &mut rivals)?;
    drop((ours, rivals));
    let mut ours = site.start_ours("alone", 1)?;
    let all = vec![site.start_async("async-alone", 1)?];
    let mut rivals = Rivals { all, ..Rivals::default() };
    alone.run(setting, report, &mut site, &mut ours, &mut rivals)
}
