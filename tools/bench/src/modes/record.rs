//! M_RECORD: records interleaved by rank, against `MPI_File_write_at` and `pwrite` at the same
//! places.

use anyhow::Result;

use super::contest::Contest;
use super::order::What;
use super::rivals::Kind;
use super::site;
use crate::area::Setting;
use crate::report::Report;

/// Measures `record-64k-mpi`, `record-64k-pwrite`, `record-4k-mpi` and `record-4k-pwrite`.
pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let large = Contest {
        label: "record-64k",
        what: What::Record,
        piece_bytes: 64 << 10,
        calls: setting.choose(2048, 512),
        is_mounted: false,
        goals: &[(Kind::Mpi, Some(1.0)), (Kind::Plain, Some(0.95))],
    };
    let small = Contest {
        label: "record-4k",
        piece_bytes: 4 << 10,
        calls: setting.choose(24_000, 8_000),
        ..large
    };
    site::run(setting, report, "record", &[large, small])
}
