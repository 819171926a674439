//! M_RECORD: records interleaved by rank, against `MPI_File_write_at` and `pwrite` at the same
//! places.

use anyhow::Result;

use super::contest::ModeContest;
use super::mode_turn::ModeAccess;
use super::rivals::RivalKind;
use super::single_machine;
use crate::area::RunSettings;
use crate::report::Report;

/// Measures `record-64k-mpi`, `record-64k-pwrite`, `record-4k-mpi` and `record-4k-pwrite`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let large = ModeContest {
        label: "record-64k",
        access: ModeAccess::Record,
        piece_bytes: 64 << 10,
        calls: setting.choose(2048, 512),
        is_mounted: false,
        goals: &[(RivalKind::Mpi, Some(1.0)), (RivalKind::Plain, Some(0.95))],
    };
    let small = ModeContest {
        label: "record-4k",
        piece_bytes: 4 << 10,
        calls: setting.choose(24_000, 8_000),
        ..large
    };
    single_machine::run(setting, report, "record", &[large, small])
}
