//! M_LOG: all ranks append to one file, first come, first served.
//!
//! Against `MPI_File_write_shared`, and for 64 KiB against processes that need no shared pointer
//! because they know their offsets: `pwrite` of blocks that are interleaved by rank.

use anyhow::Result;

use super::contest::ModeContest;
use super::mode_turn::ModeAccess;
use super::rivals::RivalKind;
use super::single_machine;
use crate::area::RunSettings;
use crate::report::Report;

/// Measures `log-64k-mpi`, `log-64k-pwrite` and `log-64-mpi`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let large = ModeContest {
        label: "log-64k",
        access: ModeAccess::Log,
        piece_bytes: 64 << 10,
        calls: setting.choose(2048, 512),
        is_mounted: false,
        goals: &[(RivalKind::Mpi, Some(1.0)), (RivalKind::Plain, Some(0.95))],
    };
    let small = ModeContest {
        label: "log-64",
        piece_bytes: 64,
        calls: setting.choose(40_000, 8_000),
        goals: &[(RivalKind::Mpi, Some(3.0))],
        ..large
    };
    single_machine::run(setting, report, "log", &[large, small])
}
