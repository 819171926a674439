//! M_SYNC: all ranks write in rank order, against `MPI_File_write_ordered` and against `pwrite` at
//! the same offsets, without coordination.

use anyhow::Result;

use super::contest::ModeContest;
use super::mode_turn::ModeAccess;
use super::rivals::RivalKind;
use super::single_machine;
use crate::area::RunSettings;
use crate::report::Report;

/// Measures `sync-64k-mpi` and `sync-64k-pwrite`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let contest = ModeContest {
        label: "sync-64k",
        access: ModeAccess::Sync,
        piece_bytes: 64 << 10,
        calls: setting.choose(2048, 512),
        is_mounted: false,
        goals: &[(RivalKind::Mpi, Some(1.3)), (RivalKind::Plain, Some(0.9))],
    };
    single_machine::run(setting, report, "sync", &[contest])
}
