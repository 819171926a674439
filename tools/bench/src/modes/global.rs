//! M_GLOBAL: all ranks read the same bytes, which are read once; against `MPI_File_read_all` of the
//! same bytes by all, and against `pread` by each process, without coordination.
//!
//! The figure counts the bytes that all processes get together.

use anyhow::Result;

use super::contest::ModeContest;
use super::mode_turn::ModeAccess;
use super::rivals::RivalKind;
use super::single_machine;
use crate::area::RunSettings;
use crate::report::Report;

/// Measures `global-1m-mpi` and `global-1m-pread`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let contest = ModeContest {
        label: "global-1m",
        access: ModeAccess::Global,
        piece_bytes: 1 << 20,
        calls: setting.choose(256, 128),
        is_mounted: false,
        goals: &[(RivalKind::Mpi, Some(2.0)), (RivalKind::Plain, Some(1.0))],
    };
    single_machine::run(setting, report, "global", &[contest])
}
